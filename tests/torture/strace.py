"""The system calls of a program that changes files, as ``strace`` saw them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_CALLS: Final = (
    "openat,write,pwrite64,writev,fsync,fdatasync,rename,renameat,renameat2,link,linkat,"
    "unlink,unlinkat,mkdir,mkdirat,rmdir,truncate,ftruncate"
)
_LINE: Final = re.compile(r"\d+ +(?P<call>\w+)\((?P<args>.*)\) += (?P<result>\d+)")
_HEX: Final = r"((?:\\x[0-9a-f]{2})*)"
_STRING: Final = re.compile(f'"{_HEX}"')
_DESCRIPTOR: Final = re.compile(rf"(\d+|AT_FDCWD)<{_HEX}>(\(deleted\))?")


class Event(NamedTuple):
    """One change, or the program's own words (``say``). Paths are relative to the traced folder."""

    call: str
    path: str = ""
    target: str = ""
    data: bytes = b""


def trace(program: list[str | Path], folder: Path, output: Path) -> list[Event]:
    """Run a program that works in ``folder``; its words go to descriptor 1.

    Raises:
        OSError: There is no strace, or it may not trace.
    """
    options = ["-f", "--seccomp-bpf", "-y", "-xx", "-s", "10000000", "-e", "signal=none"]
    command = [
        "strace",
        *options,
        "-e",
        f"trace={_CALLS}",
        "-o",
        str(output),
        sys.executable,
        *map(str, program),
    ]
    here = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, check=False, env=here)
    said = done.stderr.decode()
    if "ptrace" in said:
        raise OSError(said)
    if done.returncode != 0:
        raise AssertionError(f"the traced program failed: {said}")
    return list(parse(output.read_text().splitlines(), folder))


def parse(lines: list[str], folder: Path) -> Iterator[Event]:
    """The events below ``folder``, in order. Calls that failed have no effect and are left out."""
    for line in lines:
        if "<unfinished ...>" in line:
            raise AssertionError(f"two processes at once cannot be told apart: {line}")
        match = _LINE.match(line)
        event = _event(match["call"], match["args"].split(", ")) if match else None
        if event is None:
            continue
        if event.call == "say":
            yield event
        elif (path := _below(folder, event.path)) is not None:
            target = _below(folder, event.target) if event.target else ""
            assert target is not None, f"moved out of sight: {line}"
            yield event._replace(path=path, target=target)


def _event(call: str, args: list[str]) -> Event | None:
    match call:
        case "openat":
            if "O_TRUNC" in args[2]:
                return Event("truncate", _path(args))
            return Event("create", _path(args)) if "O_CREAT" in args[2] else None
        case "write":
            data = _text(args[1])
            if args[0].startswith("1<"):
                return Event("say", data=data)
            return Event("write", _path(args[:1]), data=data)
        case "fsync" | "fdatasync":
            return Event("sync", _path(args))
        case "rename":
            return Event("rename", _path(args[:1]), _path(args[1:]))
        case "renameat" | "renameat2":
            return Event("rename", _path(args[:2]), _path(args[2:4]))
        case "unlinkat":
            return Event("rmdir" if "AT_REMOVEDIR" in args[2] else "unlink", _path(args))
        case "unlink" | "rmdir" | "mkdir":
            return Event(call, _path(args))
        case "mkdirat":
            return Event("mkdir", _path(args))
    raise AssertionError(f"the model does not know what {call} does")


def _path(args: list[str]) -> str:
    """What the first arguments name: a path, a descriptor, or a path below a descriptor."""
    if not (descriptor := _DESCRIPTOR.match(args[0])):
        return os.fsdecode(_text(args[0]))
    folder = os.fsdecode(_plain(descriptor[2]))
    if len(args) > 1 and _STRING.match(args[1]) and not descriptor[3]:
        return os.path.join(folder, os.fsdecode(_text(args[1])))  # noqa: PTH118 - keeps an absolute one
    return folder


def _text(argument: str) -> bytes:
    match = _STRING.match(argument)
    assert match, f"not a string, or cut off: {argument[:80]}"
    return _plain(match[1])


def _plain(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))


def _below(folder: Path, path: str) -> str | None:
    if path == str(folder):
        return ""
    prefix = f"{folder}/"
    return path.removeprefix(prefix) if path.startswith(prefix) else None
