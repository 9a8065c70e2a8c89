"""A fork with MCP servers: before it they are not there, behind it they go on from where they were."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from cortex_replay.engine.core import RunCore
from cortex_replay.engine.fork_names import ForkPlan
from cortex_replay.modes import Mode
from tests.engine.mcp.harness import Client, FakeServer, no_server, result, run_at, text_of

INIT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


def counter(step: int = 1) -> FakeServer:
    """A server with a state: each call adds to what it says."""
    total = 0

    def reply(message: dict[str, Any]) -> list[dict[str, Any]]:
        nonlocal total
        if "id" not in message:
            return []
        if message["method"] != "tools/call":
            return [{"id": message["id"], "result": {"protocolVersion": "2025-11-25"}}]
        total += step
        return [result(message, str(total))]

    return FakeServer(reply)


def play(
    run: RunCore,
    server: Callable[[], FakeServer] = no_server,
    tools: Collection[str] = ("next", "next", "next", "next"),
) -> tuple[list[str], Client]:
    """A client that counts; a model is called first, and before the third call of a tool."""

    async def main() -> tuple[list[str], Client]:
        client = Client(run, server)
        await client.ask("initialize", INIT, id=1)
        await client.say("notifications/initialized")
        said = []
        for number, tool in enumerate(tools):
            if number in (0, 2):
                run.scope("").for_model_call()
            answer = await client.call(tool, 10 + number)
            said.append(text_of(answer) if "result" in answer else "miss")
        await client.session.close()
        return said, client

    done = asyncio.run(main())
    if run.mode.writes:
        run.commit()
    return done


def fork_at(root: Path, calls: int, name: str) -> RunCore:
    run = run_at(root, Mode.RECORD)
    run.fork_plan = ForkPlan(calls, name)
    return run


def replay(root: Path, name: str) -> list[str]:
    run = run_at(root, Mode.REPLAY)
    run.fork_name = name
    return play(run)[0]


def test_a_server_goes_on_from_where_it_was(tmp_path: Path) -> None:
    """It is started when the road needs it, and told what was played; the road replays without it."""
    assert play(run_at(tmp_path, Mode.RECORD), counter)[0] == ["1", "2", "3", "4"]
    run = fork_at(tmp_path, 1, "x")
    said, client = play(run, lambda: counter(10))

    assert said == ["1", "2", "30", "40"]
    [server] = client.servers
    assert server.methods == ["initialize", "notifications/initialized", *["tools/call"] * 4]
    assert (run.ledger.live, run.ledger.hits, run.ledger.misses) == (2, 3, [])
    assert replay(tmp_path, "x") == said
    assert replay(tmp_path, "") == ["1", "2", "3", "4"]


def test_nothing_is_started_before_the_fork(tmp_path: Path) -> None:
    """Whatever is recorded there, and whether it is."""
    play(run_at(tmp_path, Mode.RECORD), counter)
    assert play(fork_at(tmp_path, 2, "x"))[0] == ["1", "2", "3", "4"]

    lost = fork_at(tmp_path, 1, "y")
    said, _ = play(lost, tools=("next", "other", "next", "new"))
    assert said == ["1", "miss", "2", "miss"], "and nobody is asked behind a miss"
    assert [fork.is_lost for fork in lost.forks] == [True]


def test_from_the_start_the_server_is_there(tmp_path: Path) -> None:
    """Also before the first call of a model."""
    play(run_at(tmp_path, Mode.RECORD), counter)
    said, client = play(fork_at(tmp_path, 0, "x"), lambda: counter(10))

    assert (said, client.connections) == (["10", "20", "30", "40"], 1)
    assert replay(tmp_path, "x") == said
    assert replay(tmp_path, "") == ["1", "2", "3", "4"]
