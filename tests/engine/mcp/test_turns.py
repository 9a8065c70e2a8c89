"""What is kept of a call is its last word, also where nothing recorded may be replaced."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.modes import Mode
from tests.engine.mcp.harness import Client, FakeServer, run_at

NOTE = "notifications/message"


@pytest.mark.parametrize("mode", [Mode.ONCE, Mode.RECORD])
def test_what_comes_behind_an_answer_is_kept_with_it(tmp_path: Path, mode: Mode) -> None:
    """It is staged once more, and that is no other answer that somebody else has recorded."""

    def reply(message: dict[str, Any]) -> list[dict[str, Any]]:
        behind = {"method": NOTE, "params": {"level": "info", "data": "behind it"}}
        return [{"id": message["id"], "result": {"tools": []}}, behind]

    async def record() -> None:
        run = run_at(tmp_path, mode)
        client = Client(run, FakeServer(reply))
        await client.ask("tools/list", {}, id=1)
        await client.message(NOTE)
        await client.session.close()
        assert run.commit().dropped == 0

    async def replay() -> list[Any]:
        client = Client(run_at(tmp_path, Mode.REPLAY), FakeServer(reply))
        await client.ask("tools/list", {}, id=1)
        await client.message(NOTE)
        await client.session.close()
        return [message.get("method") for message in client.got]

    asyncio.run(record())

    assert asyncio.run(replay()) == [None, NOTE]
