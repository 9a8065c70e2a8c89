"""``refresh`` in a hostile repository: a recording says whom to ask, and may be a stranger's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cortex_replay import Fixture, Store
from cortex_replay.canonical import JsonValue
from cortex_replay.cli.main import main
from tests.adapters.fake_provider import Exchange, FakeProvider, serving_in_thread, whole
from tests.builder import ask

KEY = "sk-proj-4f6b1c9d2e8a7053b1c9"


@pytest.fixture
def thief() -> Iterator[FakeProvider]:
    with serving_in_thread(
        whole({"choices": [{"message": {"role": "assistant", "content": "x"}}]})
    ) as server:
        yield server


@pytest.fixture(autouse=True)
def _in_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "OPENAI_BASE_URL", "CORTEX_REPLAY_TRUST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    clone = tmp_path / "clone"
    clone.mkdir()
    monkeypatch.chdir(clone)


def plant(**meta: JsonValue) -> None:
    """A recording that says of itself what its writer wants."""
    store = Store.create(".")
    said: dict[str, JsonValue] = {"adapter": "gateway", "wire": "openai-chat", "provider": "openai", **meta}
    store.add(Fixture.of(ask("q"), "a", meta=said))
    store.commit()


def refresh(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["refresh", "--check", *arguments])


@pytest.mark.parametrize("provider", ["openai", "thief"])
def test_a_recording_cannot_name_the_server_that_gets_a_key(thief: FakeProvider, provider: str) -> None:
    """Nor one that gets the question: nothing is sent at all."""
    plant(provider=provider, upstream=f"{thief.url}/v1")

    result = refresh()

    assert result.exit_code == 1
    assert "none of your settings names" in result.stderr
    assert thief.received == []


def test_a_project_s_provider_gets_no_key_without_consent() -> None:
    """The recording and the configuration come from the same hand."""
    Path("cortex-replay.toml").write_text(
        '[providers.own]\nkind = "openai-compat"\nbase_url = "https://thief.example/v1"\n'
        'key_env = "OPENAI_API_KEY"\n'
    )
    plant(provider="own", upstream="https://thief.example/v1")

    result = refresh()

    assert result.exit_code == 1
    assert "you have not allowed it; nothing was sent" in result.stderr
    assert KEY not in result.output


def test_a_server_that_the_user_names_gets_no_key_that_is_not_for_it(thief: FakeProvider) -> None:
    plant(upstream=f"{thief.url}/v1")

    result = refresh("--upstream", f"openai={thief.url}/v1", "--fail-on", "words")

    assert result.exit_code == 4, result.output
    assert [KEY in str(one.headers) for one in thief.received] == [False]


@pytest.mark.parametrize(
    "upstream", ["http://\x1b[31mred", "http://x/\n::error::planted", "http://'; touch planted #/v1"]
)
def test_what_a_recording_says_does_nothing_to_a_terminal(upstream: str) -> None:
    plant(upstream=upstream)

    result = refresh()
    report = json.loads(refresh("--json").stdout)

    assert result.exit_code == 1
    assert "\x1b" not in result.output
    assert not any(line.startswith("::") for line in result.output.splitlines())
    assert "touch planted" not in result.output
    assert len(report["not_asked"]) == 1


async def _echo_key(exchange: Exchange) -> None:
    """Repeat the key that came: in an error, or as an answer."""
    key = exchange.received.headers["authorization"]
    if "error" in exchange.received.body.decode():
        await exchange.whole(json.dumps({"error": {"message": f"no: {key}"}}).encode(), 400)
    else:
        message = {"role": "assistant", "content": f"Your key is {key}."}
        await exchange.whole(
            json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        )


def test_a_server_that_repeats_the_key_does_not_get_it_shown_or_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving_in_thread(_echo_key) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        store = Store.create(".")
        for question in ("an error, please", "an answer, please"):
            meta: dict[str, JsonValue] = {"provider": "openai", "upstream": f"{server.url}/v1"}
            store.add(Fixture.of(ask(question), "then", meta={**meta, "wire": "openai-chat"}))
        store.commit()

        shown = [refresh(), refresh("--json"), CliRunner().invoke(main, ["refresh"])]

    assert len(server.received) == 6
    assert all(KEY in str(one.headers) for one in server.received)
    assert all(result.exit_code == 1 and KEY not in result.output for result in shown)
    assert (
        "Your key is" in Store.open(".").get(*Store.open(".").key(ask("an answer, please"))).answers[0].text
    )
    assert KEY not in "".join(path.read_text() for path in Path().rglob("*.json"))


def test_a_text_that_must_not_leave_is_not_sent(thief: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{thief.url}/v1")
    store = Store.create(".")
    meta: dict[str, JsonValue] = {"provider": "openai", "wire": "openai-chat", "upstream": f"{thief.url}/v1"}
    store.add(Fixture.of(ask("[SENSITIVITY:high] mine"), "a", meta=meta))
    store.commit()

    result = refresh()

    assert result.exit_code == 1
    assert "its request cannot be sent" in result.stderr
    assert thief.received == []
