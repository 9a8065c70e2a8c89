"""A body is read once for each call, whoever wants to know what it asks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cortex_replay import Answer, LlmRequest
from cortex_replay.engine.outcomes import Outcome
from cortex_replay.wire import WIRES
from tests.builder import StoreBuilder, fixture_of
from tests.engine.http.harness import PATHS, ask, body_of, request_for, run_over
from tests.gateway.upstream import model_server

HELLO = request_for("Say hello.")
PATH, BODY = PATHS["openai-chat"], body_of("openai-chat", HELLO)


@pytest.fixture
def lifts(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every body of chat completions that is lifted."""
    seen: list[object] = []
    wire = WIRES["openai-chat"]

    def lift(body: object) -> LlmRequest:
        seen.append(body)
        return wire.lift(body)

    monkeypatch.setitem(WIRES, "openai-chat", dataclasses.replace(wire, lift=lift))
    return seen


def test_a_call_that_is_recorded_is_lifted_once(tmp_path: Path, lifts: list[object]) -> None:
    with model_server() as provider, run_over(tmp_path, "once", provider.url) as run:
        before = len(lifts)  # the server lifts it, too
        assert ask(run, "POST", PATH, BODY).status == 200

    assert len(lifts) - before == 2


def test_a_replayed_call_is_lifted_once_also_for_an_observer(tmp_path: Path, lifts: list[object]) -> None:
    """The first time for its key; when the same bytes come again, for the observer alone."""
    builder = StoreBuilder(tmp_path / "store")
    builder.add_fixture(fixture_of(HELLO, Answer("Hello.")))
    builder.write()
    seen: list[tuple[LlmRequest | None, Outcome | None]] = []
    with run_over(tmp_path / "store") as run:
        run.open_scope("watched", observer=lambda request, outcome: seen.append((request(), outcome)))
        ask(run, "POST", PATH, BODY, scope="watched")
        assert len(lifts) == 1
        ask(run, "POST", PATH, BODY)
        assert len(lifts) == 1, "the same bytes ask for the same"
        ask(run, "POST", PATH, BODY, scope="watched")
        assert len(lifts) == 2

    assert [request and request.prompt_hash() for request, _ in seen] == [HELLO.prompt_hash()] * 2


def test_a_miss_is_lifted_once(tmp_path: Path, lifts: list[object]) -> None:
    """For its key, and for the explanation."""
    with run_over(tmp_path / "store") as run:
        assert ask(run, "POST", PATH, BODY).status == 424

    assert len(lifts) == 1


def test_scopes_with_other_normalisers_do_not_share_keys(tmp_path: Path) -> None:
    """What a body asks for is kept by its bytes; its key depends on the rules of the scope."""
    first, second = (request_for(f"It is {day}.") for day in ("Monday", "Sunday"))
    with model_server() as provider, run_over(tmp_path / "store", "once", provider.url) as run:
        run.open_scope("days", normalisers={"day": r"\w+day"})
        ask(run, "POST", PATH, body_of("openai-chat", first), scope="days")
    with run_over(tmp_path / "store") as run:
        run.open_scope("days", normalisers={"day": r"\w+day"})
        asked = body_of("openai-chat", second)
        assert ask(run, "POST", PATH, asked, scope="days").status == 200
        assert ask(run, "POST", PATH, asked).status == 424
        assert ask(run, "POST", PATH, asked, scope="days").status == 200
