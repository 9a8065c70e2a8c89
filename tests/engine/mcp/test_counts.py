"""calls to MCP servers, counted apart from those of models."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.engine.ledger import LedgerPart
from cortex_replay.engine.mcp.counts import (
    ServerCounts,
    merge_counts,
    read_counts,
    server_facts,
    server_rows,
)
from cortex_replay.errors import InvalidRequest
from cortex_replay.modes import Mode
from tests.engine.mcp import scenario
from tests.engine.mcp.harness import Client, FakeServer, run_at


def test_a_run_counts_what_came_of_calls_by_server(tmp_path: Path) -> None:
    recorded = asyncio.run(scenario.record(tmp_path)).ledger
    replaying = run_at(tmp_path, Mode.REPLAY)
    asyncio.run(scenario.play(replaying, scenario.server()))

    assert recorded.servers == {"files": ServerCounts(recorded=2, live=2)}
    assert (recorded.recorded, recorded.live) == (5, 5)
    assert replaying.ledger.servers == {"files": ServerCounts(hits=2)}
    assert replaying.ledger.hits == 5


def test_misses_and_failures_are_counted_by_server_and_unused_calls_named(tmp_path: Path) -> None:
    asyncio.run(scenario.record(tmp_path))

    async def ask_otherwise(mode: Mode) -> Any:
        run = run_at(tmp_path, mode)
        client = Client(run, FakeServer(lambda _: []), "files")
        await client.say("tools/call", {"name": "write", "arguments": {}}, id=1)
        if mode is Mode.REPLAY:
            await client.answer_to(1)
        await client.session.close()
        return run

    missing, failing = (asyncio.run(ask_otherwise(mode)) for mode in (Mode.REPLAY, Mode.RECORD))

    assert missing.ledger.servers == {"files": ServerCounts(missed=1)}
    assert failing.ledger.servers == {"files": ServerCounts(live=1, failed=1)}
    assert sorted(call.what for call in missing.ledger.unused_calls(missing.store)) == [
        "initialize",
        'read_short(path="a.txt")',
    ]
    document = missing.ledger.to_dict(missing.store)
    assert document["servers"] == {
        "files": {"hits": 0, "missed": 1, "recorded": 0, "live": 0, "failed": 0},
    }
    assert {call["server"] for call in document["unused_calls"]} == {"files"}


def test_remarks_are_counted_and_redacted(tmp_path: Path) -> None:
    ledger = run_at(tmp_path, Mode.REPLAY).ledger
    secret = "AKIA" + "QWERTYUIOPASDFGH"
    for _ in range(3):
        ledger.remark(f"files: said {secret}")

    [(text, count)] = ledger.remarks.items()
    assert (count, secret in text) == (3, False)


def test_another_process_adds_its_counts(tmp_path: Path) -> None:
    ledger = run_at(tmp_path, Mode.REPLAY).ledger
    ledger.count_call("files", "hits")
    part = {"hits": 2, "saved": {}, "misses": [], "used": [], "used_exchanges": [], "bypassed": {}}
    ledger.merge(LedgerPart.parse({**part, "servers": {"files": {"hits": 2}, "memory": {"missed": 1}}}))
    ledger.merge(LedgerPart.parse(part))

    assert ledger.servers == {"files": ServerCounts(hits=3), "memory": ServerCounts(missed=1)}


@pytest.mark.parametrize(
    "document", [[], {"files": 1}, {"files": {"hits": -1}}, {"files": {"hits": True}}, {"files": {"x": 1}}]
)
def test_what_is_no_count_is_refused(document: object) -> None:
    with pytest.raises(InvalidRequest):
        read_counts(document)


def test_counts_are_told_in_words() -> None:
    counts = merge_counts(
        [{"files": ServerCounts(hits=1)}, {"a": ServerCounts()}, {"files": ServerCounts(missed=2)}]
    )

    assert list(server_facts(counts)) == ["a: nothing", "files: 1 hit, 2 misses"]
    assert server_rows(counts)["MCP server files"] == "1 hit, 2 misses"
