"""The servers that [gateway] is measured with: installed once below ``.bench/``, started, and looked at.

Times and memory are those of all processes of a server, as Linux tells them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import say
from benchmarks.programs import installed

__all__ = ["AIMOCK", "LLMPOSTER", "Server", "aimock_command", "can_measure", "llmposter_command", "running"]

_BENCH = Path(__file__).resolve().parent.parent / ".bench"
_PROC = Path("/proc")
_AIMOCK_VERSION = "1.43.0"
_AIMOCK_PROGRAM = Path("node_modules", "@copilotkit", "aimock", "dist", "cli.js")
_LLMPOSTER_VERSION = "0.5.0"
_READY_S = 60
_GRACE_S = 5
_LOOK_EVERY_S = 0.001
_URL = re.compile(rb"http://127\.0\.0\.1:(\d+)\b[^\n]*\n")

AIMOCK = f"aimock {_AIMOCK_VERSION}"
LLMPOSTER = f"llmposter {_LLMPOSTER_VERSION}"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    pid: int
    port: int

    def cpu(self) -> float:
        """The CPU seconds so far, of all threads, of children too, and of those that have ended."""
        tree = self._tree()
        ended = sum(int(ticks) for fields in tree.values() for ticks in fields[13:15])
        # Their clocks count nanoseconds; the ticks in the same file are too coarse for a few requests.
        return sum(map(_cpu_clock, tree)) + ended / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """The bytes in memory."""
        return sum(int(fields[21]) for fields in self._tree().values()) * os.sysconf("SC_PAGE_SIZE")

    def _tree(self) -> dict[int, list[str]]:
        """What the system says of this process and of all below it: the fields after the name."""
        known: dict[int, list[str]] = {}
        for path in _PROC.glob("[0-9]*/stat"):
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except (FileNotFoundError, ProcessLookupError):  # it has ended since
                continue
            known[int(path.parent.name)] = text.rpartition(")")[2].split()
        found: dict[int, list[str]] = {}
        below = {self.pid}
        while below:
            found |= {pid: known[pid] for pid in below}
            below = {pid for pid, fields in known.items() if int(fields[1]) in below}
        return found


def can_measure() -> bool:
    """Whether this system tells what other processes use."""
    return (_PROC / "self" / "stat").exists()


@contextmanager
def running(command: Sequence[str], folder: Path) -> Iterator[Server]:
    """A server until the block ends, ready to be asked; it tells its URL in what it writes.

    Its output goes to a file, because nobody would read a pipe while it is under load.
    """
    log = folder / "server.log"
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    with process:
        try:
            yield Server(process.pid, _announced_port(process, log))
        finally:
            process.terminate()
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()


def aimock_command(folder: Path, questions: dict[str, str], piece: int) -> list[str] | None:
    """How to start aimock with answers, streamed in pieces; ``None`` if it cannot be had."""
    node, program = shutil.which("node"), _aimock_program()
    if node is None or program is None:
        say(f"skipped: {AIMOCK}, which needs node and npm")
        return None
    fixtures = [
        {"match": {"userMessage": prompt}, "response": {"content": answer}}
        for prompt, answer in questions.items()
    ]
    file = _written(folder / "aimock.json", fixtures)
    options = ["--host", "127.0.0.1", "--port", "0", "--fixtures", file, "--chunk-size", str(piece)]
    return [node, program, *options]


def llmposter_command(folder: Path, questions: dict[str, str], piece: int) -> list[str] | None:
    """How to start llmposter with answers, streamed in pieces; ``None`` if it cannot be had."""
    program = installed("llmposter", crate="llmposter", version=_LLMPOSTER_VERSION)
    if program is None:
        return None
    fixtures = [
        {
            "match": {"user_message": prompt},
            "response": {"content": answer},
            "streaming": {"chunk_size": piece},
        }
        for prompt, answer in questions.items()
    ]
    file = _written(folder / "llmposter.yaml", fixtures)
    return [program, "--fixtures", file, "--bind", "127.0.0.1", "--port", "0"]


def _cpu_clock(pid: int) -> float:
    """The CPU seconds of one process, from the clock that the C library's clock_getcpuclockid() names."""
    return time.clock_gettime((~pid << 3) | 2)


def _written(path: Path, fixtures: Sequence[Mapping[str, object]]) -> str:
    """A file of fixtures; JSON is YAML too."""
    path.write_text(json.dumps({"fixtures": fixtures}), encoding="utf-8")
    return os.fspath(path)


def _aimock_program() -> str | None:
    """Where aimock's program is; in the same place as that of the integration tests."""
    folder = _BENCH / "aimock" / _AIMOCK_VERSION
    mark = folder / ".complete"
    if not mark.exists():
        npm = shutil.which("npm")
        if npm is None:
            return None
        say(f"installing {AIMOCK}")
        shutil.rmtree(folder, ignore_errors=True)  # what was cut short starts afresh
        folder.mkdir(parents=True)
        options = ["--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(
            [npm, "install", "--prefix", folder, *options, f"@copilotkit/aimock@{_AIMOCK_VERSION}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            say(f"{AIMOCK} cannot be installed:\n{done.stderr.strip()}")
            return None
        mark.touch()
    return os.fspath(folder / _AIMOCK_PROGRAM)


def _announced_port(process: subprocess.Popen[bytes], log: Path) -> int:
    deadline = time.monotonic() + _READY_S
    while not (found := _URL.search(log.read_bytes())):
        if process.poll() is not None or time.monotonic() > deadline:
            written = log.read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"a server to measure did not start: {process.args!r}\n{written.strip()}")
        time.sleep(_LOOK_EVERY_S)
    return int(found[1])
