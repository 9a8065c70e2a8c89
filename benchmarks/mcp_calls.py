"""[mcp]: what an MCP call costs behind ``cortex-replay mcp``, beside a client with the server by itself;
and what the shim costs to start within a run, beside a bare Python."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.measure import cpu_of_child, say, smallest
from benchmarks.table import Goal, Row
from cortex_replay.run import Run
from cortex_replay.run.mcp.desk import Desk
from cortex_replay.run.mcp.stdio.socket import RunSocket
from cortex_replay.shim import VARIABLE
from cortex_replay.store import Store

__all__ = ["run"]

_CALLS: Final = 2_000
_COUNTS: Final = (1, _CALLS + 1)
"""What a start takes is in both, and goes out. There are many, since it differs from one start to the next by
what hundreds of calls take."""
_ROUNDS: Final = 3
_STARTS: Final = 20
_PROGRAM: Final = str(Path(sys.executable).with_name("cortex-replay"))
_SERVER: Final = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    text = f"The weather in {asked['params']['arguments']['city']} is fine. " * 5
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"content": [{"type": "text", "text": text}]}}
    sys.stdout.write(json.dumps(answer) + "\\n")
    sys.stdout.flush()
"""
_COMMAND: Final = (sys.executable, "-I", "-S", "-c", _SERVER)
_DIRECT: Final = "the server alone"


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    say("measuring MCP calls")
    ways = {
        _DIRECT: _COMMAND,
        "record": (_PROGRAM, "mcp", "weather", "--mode", "record", "--", *_COMMAND),
        "replay": (_PROGRAM, "mcp", "weather", "--", *_COMMAND),
    }
    tasks = {
        (name, calls): partial(_cost_of, way, folder, calls)
        for name, way in ways.items()
        for calls in _COUNTS
    }
    costs = smallest(_ROUNDS, tasks)
    times = {name: (costs[name, _COUNTS[1]] - costs[name, _COUNTS[0]]) / _CALLS for name in ways}
    goals = {"record": Goal("seconds", 1e-3), "replay": Goal("seconds", 0.3e-3)}
    added = {"record": times["record"] - times[_DIRECT], "replay": times["replay"]}
    rows = [
        Row("mcp", f"a call, {name}: added", added[name], _DIRECT, times[_DIRECT], goal, unit="call")
        for name, goal in goals.items()
    ]
    return [*rows, _start(folder)]


def _cost_of(command: Sequence[str], folder: Path, calls: int) -> float:
    """The CPU seconds of all processes that a client has started, from their start to their end."""
    before = _children()
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(calls):
            parameters = {"name": "weather", "arguments": {"city": f"Paris {number}"}}
            asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": parameters}
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
            assert b"is fine" in process.stdout.readline()
        process.stdin.close()
    return _children() - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _start(folder: Path) -> Row:
    """The shim alone: the run that serves it is here already."""
    Store.open_or_create(folder)
    with RunSocket.open(Desk(Run.open(mode="replay", store=folder))) as served:
        assert served is not None
        os.environ[VARIABLE] = served.path
        try:
            tasks = {
                "shim": partial(cpu_of_child, [_PROGRAM, "mcp", "weather", "--", "nothing"], folder),
                "bare": partial(cpu_of_child, [sys.executable, "-c", "pass"], folder),
            }
            times = smallest(_STARTS, tasks)
        finally:
            del os.environ[VARIABLE]
    return Row(
        "mcp",
        "the shim starts and ends",
        times["shim"],
        "python -c pass",
        times["bare"],
        Goal("slower", 2.0),
    )
