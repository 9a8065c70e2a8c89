"""The command: what it keeps, what it overwrites, what it lists, and what it never writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store
from cortex_replay.bindings import Surroundings
from tests.cassettes.conftest import (
    ASKED,
    Imported,
    interaction,
    reasons,
    run,
    said,
    tree,
    write,
)
from tests.engine.http.harness import ask as call, run_over

KEY = "sk-ant-api03-" + "k3Y" * 27
OTHER_KEY = "gateway-key-of-our-own-88417263"


def texts(root: Path, scope: str = "") -> list[str]:
    """The answers of the one fixture that a scope gets."""
    store = Store.open(root)
    (stored,) = store.list()
    return [answer.text for answer in store.get(stored.model, stored.prompt_hash, scope).answers]


def test_answers_come_in_the_order_of_a_cassette(imported: Imported, tmp_path: Path) -> None:
    """Those that are the same to the byte are one; its test may look at the id of each."""
    different = [interaction(answer=said(text)) for text in ("One.", "Two.", "One.")]
    same = [interaction({**ASKED, "system": "s"}, said("Same.")) for i in range(3)]
    other = [interaction({**ASKED, "system": "o"}, said("Like.", id=f"msg_{i}")) for i in range(2)]
    report = imported(write(tmp_path / "a.yaml", *different, *same, *other))
    store = Store.open(tmp_path / "store")
    found = sorted(
        [answer.text for answer in store.get(one.model, one.prompt_hash).answers] for one in store.list()
    )

    assert found == [["Like.", "Like."], ["One.", "Two.", "One."], ["Same."]]
    assert (report["exit"], report["answers"]) == (0, 8)


def test_each_test_keeps_the_answers_of_its_cassette(imported: Imported, tmp_path: Path) -> None:
    """Whatever others were answered to the same; those that were answered the same share a file."""
    (tmp_path / "test_m.py").touch()
    said_by = {"test_a": ["One."], "test_b": ["One.", "Two."], "test_c": ["Other."], "test_d": ["One."]}
    for test, answers in said_by.items():
        given = [interaction(answer=said(text)) for text in answers]
        write(tmp_path / f"cassettes/test_m/{test}.yaml", *given)
    report = imported(tmp_path / "cassettes")

    for test, answers in said_by.items():
        assert texts(tmp_path / "store", f"test_m.py::{test}") == answers
    assert (report["exit"], report["answers"], report["repeated"]) == (0, 4, 1)
    assert len(report["added"]) == 3


def test_each_test_keeps_its_sequence_of_calls(imported: Imported, tmp_path: Path) -> None:
    """Polls, counters, files: the same call is answered otherwise each time."""
    (tmp_path / "test_m.py").touch()
    run_1: Any = {"asked": None, "method": "GET", "uri": "https://api.openai.com/v1/threads/t/runs/r"}
    said_by = {"test_a": ["queued", "done"], "test_b": ["failed"], "test_c": ["queued", "done"]}
    for test, states in said_by.items():
        given = [interaction(answer={"status": state}, **run_1) for state in states]
        write(tmp_path / f"cassettes/test_m/{test}.yaml", *given)
    report = imported(tmp_path / "cassettes")
    store = Store.open(tmp_path / "store")
    (key,) = store.exchange_keys()

    assert (report["exit"], report["exchanges"], report["repeated"], len(report["added"])) == (0, 3, 2, 2)
    for test, states in said_by.items():
        exchange = store.exchange(key, f"test_m.py::{test}")
        assert exchange is not None
        assert [json.loads(str(wire["body"]))["status"] for wire in exchange.wires] == states


def test_what_differs_in_ids_alone_is_one_question(imported: Imported, tmp_path: Path) -> None:
    """Each answer names the id of its own call; on replay, that of whoever asks. A place stays as it is."""
    ids = [f"{n}f2b8c1e-9a54-4d6f-8e21-5b7c0d9e4a11" for n in range(3)]

    def asked(one: str) -> Any:
        return {**ASKED, "messages": [{"role": "user", "content": f"In /home/ann, session {one}."}]}

    given = [interaction(asked(one), said(f"{number} of {one}")) for number, one in enumerate(ids[:2])]
    counted: Any = {"method": "POST", "uri": "https://api.anthropic.com/v1/messages/count_tokens"}
    given += [interaction(asked(one), {"input_tokens": 7, "of": one}, **counted) for one in ids[:2]]
    report = imported(write(tmp_path / "a.yaml", *given))
    again = imported(tmp_path / "a.yaml")
    path = "/anthropic/v1/messages"
    with run_over(
        tmp_path / "store", surroundings=Surroundings.of({}, "/home/ann"), every_answer=True
    ) as replay:
        got = [call(replay, "POST", path, asked(ids[2])).json["content"][0]["text"] for _ in range(2)]
        count = call(replay, "POST", f"{path}/count_tokens", asked(ids[2])).json

    assert texts(tmp_path / "store") == ["0 of ⟦uuid#1⟧", "1 of ⟦uuid#1⟧"]
    assert (report["exit"], report["answers"], report["exchanges"]) == (0, 2, 2)
    assert (again["answers"], again["exchanges"], again["repeated"]) == (0, 0, 4)
    assert (got, count["of"]) == ([f"0 of {ids[2]}", f"1 of {ids[2]}"], ids[2])


def test_a_second_time_nothing_changes(imported: Imported, tmp_path: Path) -> None:
    models = interaction(None, {"data": []}, method="GET", uri="https://api.openai.com/v1/models")
    file = write(tmp_path / "a.yaml", interaction(), models)
    first = imported(file)
    before = tree(tmp_path / "store")
    again = imported(file)

    assert (first["exit"], first["answers"], first["exchanges"], len(first["added"])) == (0, 1, 1, 2)
    assert (again["exit"], again["answers"], again["exchanges"], again["repeated"]) == (0, 0, 0, 2)
    assert tree(tmp_path / "store") == before
    assert imported(file, "--mode", "record")["added"] == []


def test_what_the_store_has_is_kept_or_overwritten(imported: Imported, tmp_path: Path) -> None:
    models: Any = {"asked": None, "method": "GET", "uri": "https://api.openai.com/v1/models"}
    file = tmp_path / "a.yaml"
    imported(write(file, interaction(answer=said("Old.")), interaction(answer={"n": 1}, **models)))
    write(file, interaction(answer=said("New.")), interaction(answer={"n": 2}, **models))

    kept = imported(file)
    assert (kept["exit"], kept["added"], len(kept["not_converted"])) == (4, [], 2)
    assert all("has another answer in the store, which is kept" in reason for reason in reasons(kept))
    assert texts(tmp_path / "store") == ["Old."]

    overwritten = imported(file, "--mode", "record")
    assert (overwritten["exit"], overwritten["overwritten"], len(overwritten["removed"])) == (0, 2, 2)
    assert texts(tmp_path / "store") == ["New."]


def test_more_answers_are_added_to_those_that_are_there(imported: Imported, tmp_path: Path) -> None:
    imported(write(tmp_path / "a.yaml", interaction(answer=said("One."))))
    report = imported(
        write(tmp_path / "a.yaml", interaction(answer=said("One.")), interaction(answer=said("Two.")))
    )

    assert (report["exit"], report["answers"], report["repeated"]) == (0, 1, 1)
    assert texts(tmp_path / "store") == ["One.", "Two."]


def test_failures_are_taken_in_their_turn(imported: Imported, tmp_path: Path) -> None:
    overloaded: Any = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}}
    file = write(tmp_path / "a.yaml", interaction(answer=overloaded, status=529), interaction())

    recorded = imported(file)
    assert (recorded["exit"], recorded["failures"], recorded["answers"]) == (0, 1, 1)
    store = Store.open(tmp_path / "store")
    (stored,) = store.list()
    (failure,) = store.failures(stored.model, stored.prompt_hash).items()
    assert (failure[0], failure[1].wire["status"]) == (1, 529)
    assert imported(file, "--record-failures")["repeated"] == 2, "a flag of earlier versions"


def test_a_dry_run_writes_nothing(imported: Imported, tmp_path: Path) -> None:
    """And tells what the run itself would, whether there is a store or not."""
    file = write(tmp_path / "a.yaml", interaction(), interaction("<FILTERED>"))
    before = tree(tmp_path)
    dry = imported(file, "--dry-run")
    assert tree(tmp_path) == before
    assert not (tmp_path / "store").exists()
    wet = imported(file)
    unlike = ("dry_run", "added")
    assert {k: v for k, v in dry.items() if k not in unlike} == {
        k: v for k, v in wet.items() if k not in unlike
    }

    before = tree(tmp_path)
    more = write(tmp_path / "b.yaml", interaction({**ASKED, "system": "s"}), interaction(answer=said("New.")))
    before |= {"b.yaml": more.read_bytes()}
    report = imported(more, "--dry-run")
    assert (report["exit"], report["answers"], len(report["not_converted"])) == (0, 2, 0)
    assert tree(tmp_path) == before


def test_keys_are_nowhere_in_the_store(imported: Imported, tmp_path: Path) -> None:
    """Whether they stood in headers, queries, questions or answers, of the same interaction or another."""
    leaked = {**ASKED, "system": f"Use {OTHER_KEY}."}
    gemini = f"https://generativelanguage.googleapis.com/v1beta/models?key={OTHER_KEY}&pageSize=5"
    file = write(
        tmp_path / "a.yaml",
        interaction(answer=said(f"Your key is {KEY}."), asked_headers={"X-Api-Key": [KEY]}),
        interaction(leaked, said("Yes.")),
        interaction(None, {"models": [], "echo": OTHER_KEY}, method="GET", uri=gemini),
        interaction(
            {**ASKED, "system": "s"},
            asked_headers={"authorization": [f"Bearer {OTHER_KEY}"]},
            headers={"content-type": ["application/json"], "set-cookie": ["session=51c0ffee51c0ffee"]},
        ),
        interaction(
            {"input": f"embed {OTHER_KEY}", "model": "e"},
            {"data": []},
            uri="https://api.openai.com/v1/embeddings",
        ),
    )
    report = imported(file)
    stored = b"".join(tree(tmp_path / "store").values())

    assert (report["answers"], report["exchanges"], report["redacted"]) == (3, 1, 3)
    assert reasons(report) == ["there is a secret in what was asked"]
    for secret in (KEY, OTHER_KEY, "51c0ffee"):
        assert secret.encode() not in stored
    assert b"[REDACTED:" in stored
    assert b"pageSize" in stored


def test_what_was_redacted_is_recognised(imported: Imported, tmp_path: Path) -> None:
    """The store has it without the key, and the cassette still with it."""
    refused = {"type": "error", "error": {"type": "invalid_request_error", "message": f"not {KEY}"}}
    file = write(
        tmp_path / "a.yaml",
        interaction(answer=said(f"Your key is {KEY}."), asked_headers={"X-Api-Key": [KEY]}),
        interaction({**ASKED, "system": "s"}, refused, status=400),
    )
    first = imported(file, "--record-failures")
    again = imported(file, "--record-failures")
    over = imported(file, "--record-failures", "--mode", "record")

    assert (first["answers"], first["failures"], first["redacted"]) == (1, 1, 2)
    assert (again["exit"], again["repeated"], again["answers"], again["failures"]) == (0, 2, 0, 0)
    assert over["overwritten"] == 0


def test_a_key_of_one_cassette_is_cut_out_of_all(
    imported: Imported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where there are more of them than a process remembers: those of an import are all known to it."""
    own_key = "a-key-that-no-other-test-has-55120934"  # what is learned once stays known to the process
    monkeypatch.setattr("cortex_replay.cassettes.importing.learn_secret", lambda _: None)
    write(tmp_path / "cassettes/a.yaml", interaction(answer=said(f"It is {own_key}.")))
    write(tmp_path / "cassettes/b.yaml", interaction(asked_headers={"x-api-key": [own_key]}))

    assert imported(tmp_path / "cassettes")["exit"] == 0
    assert all(own_key.encode() not in file.read_bytes() for file in (tmp_path / "store").rglob("*.json"))


@pytest.mark.parametrize("placeholder", ["REDACTED", "XXXXXX", "**REDACTED**", "DUMMY"])
def test_what_stands_for_a_filtered_key_is_no_secret(
    placeholder: str, imported: Imported, tmp_path: Path
) -> None:
    given = interaction(answer=said(f"Say {placeholder}."), asked_headers={"x-api-key": [placeholder]})
    report = imported(write(tmp_path / "a.yaml", given))

    assert (report["exit"], report["redacted"]) == (0, 0)
    assert texts(tmp_path / "store") == [f"Say {placeholder}."]


def test_a_question_that_was_changed_by_hand_is_taken_and_counted(imported: Imported, tmp_path: Path) -> None:
    """Its test was changed, too. JSON that a filter wrote anew, with nothing changed, is not counted."""
    sent = json.dumps(ASKED, separators=(",", ":"))
    anew = interaction(json.dumps(ASKED), asked_headers={"content-length": [str(len(sent))]})
    by_hand = interaction({**ASKED, "system": "s"}, asked_headers={"content-length": ["1234"]})
    report = imported(write(tmp_path / "a.yaml", anew, by_hand))

    assert (report["exit"], report["answers"], report["changed"]) == (0, 2, 1)


def test_what_a_question_need_not_say_may_be_left_unsaid(imported: Imported, tmp_path: Path) -> None:
    """A later version of a client sends no ``n: 1``. What another interaction answers goes before."""
    uri = "https://api.openai.com/v1/chat/completions"
    chat = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    other = {"model": "m", "messages": [{"role": "user", "content": "Ho"}]}

    def asked(body: dict[str, Any], text: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return interaction(
            body, {"id": "c", "model": "m", "object": "chat.completion", "choices": [choice]}, uri=uri
        )

    file = write(
        tmp_path / "a.yaml",
        asked({**chat, "n": 1, "logprobs": False}, "One."),
        asked({**other, "n": 1}, "Two."),
        asked(other, "Three."),
        asked({**chat, "n": 2}, "Four."),
    )
    report = imported(file)
    store = Store.open(tmp_path / "store")
    found: dict[str, list[str]] = {}
    for one in store.list():
        fixture = store.get(one.model, one.prompt_hash)
        assert fixture.request is not None
        question = f"{fixture.request.messages[0].content} {fixture.request.extra}"
        found[question] = [answer.text for answer in fixture.answers]

    assert found == {
        "Hi {'n': 1, 'logprobs': False}": ["One."],
        "Hi {'n': 1}": ["One."],
        "Hi {'logprobs': False}": ["One."],
        "Hi {}": ["One."],
        "Ho {'n': 1}": ["Two."],
        "Ho {}": ["Three."],
        "Hi {'n': 2}": ["Four."],
    }
    assert (report["exit"], report["answers"], report["interactions"]) == (0, 4, 4)


def test_a_tool_need_not_say_that_it_is_a_function(imported: Imported, tmp_path: Path) -> None:
    """Mistral's client once left the type out. A tool that says another one stays what it is."""
    function = {"name": "look", "parameters": {"type": "object"}}
    tools: list[Any] = [{"function": function}, {"type": "other", "function": function}]
    chat = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": tools, "n": 1}
    message = {"role": "assistant", "content": "One."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    answer = {"id": "c", "model": "m", "object": "chat.completion", "choices": [choice]}
    uri = "https://api.mistral.ai/v1/chat/completions"
    report = imported(write(tmp_path / "a.yaml", interaction(chat, answer, uri=uri)))
    store = Store.open(tmp_path / "store")
    fixtures = [store.get(one.model, one.prompt_hash) for one in store.list()]
    asked = [fixture.request for fixture in fixtures if fixture.request is not None]

    plain = {"name": "look", "input_schema": {"type": "object"}}
    said_types = [(request.tools[0] == plain, request.extra) for request in asked]
    assert sorted(said_types, key=str) == [(False, {"n": 1}), (False, {}), (True, {"n": 1}), (True, {})]
    assert {request.tools[1] == tools[1] for request in asked} == {True}
    assert (report["exit"], report["answers"]) == (0, 1)


def test_labelled_text_stays_where_it_is(imported: Imported, tmp_path: Path) -> None:
    given = interaction(answer=said("[SENSITIVITY:high] the plan"))
    as_it_is = interaction(
        answer={"data": ["[SENSITIVITY:high] the plan"]},
        uri="http://localhost:11434/api/tags",
        asked=None,
        method="GET",
    )
    report = imported(write(tmp_path / "a.yaml", given, as_it_is))

    assert (report["exit"], report["added"]) == (4, [])
    reasons = [left["reason"] for left in report["not_converted"]]
    assert ["labelled above what this store may hold (medium)" in reason for reason in reasons] == [True] * 2


def test_hosts(imported: Imported, tmp_path: Path) -> None:
    """Known ones, those that a path tells, those that a person names; others only if all are wanted."""
    get: Any = {"asked": None, "method": "GET"}
    file = write(
        tmp_path / "a.yaml",
        interaction(answer={"a": 1}, uri="http://127.0.0.1:8080/v1/models", **get),
        interaction(answer={"b": 1}, uri="http://localhost:11434/api/tags", **get),
        interaction(answer={"c": 1}, uri="http://127.0.0.1:9000/status", **get),
        interaction(answer={"d": 1}, uri="https://api.mistral.ai/v1/agents", **get),
        interaction(answer={"e": 1}, uri="https://example.com/weather?city=Paris", **get),
        interaction({**ASKED, "system": "1"}, uri="https://gateway.example.com/claude/v1/messages"),
    )
    report = imported(file, "--dry-run")
    assert [left["call"] for left in report["not_converted"]] == [
        "GET 127.0.0.1:9000/status",
        "GET example.com/weather",
    ]
    assert (
        imported(file, "--all", "--host", "127.0.0.1:9000=mine", "--host", "127.0.0.1:8080=ollama")["exit"]
        == 0
    )
    store = Store.open(tmp_path / "store")
    asked = sorted(
        f"{request['upstream']} {request['path']}"
        for key in store.exchange_keys()
        if (exchange := store.exchange(key)) is not None and (request := exchange.request) is not None
    )
    assert asked == [
        "https://example.com /weather",
        "mine /status",
        "mistral /v1/agents",
        "ollama /api/tags",
        "ollama /v1/models",
    ]
    assert len(store) == 1


@pytest.mark.parametrize(
    "uri",
    [
        "https://openrouter.ai/api/v1/chat/completions",
        "https://api.groq.com/openai/v1/chat/completions",
        "https://api.deepseek.com/chat/completions",
        "https://me.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-06-01",
        "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
        "http://127.0.0.1:1234/v1/chat/completions",
    ],
)
def test_one_protocol_at_many_addresses(uri: str, imported: Imported, tmp_path: Path) -> None:
    """The key is that of the conversation, whoever answered."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi!"}, "finish_reason": "stop"}
    answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    report = imported(write(tmp_path / "a.yaml", interaction(ASKED, answer, uri=uri)))

    assert (report["exit"], report["answers"]) == (0, 1), report
    assert texts(tmp_path / "store") == ["Hi!"]


def test_a_folder(imported: Imported, tmp_path: Path) -> None:
    """Other YAML is listed, hidden folders and stores are left alone, a name needs no ending."""
    folder = tmp_path / "cassettes"
    write(folder / "test_m/test_one[a-b].yaml", interaction())
    write(folder / "test_m/no_ending", interaction({**ASKED, "system": "s"}))
    (folder / "settings.yml").write_text("debug: true\n")
    (folder / "evil.yaml").write_text("a: !!python/object/apply:os.getcwd []\n")
    (folder / "empty.yaml").write_text("")
    (folder / "notes.txt").write_text("interactions are below\n")
    write(folder / ".cache/old.yaml", interaction())
    Store.create(folder / "llm")
    (folder / "llm/x.yaml").write_text("a: 1\n")
    report = imported(folder)

    assert (report["exit"], report["cassettes"], report["answers"]) == (4, 2, 2)
    assert [(Path(left["file"]).name, left["number"]) for left in report["not_converted"]] == [
        ("empty.yaml", None),
        ("evil.yaml", None),
        ("settings.yml", None),
    ]
    assert reasons(report)[0] == reasons(report)[2] == "it is not a cassette"
    assert "python/object/apply:os.getcwd" in reasons(report)[1]


def test_where_a_recording_comes_from(imported: Imported, tmp_path: Path) -> None:
    imported(write(tmp_path / "cassettes/test_m/test_one.yaml", interaction()))
    store = Store.open(tmp_path / "store")
    (stored,) = store.list()
    meta = store.get(stored.model, stored.prompt_hash).meta or {}

    assert (meta["adapter"], meta["cassette"], meta["interaction"]) == ("import", "test_m/test_one.yaml", 1)
    assert str(tmp_path).encode() not in b"".join(tree(tmp_path / "store").values())


def test_a_broken_store_is_not_written_to(imported: Imported, tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", interaction())
    imported(file)
    (tmp_path / "store/fixtures/stray.json").write_text("{}")
    before = tree(tmp_path / "store")
    other = write(tmp_path / "b.yaml", interaction({**ASKED, "system": "s"}))
    for flags in ([], ["--dry-run"]):
        result = run("--store", tmp_path / "store", other, *flags)
        assert getattr(result.exception, "exit_code", None) == 5
    assert tree(tmp_path / "store") == before


def test_the_rules_of_the_store_make_the_keys(imported: Imported, tmp_path: Path) -> None:
    """A normaliser that is configured there applies here, too."""
    (tmp_path / "cortex-replay.toml").write_text(
        "[normalisers.date]\npattern = '\\d{4}-\\d\\d-\\d\\d'\nplaceholder = '<date>'\n"
    )
    given = [interaction({**ASKED, "system": f"Today is 2026-01-0{day}."}) for day in (1, 2)]
    report = imported(write(tmp_path / "a.yaml", *given))

    assert report["exit"] == 0
    assert texts(tmp_path / "store") == ["Hi!"]
    assert json.dumps("Today is <date>.").encode() in b"".join(tree(tmp_path / "store").values())
