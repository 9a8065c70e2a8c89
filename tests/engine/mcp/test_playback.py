"""A recorded script as it is played: a call has one end, whatever somebody wrote into its recording."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from cortex_replay.engine.mcp.link import Outgoing
from cortex_replay.engine.mcp.playback import Playback

CALLED: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}


@pytest.mark.parametrize(
    ("entries", "is_cancelled"),
    [
        ([{"result": {"n": 1}}, {"result": {"n": 2}}], False),
        ([{"result": {"n": 1}}, {"error": {"code": 1, "message": "x"}}], False),
        ([{"cancelled": {}}, {"result": {"n": 1}}], True),
        ([{"result": {"n": 1}}, {"cancelled": {}}, {"result": {"n": 2}}], True),
    ],
)
def test_a_call_ends_once(entries: list[Any], is_cancelled: bool) -> None:
    sent: list[Outgoing] = []

    async def send(outgoing: Outgoing) -> None:
        sent.append(outgoing)

    async def main() -> None:
        playback = Playback({"messages": entries}, CALLED, send, "a", lambda value: value, lambda _: None)
        if is_cancelled:
            await playback.cancel()
        await playback.play()
        assert playback.has_ended

    asyncio.run(main())
    assert [json.loads(one.frame).get("result") for one in sent] == ([] if is_cancelled else [{"n": 1}])
