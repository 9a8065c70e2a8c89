"""Coding agents with three MCP servers: recorded once, then replayed where none of the servers is installed.

The agents are Claude Code and opencode, the servers those of the registry, the model a script that has the
agent use its own tools and one of each server. Each server is started by a script that leaves a mark, so that
no start goes unnoticed.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store
from cortex_replay.history.mcp_calls import read_mcp_calls
from integration.agents.agents import AGENTS, Agent
from integration.agents.journey import Journey, set_out
from integration.agents.machine import Machine, can_be_made
from integration.mcp.reference_servers import copy_servers, entry_of, reference_servers

_SERVE = 'echo "$1" >> "$TMPDIR/started"\nshift\nexec node "$@"\n'
"""Leaves a mark, and becomes the server."""
_HEADER = "canary-of-a-header-of-a-server"
_SUM = "The sum of 2 and 3 is 5."


@dataclass(frozen=True)
class Tour:
    """A journey with servers, and where these are."""

    journey: Journey
    servers: Path

    def uninstall(self) -> None:
        shutil.rmtree(self.servers)


def started_on(machine: Machine) -> list[str]:
    """The servers that were started there."""
    marks = machine.tmp / "started"
    return sorted(marks.read_text().split()) if marks.exists() else []


def with_servers(agent: Agent, servers: Path) -> Agent:
    """The agent in a project that names three servers."""
    entries = {name: str(entry_of(servers, name)) for name in ("everything", "filesystem", "memory")}
    words = {
        "everything": ["everything", entries["everything"], "stdio"],
        "files": ["files", entries["filesystem"], "."],
        "memory": ["memory", entries["memory"]],
    }
    memory = "MEMORY_FILE_PATH"
    if agent.program == "opencode":
        table: dict[str, Any] = {
            name: {"type": "local", "command": ["sh", "serve.sh", *word]} for name, word in words.items()
        }
        table["memory"]["environment"] = {memory: "{env:HOME}/memory.json"}
        return replace(agent, project={"opencode.json": json.dumps({"mcp": table}), "serve.sh": _SERVE})
    common: dict[str, Any] = {
        name: {"command": "sh", "args": ["serve.sh", *word]} for name, word in words.items()
    }
    common["memory"]["env"] = {memory: "${HOME}/memory.json"}
    return replace(agent, project={".mcp.json": json.dumps({"mcpServers": common}), "serve.sh": _SERVE})


@pytest.fixture(scope="module", params=["claude", "opencode"])
def tour(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tour:
    can_be_made()
    base = tmp_path_factory.mktemp(request.param)
    servers = copy_servers(base / "servers")
    (agent,) = (one for one in AGENTS if one.program == request.param)
    return Tour(set_out(with_servers(agent, servers), base), servers)


def test_an_agent_s_servers_replay_where_they_are_not_installed(tour: Tour) -> None:
    made = tour.journey
    assert made.recording.status == 0, made.recording
    assert "3 MCP servers wrapped: everything, files, memory" in made.recording.told
    assert started_on(made.origin) == ["everything", "files", "memory"]
    assert made.has_written(made.origin)
    answer = made.recording.said
    assert _SUM in answer, made.recording
    tour.uninstall()

    machine, replayed = made.replay("all of it")

    assert replayed.status == 0, replayed
    ledger = replayed.ledger
    assert (ledger["misses"], ledger["live"], ledger["recorded"]) == ([], 0, 0), replayed
    assert ledger["hits"] == made.recording.ledger["recorded"] > made.calls, replayed
    assert made.has_written(machine), replayed
    assert replayed.said == answer.replace(str(made.origin.cwd), str(machine.cwd))
    assert started_on(machine) == []


def test_what_each_server_was_asked_is_recorded_with_the_call_that_caused_it(tour: Tour) -> None:
    calls = read_mcp_calls(Store.open(tour.journey.store))
    asked = {(call.server, call.method) for call in calls}

    for server in ("everything", "files", "memory"):
        assert {(server, "initialize"), (server, "tools/list"), (server, "tools/call")} <= asked
    assert all(call.cause is not None for call in calls if call.method == "tools/call")


def test_the_store_does_not_tell_of_the_machine_that_recorded(tour: Tour) -> None:
    assert list(tour.journey.residue()) == []


@pytest.mark.parametrize("program", ["claude", "opencode"])
def test_a_server_with_a_url_replays_when_it_is_gone(program: str, tmp_path: Path) -> None:
    """It is reached through the gateway; its header never gets to the agent, nor to the store."""
    can_be_made()
    (agent,) = (one for one in AGENTS if one.program == program)
    servers = reference_servers()
    with serving(entry_of(servers, "everything")) as url:
        reached = {"url": url, "headers": {"X-Api-Key": _HEADER}}
        if program == "claude":
            project = {".mcp.json": {"mcpServers": {"everything": {"type": "http", **reached}}}}
        else:
            project = {"opencode.json": {"mcp": {"everything": {"type": "remote", **reached}}}}
        files = {name: json.dumps(document) for name, document in project.items()}
        made = set_out(replace(agent, project=files), tmp_path)
    assert made.recording.status == 0, made.recording
    assert _SUM in made.recording.said, made.recording

    _, replayed = made.replay("another directory")

    assert replayed.status == 0, replayed
    ledger = replayed.ledger
    assert (ledger["misses"], ledger["live"]) == ([], 0), replayed
    assert _SUM in replayed.said, replayed
    assert not any(_HEADER.encode() in path.read_bytes() for path in made.store.rglob("*") if path.is_file())


@contextmanager
def serving(entry: Path) -> Iterator[str]:
    """The server over Streamable HTTP, as long as the block lasts."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["node", str(entry), "streamableHttp"]
    with subprocess.Popen(
        command, env={**os.environ, "PORT": str(port)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            await_port(port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.kill()


def await_port(port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail("the server does not listen")
