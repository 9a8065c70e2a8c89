"""MCP sessions: recorded by a server, replayed without one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from cortex_replay.modes import Mode
from tests.engine.mcp.harness import Client, FakeServer, run_at


def counting_server() -> FakeServer:
    """Counts the calls of its tool."""
    counted = 0

    def reply(message: dict[str, Any]) -> list[dict[str, Any]]:
        nonlocal counted
        if "id" not in message:
            return []
        counted += 1
        return [{"id": message["id"], "result": {"content": [{"type": "text", "text": str(counted)}]}}]

    return FakeServer(reply)


def test_a_poll_gets_its_first_and_its_second_answer(tmp_path: Path) -> None:
    async def poll(mode: Mode) -> tuple[list[dict[str, Any]], int]:
        run = run_at(tmp_path, mode)
        client = Client(run, counting_server())
        for number in (7, 8):
            await client.ask("tools/call", {"name": "poll", "arguments": {}}, id=number)
        await client.session.close()
        if mode.writes:
            run.commit()
        return client.got, client.connections

    recorded, _ = asyncio.run(poll(Mode.RECORD))
    replayed, connections = asyncio.run(poll(Mode.REPLAY))

    assert [message["result"]["content"][0]["text"] for message in recorded] == ["1", "2"]
    assert replayed == recorded
    assert connections == 0
