"""[live] and [chunk]: what a live adapter costs beside the provider's own SDK, asking one local server.

The SDK has an environment of its own, so each side is a process, which times itself: one client, used
again for every call, after a first call that is not counted. Both send the same body and get the same
answer. Nothing waits for a model here, so what is measured is what a caller pays on top of one.

A chunk's time is that of a long stream without that of a short one. It depends on how the events come:
where a server writes faster than its client reads, many of them are in one read. Where each is read
for itself, half of the time is the event loop's and the kernel's.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from benchmarks.adapter_install import sdk_python
from benchmarks.adapter_server import EVENTS_AT_ONCE
from benchmarks.measure import say, smallest
from benchmarks.table import Goal, Row

__all__ = ["run"]

_PROJECT = Path(__file__).resolve().parent.parent
_SDK, _SDK_VERSION = "anthropic", "2.8.0"
_PEER = f"{_SDK} {_SDK_VERSION}"
_ROUNDS = 9
_CALLS = 100
_PIECES = 200
_SHORT, _SHORT_CALLS = 10, 10
_LONG = {"bench-each": 2000, "bench-many": 2000, "bench-alone": 500}
_HOW = {
    "bench-each": "each event written for itself",
    "bench-many": f"{EVENTS_AT_ONCE} events a write",
    "bench-alone": "each event read for itself",
}

_Tasks = dict[str, Callable[[], float]]


def run(_folder: Path, wanted: Collection[str]) -> list[Row]:
    python = sdk_python(_SDK, _SDK_VERSION)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_started(sys.executable, "benchmarks.adapter_server"))
        url = f"http://127.0.0.1:{server.read()}"
        ours = stack.enter_context(_started(sys.executable, "benchmarks.adapter_ours", url))
        sdk = None if python is None else stack.enter_context(_started(python, "benchmarks.adapter_sdk", url))
        return (_call_rows(ours, sdk) if "live" in wanted else []) + (
            _chunk_rows(ours, sdk) if "chunk" in wanted else []
        )


class _Process:
    """A process that is told what to measure, line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process to measure has ended: {self._process.args!r}")
        return json.loads(line)

    def cpu_per_call(self, task: str, model: str, pieces: int, calls: int) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([task, model, pieces, calls]) + "\n")
        self._process.stdin.flush()
        return float(self.read())


@contextlib.contextmanager
def _started(python: str, module: str, *arguments: str) -> Iterator[_Process]:
    """A module as a process, which ends with its input."""
    # No proxy, and nothing that the SDK would take its settings from.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}
    with subprocess.Popen(
        [python, "-m", module, *arguments],
        cwd=_PROJECT,
        env=environment | {"NO_PROXY": "127.0.0.1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield _Process(process)


def _call_rows(ours: _Process, sdk: _Process | None) -> list[Row]:
    say("measuring calls of live adapters")
    tasks: _Tasks = {}
    for name in ("complete", "complete_sync"):
        for side, process in (("ours", ours), ("sdk", sdk)):
            if process is not None:
                tasks[f"{side} {name}"] = _timed(process, name, "bench-each", _PIECES, _CALLS)
    taken = smallest(_ROUNDS, tasks)
    what = "ClaudeAdapter.complete(), 4 KiB prompt"
    peer, sync_peer = taken.get("sdk complete"), taken.get("sdk complete_sync")
    return [
        Row("live", what, taken["ours complete"], f"{_PEER}, async", peer, Goal("slower", 1), "call"),
        Row("live", "  .sync", taken["ours complete_sync"], f"{_PEER}, sync", sync_peer, unit="call"),
    ]


def _chunk_rows(ours: _Process, sdk: _Process | None) -> list[Row]:
    say("measuring streams of live adapters")
    tasks: _Tasks = {}
    for way, count in _LONG.items():
        for name in ("stream", "chat_stream"):
            tasks |= _streams(f"ours {name} {way}", ours, name, way, count)
        for name in ("stream", "stream_whole"):
            if sdk is not None:
                tasks |= _streams(f"sdk {name} {way}", sdk, name, way, count)
    taken = smallest(_ROUNDS, tasks)

    def per_chunk(name: str, way: str) -> float | None:
        long, short = taken.get(f"{name} {way} long"), taken.get(f"{name} {way} short")
        return None if long is None or short is None else (long - short) / (_LONG[way] - _SHORT)

    rows = []
    for way, how in _HOW.items():
        claude, chat = per_chunk("ours stream", way), per_chunk("ours chat_stream", way)
        assert claude is not None
        assert chat is not None
        goal = Goal("seconds", 30e-6) if way == "bench-each" else None
        rows += [
            Row("chunk", f"ClaudeAdapter.stream(), {how}", claude, goal=goal, unit="chunk"),
            Row(
                "chunk",
                "  against events",
                claude,
                f"{_PEER}, events",
                per_chunk("sdk stream", way),
                unit="chunk",
            ),
            Row(
                "chunk",
                "  against text",
                claude,
                f"{_PEER}, text",
                per_chunk("sdk stream_whole", way),
                unit="chunk",
            ),
            Row("chunk", f"OpenAICompatAdapter.stream(), {how}", chat, unit="chunk"),
        ]
    return rows


def _streams(key: str, process: _Process, name: str, way: str, count: int) -> _Tasks:
    return {
        f"{key} long": _timed(process, name, way, count, 1),
        f"{key} short": _timed(process, name, way, _SHORT, _SHORT_CALLS),
    }


def _timed(process: _Process, name: str, way: str, pieces: int, calls: int) -> Callable[[], float]:
    return lambda: process.cpu_per_call(name, way, pieces, calls)
