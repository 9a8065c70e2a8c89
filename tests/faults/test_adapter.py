"""Faults in process: what they are to the caller of an adapter."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cortex_replay import (
    Answer,
    FaultAdapter,
    Fixture,
    InvalidRequest,
    LlmRequest,
    LlmResponse,
    ReplayAdapter,
    ResponseParse,
    Store,
    StreamChunk,
    TimedChunk,
    Timeout,
    ToolCall,
    Transport,
    Upstream,
)
from cortex_replay.testing import EchoAdapter

ASKED = LlmRequest("m", "", "q", 0.0, 5)
TOOL = LlmRequest("m", "", "tool", 0.0, 5)


@pytest.fixture
def replay(tmp_path: Any) -> ReplayAdapter:
    store = Store.create(tmp_path)
    chunks = [
        TimedChunk(i, StreamChunk(text, "stop" if i == 2 else None))
        for i, text in enumerate(["one ", "two ", "ü🙂"])
    ]
    store.add(Fixture.of(ASKED, Answer("one two ü🙂", finish_reason="stop", stream=tuple(chunks)), "second"))
    call = ToolCall(id="c", name="f", arguments={"city": "Paris"})
    store.add(Fixture.of(TOOL, Answer("", tool_calls=(call,), finish_reason="tool_calls")))
    store.commit()
    return ReplayAdapter(store)


def collected(
    adapter: FaultAdapter, request: LlmRequest = ASKED
) -> tuple[list[str], LlmResponse | Exception | None]:
    async def run() -> tuple[list[str], LlmResponse | Exception | None]:
        given: list[str] = []
        last: LlmResponse | Exception | None = None
        try:
            async for chunk in adapter.stream(request):
                given.append(chunk.delta)
                last = chunk.response
        except Exception as error:  # noqa: BLE001 - that is what is looked at
            last = error
        return given, last

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("429", Upstream),
        ("500", Upstream),
        ("529", Upstream),
        ("timeout", Timeout),
        ("reset", Transport),
        ("cut:1", Transport),
        ("stall:1", Timeout),
        ("malformed-json", ResponseParse),
        ("error-event", Upstream),
    ],
)
def test_a_call_fails_once_and_the_recording_goes_on(
    replay: ReplayAdapter, fault: str, error: type[Exception]
) -> None:
    adapter = FaultAdapter(replay, f"{fault}@2")

    assert adapter.sync.complete(ASKED).text == "one two ü🙂"
    with pytest.raises(error):
        adapter.sync.complete(ASKED)
    assert adapter.sync.complete(ASKED).text == "second", "the answer was not used up"
    assert sum(adapter.faults.struck.values()) == 1


@pytest.mark.parametrize(
    ("fault", "given"), [("cut:2", 2), ("stall:1", 1), ("error-event:2", 2), ("reset", 0)]
)
def test_a_stream_fails_where_it_is_told_to(replay: ReplayAdapter, fault: str, given: int) -> None:
    adapter = FaultAdapter(replay, fault)
    pieces, error = collected(adapter)

    assert pieces == ["one ", "two ", "ü🙂"][:given]
    assert isinstance(error, Transport | Timeout | Upstream)
    assert collected(adapter)[0] == ["one ", "two ", "ü🙂"], "the turn had not ended"


def test_other_pieces_say_the_same(replay: ReplayAdapter) -> None:
    pieces, response = collected(FaultAdapter(replay, "chunks:byte"))

    assert pieces == list("one two ü🙂")
    assert isinstance(response, LlmResponse)
    assert response.text == "one two ü🙂"


def test_arguments_that_are_no_json(replay: ReplayAdapter) -> None:
    adapter = FaultAdapter(replay, "malformed-tool@always")

    (call,) = adapter.sync.complete(TOOL).tool_calls
    assert call.arguments == '{{"city":"Paris"}'
    _, response = collected(adapter, TOOL)
    assert isinstance(response, LlmResponse)
    assert isinstance(response.tool_calls[0].arguments, str)
    assert adapter.sync.complete(ASKED).text, "where no tool is called nothing goes wrong"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_a_status_comes_with_its_kind_of_error(replay: ReplayAdapter, status: int, kind: str) -> None:
    error = collected(FaultAdapter(replay, str(status)))[1]

    assert isinstance(error, Upstream)
    assert (error.status, error.error_type) == (status, kind)


def test_a_fault_of_tools_is_refused() -> None:
    """An adapter calls none, so it would never strike."""
    with pytest.raises(InvalidRequest, match="hits calls of tools"):
        FaultAdapter(EchoAdapter(), "tool-error@1")
