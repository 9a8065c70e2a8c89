"""Which call a message of a server belongs to, and that a call which is over has none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cortex_replay.engine.mcp.calls import Call
from cortex_replay.engine.mcp.open_calls import OpenCalls
from cortex_replay.mcp.messages import LISTEN, PING, render_message


def call(about: int | None, method: str = "tools/call", token: str | int | None = None) -> Call:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": {}}
    message |= {} if about is None else {"id": about}
    if token is not None:
        message["params"] = {"_meta": {"progressToken": token}}
    return Call.of(render_message(message), message)


def progress(token: str | int) -> dict[str, Any]:
    return {"method": "notifications/progress", "params": {"progressToken": token}}


@pytest.mark.parametrize("token", ["t", 7])
def test_a_token_is_of_its_call_while_that_is_open(token: str | int) -> None:
    calls, first, second = OpenCalls(), call(1, token=token), call(2)
    calls.add(first)
    calls.add(second)
    assert calls.owner_of(progress(token), None) is first

    calls.remove(first)
    assert calls.owner_of(progress(token), None) is second, "nothing leads to what is over"
    assert first.id not in calls


def test_a_token_that_is_used_again_is_of_the_later_call() -> None:
    calls, first, second, third = OpenCalls(), call(1, token="t"), call(2, token="t"), call(3)
    for one in (first, second, third):
        calls.add(one)
    calls.remove(first)

    assert calls.owner_of(progress("t"), None) is second


def test_what_is_no_answer_belongs_to_what_the_transport_tells_and_else_to_the_latest() -> None:
    calls = OpenCalls()
    made = [call(1), call(2), call(3, LISTEN), call(4, PING), call(None)]
    for one in made:
        calls.add(one)
    said: dict[str, Any] = {"method": "notifications/message", "params": {}}

    assert len(calls) == 4
    assert calls.owner_of(said, 1) is made[0]
    assert calls.owner_of(said, 3) is made[1], "a subscription has no messages of its own"
    assert calls.owner_of(said, None) is made[1]
    assert (calls.subscription(1), calls.subscription(2), calls.subscription(0)) == (3, None, None)


def test_who_waits_goes_on_when_the_last_call_is_over() -> None:
    calls, first, second = OpenCalls(), call(1), call(2)

    async def main() -> list[int]:
        await calls.wait_for_none(60)  # there is none
        calls.add(first)
        calls.add(second)
        waiting = asyncio.create_task(calls.wait_for_none(60))
        left = []
        for one in (first, second):
            await asyncio.sleep(0)
            assert not waiting.done()
            calls.remove(one)
            left.append(len(calls))
        await waiting
        return left

    assert asyncio.run(main()) == [1, 0]


def test_who_waits_for_a_call_that_never_ends_goes_on_in_the_end() -> None:
    calls = OpenCalls()
    calls.add(call(1))

    asyncio.run(calls.wait_for_none(0))

    assert len(calls) == 1
