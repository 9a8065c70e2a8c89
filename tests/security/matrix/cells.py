"""One cell: a command in a sandbox, then the judges."""

from __future__ import annotations

import contextlib
import functools
import http.client
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.security.matrix import judges
from tests.security.matrix.plants import ADOPTED, Plant
from tests.security.matrix.rows import PROGRAM, STORES, Row
from tests.security.matrix.sandbox import CANARIES, Sandbox, Workshop
from tests.waiting import LONGEST_S

__all__ = ["Limits", "commands", "complaints"]

_CLONE: Final = "work/clone"
_OURS: Final = (
    "home/.local",
    "home/.local/state",
    "home/.local/state/cortex-replay/**",
    "home/.config",
    "home/.config/cortex-replay/**",
    "home/.cache",
    "home/.cache/cortex-replay/**",
    "tmp/**",
)
"""Folders of the user's that are for this program, and the one for temporary files."""
_OWN_KEYS: Final = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
"""What a server that the user has chosen may get."""
_SHOWN: Final = 8
_STATUS_LINE: Final = re.compile(r"^  (\d)  ", re.MULTILINE)
_COMMAND_LINE: Final = re.compile(r"^  ([a-z][a-z-]*) ", re.MULTILINE)
_URL: Final = re.compile(rb"http://[^\s\"]+")
_GUARD_BYTES: Final = 2 << 30
"""Of address space: a bomb must not take the machine with it."""


@dataclass(frozen=True)
class Limits:
    """What a command may take."""

    seconds: float = 120
    """A hang has no end; a command beside a load of thirty may take a minute."""
    megabytes: int = 500


USUAL: Final = Limits()


@dataclass(frozen=True)
class Outcome:
    """How a process ended."""

    status: int | None
    """``None`` if it had to be killed."""
    megabytes: int
    leaves_processes: bool
    out: bytes
    talk: bytes
    trace: str


def complaints(row: Row, plant: Plant, workshop: Workshop, limits: Limits = USUAL) -> list[str]:
    """What the judges have to say, each with its name first; nothing if all is well."""
    if plant.records and row.takes_mode:
        row = replace(row, changes=(*row.changes, *STORES), calls=True)
    sandbox = workshop.sandbox(plant)
    try:
        if row.prepare is not None:
            row.prepare(sandbox)
        for mark in workshop.marks.iterdir():
            mark.unlink()
        workshop.own.drain()
        workshop.thief.drain()
        before = judges.snapshot(sandbox.top, _CLONE)
        outcome = _run(row, sandbox, limits)
        after = judges.snapshot(sandbox.top, _CLONE)
        return [
            *_of_files(row, sandbox, before, after),
            *_of_network(row, workshop, outcome),
            *(
                f"programs: {mark.name} of the repository was run"
                for mark in sorted(workshop.marks.iterdir())
            ),
            *_of_output(row, sandbox, outcome),
            *_of_end(row, outcome, limits),
        ]
    finally:
        shutil.rmtree(sandbox.top)


def _of_files(
    row: Row, sandbox: Sandbox, before: dict[str, judges.Entry], after: dict[str, judges.Entry]
) -> Iterator[str]:
    allowed = [*_OURS, *(f"{_CLONE}/{path}" for path in row.changes)]
    found = judges.changes(before, after)
    wrong = judges.unexpected(found, allowed)
    for path, what in list(wrong.items())[:_SHOWN]:
        yield f"files: {path!r} {what}"
    if len(wrong) > _SHOWN:
        yield f"files: and {len(wrong) - _SHOWN} more"
    for path in found:
        full = sandbox.top / path
        if path in after and after[path].kind == "file":
            for name in judges.canaries_in(full.read_bytes(), CANARIES, [path.removeprefix("home/")]):
                yield f"files: {path!r} holds {name}"
    for index in ("INDEX.toml", "llm/INDEX.toml"):
        full = sandbox.clone / index
        if full.is_file() and not full.is_symlink() and ADOPTED.encode() in full.read_bytes():
            yield f"files: {index} lists a recording that was planted as staged"


def _of_network(row: Row, workshop: Workshop, outcome: Outcome) -> Iterator[str]:
    for data in workshop.own.drain():
        for name in judges.canaries_in(data, CANARIES, _OWN_KEYS):
            yield f"network: {name} went to the user's own server"
    stolen = workshop.thief.drain()
    for data in stolen:
        for name in judges.canaries_in(data, CANARIES):
            yield f"network: {name} went to the thief: {data[:60]!r}"
    if not row.calls:
        for data in stolen:
            yield f"network: a connection to the thief: {data[:60]!r}"
        for address in judges.foreign_connections(outcome.trace):
            yield f"network: a connection to {'the thief' if address == workshop.thief.host else address}"


def _of_output(row: Row, sandbox: Sandbox, outcome: Outcome) -> Iterator[str]:
    outputs = {"stdout": outcome.out, "stderr": outcome.talk}
    summary = sandbox.top / "tmp" / "summary.md"
    if summary.is_file():
        outputs["the step summary"] = summary.read_bytes()
    for name, data in outputs.items():
        for complaint in judges.output_complaints(data, for_people="--json" not in row.arguments):
            yield f"output: {name}: {complaint}"
        for canary in judges.canaries_in(data, CANARIES):
            yield f"output: {name} holds {canary}"


def _of_end(row: Row, outcome: Outcome, limits: Limits) -> Iterator[str]:
    if outcome.status is None:
        yield f"end: it ran for more than {limits.seconds} s"
    elif outcome.status not in (statuses(row.command) if row.statuses is None else row.statuses):
        yield f"end: exit status {outcome.status}; {outcome.talk[-300:]!r}"
    if outcome.megabytes > limits.megabytes:
        yield f"end: it took {outcome.megabytes} MB"
    if outcome.leaves_processes:
        yield "end: it left processes behind"


@functools.cache
def _help(*arguments: str) -> str:
    done = subprocess.run([PROGRAM, *arguments, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def commands() -> frozenset[str]:
    """The commands of the program, by its own help."""
    listed = _help().partition("\nRecord and replay:\n")[2].partition("\nExamples:\n")[0]
    return frozenset(_COMMAND_LINE.findall(f"{listed}\n"))


@functools.cache
def statuses(command: str) -> frozenset[int]:
    """The exit statuses of a command, by its own help; and 1, with which a user's own program may end."""
    found = {int(one) for one in _STATUS_LINE.findall(_help(command).partition("\nExit status:\n")[2])}
    return frozenset(found | ({1} if command in ("record", "replay", "sweep") else set()))


@functools.cache
def _tracer() -> tuple[str, ...]:
    """What to run a command under to see every connection, where there is something."""
    options = ("-f", "--seccomp-bpf", "-qq", "-e", "trace=connect", "-e", "signal=none")
    with contextlib.suppress(OSError):
        done = subprocess.run(
            ["strace", *options, "-o", os.devnull, "true"], capture_output=True, check=False
        )
        if done.returncode == 0:
            return ("strace", *options)
    return ()


def _run(row: Row, sandbox: Sandbox, limits: Limits) -> Outcome:
    watched = sandbox.top.with_suffix(".watched")
    watched.mkdir()
    trace, out, talk, given = (watched / name for name in ("trace", "out", "talk", "in"))
    given.write_bytes(row.stdin)
    command = [row.program, *map(sandbox.filled, row.arguments)]
    if tracer := _tracer():
        command = [*tracer, "-o", str(trace), *command]
    variables = {name: sandbox.filled(value) for name, value in row.variables.items()}
    with out.open("wb") as stdout, talk.open("wb") as stderr, given.open("rb") as stdin:
        process = subprocess.Popen(
            command,
            cwd=sandbox.clone,
            env={**sandbox.environment(), **variables},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    if sys.platform == "linux":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(process.pid, resource.RLIMIT_AS, (_GUARD_BYTES, _GUARD_BYTES))
    deadline = time.monotonic() + limits.seconds
    if row.serves:
        _call_and_interrupt(process, out, deadline)
    status, megabytes = _wait(process, deadline)
    leaves = _end_group(process.pid) and status is not None
    outcome = Outcome(
        status,
        megabytes,
        leaves,
        out.read_bytes(),
        talk.read_bytes(),
        trace.read_text(errors="replace") if trace.exists() else "",
    )
    shutil.rmtree(watched)
    return outcome


def _wait(process: subprocess.Popen[bytes], deadline: float) -> tuple[int | None, int]:
    """The exit status, and the memory of the largest process."""
    was_killed = False
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
            # Until it runs its program, a new process counts what this one holds.
            ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            largest = usage.ru_maxrss if usage.ru_maxrss > ours else 0
            return None if was_killed else process.returncode, largest // unit
        if not was_killed and time.monotonic() > deadline:
            was_killed = True
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.005)


def _end_group(group: int) -> bool:
    """End what is left of a process group; gives whether there was anything."""
    for _ in range(50):  # what was told to end may need a moment
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return False
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    return True


def _call_and_interrupt(process: subprocess.Popen[bytes], out: Path, deadline: float) -> None:
    """One call to the server once it is there, then Ctrl-C."""
    while not (found := _URL.search(out.read_bytes())):
        if time.monotonic() > deadline or _has_ended(process):
            return
        time.sleep(0.01)
    url = urlsplit(found[0].decode())
    body = b'{"model":"m","messages":[{"role":"user","content":"What is new?"}]}'
    for provider in ("openai", "evil"):
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=LONGEST_S)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            path = f"{url.path.rstrip('/')}/{provider}/chat/completions"
            connection.request("POST", path, body, {"content-type": "application/json"})
            connection.getresponse().read()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    done = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return done is not None
