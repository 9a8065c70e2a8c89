"""``cortex-replay refresh``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from cortex_replay import Answer, Fixture, Store
from cortex_replay.adapters.base import as_one_chunk
from cortex_replay.canonical import JsonValue
from cortex_replay.providers import address_at
from cortex_replay.wire import WIRES
from tests.adapters.fake_provider import Exchange, FakeProvider, serving_in_thread
from tests.builder import ask
from tests.cli.commands import at_a_shell, record_answers, run
from tests.engine.http.harness import PATHS, PROTOCOLS, ask as call, body_of, run_over
from tests.gateway.upstream import REAL_KEY, model_server

pytestmark = pytest.mark.usefixtures("in_a_folder")


def refresh(*arguments: str) -> Result:
    return run("refresh", *arguments)


def test_refresh_shows_what_changed_and_writes_it() -> None:
    Path("now.toml").write_text(
        '[[rule]]\nwhen = { contains = "one" }\nsay = "A.\\nC."\n[[rule]]\nsay = "Same."\n'
    )
    record_answers((ask("one"), "A.\nB."), (ask("two"), "Same."))
    command = ("--provider", "scripted", "--script", "now.toml")

    checked = refresh(*command, "--check", "--fail-on", "words")
    assert checked.exit_code == 4
    assert "| -B." in checked.stdout
    assert "| +C." in checked.stdout
    assert "2 asked again, 1 differ, 0 failed, 0 not asked" in checked.stdout
    assert Store.open(".").get(*Store.open(".").key(ask("one"))).answers[0].text == "A.\nB."

    result = refresh(*command)
    assert result.exit_code == 0
    assert "1 replaced" in result.stdout
    assert Store.open(".").get(*Store.open(".").key(ask("one"))).answers[0].text == "A.\nC."
    assert refresh(*command, "--check").exit_code == 0


def test_refresh_lists_what_it_cannot_ask() -> None:
    """With the reason; and asks the others."""
    record_answers((ask("fine"), "fine"), adapter="echo")
    record_answers((ask("who?"), "x"), adapter="handwritten")
    record_answers(
        (
            ask(
                "",
                messages=[{"role": "user", "content": "", "parts": [{"type": "image", "blake3": "0" * 64}]}],
            ),
            "x",
        ),
        adapter="echo",
    )

    result = refresh("--check")
    assert result.exit_code == 0
    assert "it does not say who answered" in result.stderr
    assert "only the hash of some data" in result.stderr
    assert "1 asked again, 0 differ, 0 failed, 2 not asked" in result.stdout
    assert refresh("--check", "--strict").exit_code == 1

    report = json.loads(refresh("--check", "--json").stdout)
    assert (report["asked"], len(report["not_asked"]), report["changed"]) == (1, 2, [])


@pytest.mark.parametrize("option", ["", "--json"])
def test_checking_writes_nothing_whatever_happens(option: str) -> None:
    """Neither to the store nor to staging, also when nobody reads the report."""
    Path("now.toml").write_text('[[rule]]\nsay = "Now."\n')
    record_answers(*((ask(f"q{n}"), "Then.") for n in range(30)))
    command = f"cortex-replay refresh --check --fail-on words --provider scripted --script now.toml {option}"

    done = at_a_shell(f"set -o pipefail; {command} | true")

    assert done.returncode == 4
    assert Store.open(".").abandoned().answers == 0
    assert refresh("--check", "--store", "nowhere").exit_code != 0
    assert not Path("nowhere").exists()


def test_a_refresh_is_written_even_if_nobody_reads() -> None:
    Path("now.toml").write_text('[[rule]]\nsay = "Now."\n')
    record_answers(*((ask(f"q{n}"), "Then.") for n in range(300)))
    command = f"{sys.executable} -m cortex_replay refresh --provider scripted --script now.toml"

    subprocess.run(["bash", "-c", f"{command} | head -1"], check=True, stdout=subprocess.DEVNULL)

    store = Store.open(".")
    assert {store.get(*store.key(ask(f"q{n}"))).answers[0].text for n in range(300)} == {"Now."}


def test_a_refresh_that_fails_half_way_leaves_the_fixture() -> None:
    Path("now.toml").write_text(
        '[[rule]]\nanswers = [{ say = "New." }, { error = { status = 500, message = "down" } }]\n'
    )
    store = Store.create(".")
    answers = [Answer(text, finish_reason="stop") for text in ("A.", "B.")]
    store.add(Fixture.of(ask("q"), *answers, meta={"adapter": "scripted"}))
    store.commit()

    result = refresh("--script", "now.toml", "--provider", "scripted")

    assert result.exit_code == 1
    assert "1 failed" in result.stdout
    assert [a.text for a in Store.open(".").get(*store.key(ask("q"))).answers] == ["A.", "B."]


def test_the_number_of_the_first_call_stays_that_of_the_first_answer() -> None:
    Path("now.toml").write_text('[[rule]]\nanswers = [{ say = "New." }, { say = "Newer." }]\n')
    store = Store.create(".")
    answers = [Answer(text, finish_reason="stop") for text in ("A.", "B.")]
    store.add(Fixture.of(ask("q"), *answers, meta={"adapter": "scripted", "call": 3}))
    store.commit()

    assert refresh("--script", "now.toml", "--provider", "scripted").exit_code == 0

    fixture = Store.open(".").get(*store.key(ask("q")))
    assert [answer.text for answer in fixture.answers] == ["New.", "Newer."]
    assert (fixture.meta or {})["call"] == 3
    assert "call" not in (fixture.answers[1].meta or {})


def test_a_refresh_shows_no_secret_and_no_drift_where_one_was_cut_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-9d8c7b6a5")
    Path("leak.toml").write_text('[[rule]]\nsay = "It is canary-9d8c7b6a5."\n')
    scripted = ("--provider", "scripted", "--script", "leak.toml")
    run("record", *scripted, "--model", "m", "--prompt", "Tell.")

    result = refresh(*scripted, "--check")

    assert result.exit_code == 0, result.output
    assert "canary" not in result.output


def test_a_refresh_does_not_guess_which_server_answered() -> None:
    record_answers((ask("private"), "x"), adapter="openai-compat")

    result = refresh("--check")

    assert "does not say who answered" in result.stderr
    assert "0 asked again" in result.stdout
    assert "error: none of 1 recording could be asked again; nothing was checked" in result.stderr
    assert result.exit_code == 1


def test_one_that_is_refused_does_not_keep_the_others_from_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has failed, and stays as it was."""
    secret = ask("q", model="model-canary-9d8c7b6a5")
    record_answers((ask("one"), "Then."), (secret, "Then."), (ask("two"), "Then."))
    monkeypatch.setenv("SOME_API_KEY", "canary-9d8c7b6a5")
    Path("now.toml").write_text('[[rule]]\nsay = "Now."\n')
    scripted = ("--provider", "scripted", "--script", "now.toml")

    result = refresh(*scripted)

    assert result.exit_code == 1, result.output
    assert "3 asked again, 2 replaced, 1 failed, 0 not asked" in result.stdout
    assert "recording refused" in result.stderr
    assert "canary" not in result.output
    store = Store.open(".")
    texts = [store.get(*store.key(request)).answers[0].text for request in (ask("one"), secret, ask("two"))]
    assert texts == ["Now.", "Then.", "Now."]
    report = json.loads(refresh(*scripted, "--json").stdout)
    assert ([one["written_to"] for one in report["changed"]], len(report["failed"])) == ([None], 1)
    assert store.abandoned().answers == 0


def test_a_check_is_at_home_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """It records nothing; a refresh does."""
    record_answers((ask("q"), "q"), adapter="echo")
    monkeypatch.setenv("CI", "true")

    assert refresh("--check").stderr == ""
    assert "warning: recording" in refresh().stderr


def test_only_some_models_are_asked() -> None:
    record_answers((ask("q", model="a-1"), "q"), (ask("q", model="b-1"), "q"), adapter="echo")

    assert "1 asked again" in refresh("--check", "--model", "a-*").stdout


@pytest.mark.parametrize(
    "arguments", [["x"], ["--mode", "once"], ["--prompt", "x"], ["--provider", "parrot"]]
)
def test_wrong_usage(arguments: list[str]) -> None:
    record_answers((ask("q"), "q"))

    assert refresh(*arguments).exit_code == 2


def test_a_budget_holds() -> None:
    record_answers(*((ask(f"q{n}"), f"q{n}") for n in range(3)), adapter="echo")

    result = refresh("--check", "--budget-calls", "2", "--jobs", "1")

    assert result.exit_code == 1
    assert "3 asked again, 0 differ, 1 failed" in result.stdout


def test_record_with_refresh_names_the_command_and_does_the_same() -> None:
    Path("now.toml").write_text('[[rule]]\nsay = "Now."\n')
    record_answers((ask("one"), "Then."), (ask("two", model="other"), "Then."))
    options = ("--check", "--provider", "scripted", "--script", "now.toml", "--model", "other", "--json")

    former, now = run("record", "--refresh", *options), refresh(*options)

    assert former.stderr == "warning: record --refresh is now: cortex-replay refresh\n"
    assert (former.exit_code, former.stdout) == (now.exit_code, now.stdout)
    assert (now.exit_code, now.stderr, json.loads(now.stdout)["asked"]) == (0, "", 1)


WAYS = [(protocol, is_stream) for protocol in PROTOCOLS for is_stream in (False, True)]
"""Every way in which a client asks: each wire, whole and as a stream."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """A model server that the environment names, with its key, as it does for SDKs."""
    with model_server() as serving:
        name_server(monkeypatch, serving.url)
        yield serving


def name_server(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    for name, behind in (
        ("OPENAI_BASE_URL", "/v1"),
        ("ANTHROPIC_BASE_URL", ""),
        ("OLLAMA_HOST", ""),
        ("CO_API_URL", ""),
        ("GOOGLE_GEMINI_BASE_URL", ""),
        ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", ""),
    ):
        monkeypatch.setenv(name, url + behind)
    keys = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CO_API_KEY", "GEMINI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK")
    for name in keys:
        monkeypatch.setenv(name, REAL_KEY)


def record_calls(url: str, origin: str = "gateway") -> None:
    """Have a client of each wire record something in this folder."""
    with run_over(Path(), "once", url, origin=origin) as recording:
        for protocol, is_stream in WAYS:
            asked = ask(f"{protocol} {is_stream}")
            got = call(recording, "POST", PATHS[protocol], body_of(protocol, asked, stream=is_stream))
            assert got.status == 200
        call(recording, "POST", "/openai/v1/embeddings", {"model": "m", "input": "x"})


@pytest.mark.parametrize("origin", ["gateway", "pytest"])
def test_what_clients_recorded_is_asked_again_over_the_wire_that_it_came_over(
    server: FakeProvider, origin: str
) -> None:
    record_calls(server.url, origin)
    before = [(one.path, one.json) for one in server.received if "embed" not in one.path]
    server.received.clear()

    checked = refresh("--check", "--jobs", "1")

    assert checked.exit_code == 0, checked.output
    assert f"{len(WAYS)} asked again, 0 differ, 0 failed, 0 not asked" in checked.stdout
    assert "not asked: 1 exchange:" in checked.stderr
    after = [(one.path, one.json) for one in server.received]
    assert sorted(after, key=str) == sorted(before, key=str)
    names = ("authorization", "x-api-key", "x-goog-api-key")
    keys = {tuple(one.headers.get(name) for name in names) for one in server.received}
    assert keys == {
        (f"Bearer {REAL_KEY}", None, None),
        (None, REAL_KEY, None),
        (None, None, REAL_KEY),
        (None, None, None),  # Ollama has none
    }


async def _say_otherwise(exchange: Exchange) -> None:
    """Answer every wire with one sentence that nobody has recorded."""
    address = address_at(exchange.received.path.partition("?")[0])
    assert address is not None
    wire = WIRES[address.protocol]
    response = Answer("Now.", finish_reason="stop").response("m")
    if not wire.wants_stream({**exchange.received.json, **dict(address.parameters)}):
        await exchange.whole(json.dumps(wire.encode_answer(response, "now")).encode())
        return
    encoder = wire.stream_encoder("m", "now")
    await exchange.start_stream(wire.stream_media_type)
    await exchange.piece(encoder.start() + encoder.chunk(as_one_chunk(response)))
    await exchange.end_stream()


def test_an_answer_that_changed_is_noticed_and_written_as_the_bytes_that_came(
    server: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every wire; and what the recording said of the test that made it stays."""
    record_calls(server.url)
    with serving_in_thread(_say_otherwise) as now:
        name_server(monkeypatch, now.url)  # also on this machine, on another port
        checked = refresh("--check", "--fail-on", "words", "--json")
        assert checked.exit_code == 4, checked.output
        assert len(json.loads(checked.stdout)["changed"]) == len(WAYS)
        assert refresh().exit_code == 0

    store = Store.open(".")
    for protocol, is_stream in WAYS:
        fixture = store.get(*store.key(ask(f"{protocol} {is_stream}")))
        wire, meta = fixture.answers[0].wire or {}, fixture.meta or {}
        assert fixture.answers[0].text == "Now."
        assert (wire["protocol"], wire["stream"]) == (protocol, is_stream)
        assert (meta["adapter"], meta["wire"]) == ("gateway", protocol)
        assert str(meta["upstream"]).removesuffix("/v1") == now.url
    assert run("verify").exit_code == 0


def test_what_a_recording_says_of_its_test_stays(server: FakeProvider) -> None:
    record_calls(server.url)
    store = Store.open(".")
    fixture = store.get(*store.key(ask("openai-chat False")))
    answer = replace(fixture.answers[0], text="Then.", wire=None)
    meta: dict[str, JsonValue] = {**(fixture.meta or {}), "tests": ["test_it"]}
    store.replace(replace(fixture, answers=(answer,), meta=meta))
    store.commit()

    assert "1 replaced" in refresh().stdout

    now = Store.open(".").get(*fixture.key)
    assert now.answers[0].text.startswith("You said")
    assert (now.meta or {})["tests"] == ["test_it"]


def test_without_a_key_nothing_is_asked_and_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    meta = {"adapter": "gateway", "provider": "openai", "upstream": "https://api.openai.com/v1"}
    store = Store.create(".")
    store.add(Fixture.of(ask("q"), "x", meta={**meta, "wire": "openai-chat"}))
    store.commit()

    result = refresh("--check")

    assert result.exit_code == 1
    assert "there is no key for openai; set OPENAI_API_KEY" in result.stderr


def test_a_call_that_fails_is_named_and_the_others_are_asked(
    server: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_calls(server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "another-key-than-the-server-s")

    result = refresh("--check")

    assert result.exit_code == 1
    assert f"{len(WAYS)} asked again, 0 differ, 2 failed" in result.stdout
    assert "bad key" in result.stderr


@pytest.mark.parametrize("pattern", [None, "gpt-*"])
def test_where_there_is_nothing_to_ask_the_check_has_failed(pattern: str | None) -> None:
    if pattern is None:
        Store.create(".").commit()
        result = refresh("--check")
        assert "there is no recording of a model's answer here" in result.stderr
    else:
        record_answers((ask("q"), "q"), adapter="echo")
        result = refresh("--check", "--model", pattern)
        assert "no recording is of a model 'gpt-*'; there are test-model" in result.stderr

    assert result.exit_code == 1


def test_what_a_cache_was_told_is_told_again(server: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block by block, though a value of this place in the first one has another length in the recording."""
    marker = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    a, b = {"type": "text", "text": f"You work in {Path.cwd()}."}, {"type": "text", "text": "b"}
    talk = [{"role": "user", "content": [a | marker, b]}]
    body = {"model": "m", "max_tokens": 9, "system": [a | marker, b], "messages": talk, "stream": False}
    with run_over(Path(), "once", server.url) as recording:
        assert call(recording, "POST", PATHS["anthropic-messages"], body).status == 200
    sent = server.received[0].json
    server.received.clear()
    (stored,) = Store.open(".").list()
    before = Store.open(".").get(stored.model, stored.prompt_hash).meta or {}

    with serving_in_thread(_say_otherwise) as now:
        name_server(monkeypatch, now.url)
        assert refresh().exit_code == 0
        (asked,) = now.received

    assert asked.json == {name: value for name, value in sent.items() if name != "stream"}
    after = Store.open(".").get(stored.model, stored.prompt_hash).meta or {}
    assert after["cache"] == before["cache"]
    assert str(after["run"]) != before["run"]
    assert str(after["asked_at"]) > str(before["asked_at"])
