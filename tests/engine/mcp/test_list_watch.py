"""A server that lists other tools than were recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.modes import Mode
from tests.engine.mcp.harness import Client, FakeServer, run_at

READ = {"name": "read", "description": "Read a file.", "inputSchema": {"type": "object"}}
LIST = {"name": "list", "description": "List files.", "inputSchema": {"type": "object"}}


def listing(*pages: list[dict[str, Any]]) -> FakeServer:
    def reply(message: dict[str, Any]) -> list[dict[str, Any]]:
        page = int(message.get("params", {}).get("cursor", 0))
        more = {"nextCursor": str(page + 1)} if page + 1 < len(pages) else {}
        return [{"id": message["id"], "result": {"tools": pages[page], **more}}]

    return FakeServer(reply)


def remarks(root: Path, mode: Mode, *pages: list[dict[str, Any]]) -> list[str]:
    """What a run says that lists all pages."""

    async def whole() -> list[str]:
        run = run_at(root, mode)
        client = Client(run, listing(*pages))
        parameters: dict[str, Any] = {}
        for number in range(1, len(pages) + 1):
            answer = await client.ask("tools/list", parameters, id=number)
            parameters = {"cursor": answer["result"].get("nextCursor")}
        await client.session.close()
        if mode.writes:
            run.commit()
        return list(run.ledger.remarks)

    return asyncio.run(whole())


def test_the_first_recording_has_nothing_to_compare_with(tmp_path: Path) -> None:
    assert remarks(tmp_path, Mode.RECORD, [READ]) == []


@pytest.mark.parametrize("again", [[[READ, LIST]], [[LIST], [READ]], [[READ], [LIST]]])
def test_the_same_on_other_pages_is_the_same(tmp_path: Path, again: list[list[dict[str, Any]]]) -> None:
    remarks(tmp_path, Mode.RECORD, [READ], [LIST])

    assert remarks(tmp_path, Mode.RECORD, *again) == []


def test_each_change_is_told_once(tmp_path: Path) -> None:
    remarks(tmp_path, Mode.RECORD, [READ], [LIST])

    said = remarks(tmp_path, Mode.RECORD, [READ | {"description": "Read a page."}])

    assert said == [
        'tools changed since it was recorded: tool read, description: "Read a file." became "Read a page."',
        "tools changed since it was recorded: tool list is not there any more (breaking)",
    ]
    assert remarks(tmp_path, Mode.RECORD, [READ | {"description": "Read a page."}]) == []


def test_replay_says_nothing(tmp_path: Path) -> None:
    remarks(tmp_path, Mode.RECORD, [READ])

    assert remarks(tmp_path, Mode.REPLAY, [LIST]) == []
