"""A body is read once for each call, whoever wants to know what it asks."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import orjson
import pytest

from cortex_replay import Answer, LlmRequest, Store
from cortex_replay.engine.http import question as module
from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.question import Question, Questions
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.lookup import binder_of_nowhere
from cortex_replay.engine.outcomes import Outcome
from cortex_replay.providers import Parameters
from cortex_replay.wire import WIRES
from tests.builder import StoreBuilder, fixture_of
from tests.engine.http.harness import PATHS, PROTOCOLS, ask, body_of, request_for, run_over
from tests.gateway.upstream import model_server

HELLO = request_for("Say hello.")
PATH, BODY = PATHS["openai-chat"], body_of("openai-chat", HELLO)


@pytest.fixture
def lifts(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every body of chat completions that the engine lifts."""
    seen: list[object] = []
    wire = WIRES["openai-chat"]

    def lift(body: object) -> LlmRequest:
        seen.append(body)
        return wire.lift(body)

    wires = {**WIRES, "openai-chat": dataclasses.replace(wire, lift=lift)}
    monkeypatch.setattr("cortex_replay.engine.http.question.WIRES", wires)
    return seen


def test_a_call_that_is_recorded_is_lifted_once(tmp_path: Path, lifts: list[object]) -> None:
    with model_server() as provider, run_over(tmp_path, "once", provider.url) as run:
        assert ask(run, "POST", PATH, BODY).status == 200

    assert len(lifts) == 1


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


SAID = {"role": "user", "content": "Hi"}
SHARED: dict[str, dict[str, Any]] = {
    "a chat": {"model": "m", "max_tokens": 5, "messages": [SAID]},
    "a system prompt": {
        "model": "m",
        "max_tokens": 5,
        "messages": [{"role": "system", "content": "S"}, SAID],
    },
    "a text to go on with": {"model": "m", "prompt": "Hi"},
    "a call of Gemini's": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    "nothing but a model": {"model": "m", "messages": [], "input": "Hi", "prompt": "Hi"},
}
"""Bodies that several wires can read, each in its own way."""
PLACES: list[tuple[str, Parameters]] = [
    (protocol, parameters)
    for protocol in WIRES
    for parameters in ((), (("model", "a"),), (("model", "b"),), (("model", "a"), ("stream", True)))
]


def told(question: Question | None) -> tuple[object, ...] | None:
    if question is None:
        return None
    facts = question.facts
    return question.look.key, question.protocol, facts.stream, facts.with_usage, facts.is_single


@pytest.mark.parametrize("name", SHARED)
def test_what_is_kept_of_a_body_is_of_its_wire_and_its_path(tmp_path: Path, name: str) -> None:
    """Whoever asked before with the same bytes, in whatever order."""
    store, body = Store.create(tmp_path), orjson.dumps(SHARED[name])
    binder = binder_of_nowhere(store)

    def read(questions: Questions, protocol: str, parameters: Parameters) -> tuple[object, ...] | None:
        return told(questions.read(store, binder, Route("u", "/", protocol, parameters), body))

    fresh = {place: read(Questions(), *place) for place in PLACES}
    assert len(set(fresh.values())) > 3, "the wires read it differently"
    for order in (PLACES, PLACES[::-1]):
        shared = Questions()
        for place in (*order, *order):
            assert read(shared, *place) == fresh[place], place


def test_what_is_kept_is_of_one_binder(tmp_path: Path) -> None:
    """Another day has another one."""
    store, questions = Store.create(tmp_path), Questions()
    route, body = Route("u", "/", "openai-chat"), orjson.dumps(BODY)
    for _ in range(2):
        binder = binder_of_nowhere(store)
        question = questions.read(store, binder, route, body)
        assert question is not None
        assert question.look.binder is binder


def test_what_is_kept_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest gives way; what is large is not kept at all."""
    monkeypatch.setattr(module, "_MOST_KEPT", 3)
    store, questions = Store.create(tmp_path), Questions()
    binder, route = binder_of_nowhere(store), Route("u", "/", "openai-chat")
    small = [orjson.dumps(body_of("openai-chat", request_for(f"Question {n}."))) for n in range(5)]
    large = orjson.dumps(body_of("openai-chat", request_for("long " * 5000)))
    for body in (*small, large):
        assert questions.read(store, binder, route, body) is not None

    assert [body for _, _, body in questions._kept] == small[2:]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_every_wire_normalises_as_an_adapter_does(tmp_path: Path, protocol: str, stream: bool) -> None:
    first, second = (request_for(f"It is {day}.") for day in ("Monday", "Sunday"))
    with run_over(tmp_path / "store") as run:
        days = run.open_scope("days", normalisers={"day": r"\w+day"})
        plain = run.open_scope("plain")

        def key(scope: Any, request: LlmRequest) -> object:
            body = orjson.dumps(body_of(protocol, request, stream=stream))
            call = Call("POST", Route("u", "/", protocol), body=body)
            question = run.engine().read(scope, call)
            assert question is not None
            assert question.look.key == scope.look_up(question.ask()).key
            return question.look.key

        assert key(days, first) == key(days, second) != key(plain, first) != key(plain, second)
