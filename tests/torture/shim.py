"""Standing between the writer and the system: every call it makes there can be counted, refused or fatal.

The writer, ``pathlib`` and ``shutil`` look these functions up when they call them, so replacing them
in their modules reaches every call; ``io.open`` is what ``Path.open`` calls.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import pytest

_WRAPPED: Final = [
    *((os, name) for name in ("open", "read", "write", "fsync", "close", "replace", "rename")),
    *((os, name) for name in ("link", "truncate", "ftruncate", "unlink", "remove", "mkdir", "rmdir")),
    (fcntl, "flock"),
    (io, "open"),
]
_ONLY_LOOKING: Final = frozenset(["open", "read", "close"])
CHANGING: Final = frozenset(["create", *(name for _, name in _WRAPPED)]) - _ONLY_LOOKING

Call = Callable[..., Any]
When = Literal["before", "amid", "after"]


class Hook(Protocol):
    """What happens instead of a call: usually the call itself, with something before or after it."""

    def __call__(self, name: str, call: Call, *args: Any, **kwargs: Any) -> Any: ...


@contextmanager
def hooked(hook: Hook) -> Iterator[None]:
    """Send this thread's calls through ``hook``; an ``open`` that may make a file is a ``create``."""
    thread = threading.get_ident()

    def wrapped(name: str, call: Call) -> Call:
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != thread:
                return call(*args, **kwargs)
            if name == "open" and _may_create(args, kwargs):
                return hook("create", call, *args, **kwargs)
            return hook(name, call, *args, **kwargs)

        return stand_in

    with pytest.MonkeyPatch.context() as patch:
        for module, name in _WRAPPED:
            patch.setattr(module, name, wrapped(name, getattr(module, name)))
        yield


def _may_create(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    how = args[1] if len(args) > 1 else kwargs.get("mode", "r")
    return bool(how & os.O_CREAT) if isinstance(how, int) else how[0] in "wax"


class Counter:
    """Notes the calls that change something."""

    def __init__(self) -> None:
        self.changed: list[str] = []

    def __call__(self, name: str, call: Call, *args: Any, **kwargs: Any) -> Any:
        if name in CHANGING:
            self.changed.append(name)
        return call(*args, **kwargs)


@dataclass
class Killer:
    """Ends this process, as ``kill -9`` does, at the ``at``-th call that changes something."""

    at: int
    when: When
    calls: frozenset[str] = CHANGING

    def __call__(self, name: str, call: Call, *args: Any, **kwargs: Any) -> Any:
        self.at -= name in self.calls
        if self.at != 0 or name not in self.calls:
            return call(*args, **kwargs)
        try:
            if self.when == "amid" and name == "write":
                call(args[0], args[1][: len(args[1]) // 2])
            elif self.when != "before":
                call(*args, **kwargs)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class IndexSyncFails:
    """The folder of a new index cannot be synced: the commit has to retreat. One time only."""

    then: Hook
    is_only_after: bool = False
    """Whether the other hook only sees what comes after that."""
    is_armed: bool = False
    is_over: bool = False

    def __call__(self, name: str, call: Call, *args: Any, **kwargs: Any) -> Any:
        if name == "fsync" and self.is_armed and not self.is_over:
            self.is_over = True
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self.is_only_after and not self.is_over:
            result = call(*args, **kwargs)
        else:
            result = self.then(name, call, *args, **kwargs)
        self.is_armed |= name == "replace" and Path(args[1]).name == "INDEX.toml"
        return result


@dataclass(frozen=True)
class Ended:
    """How a child ended, and what it had said by then."""

    said: list[str]
    was_killed: bool


def in_child(work: Callable[[Callable[[str], None]], None]) -> Ended:
    """Run ``work`` in a fork; what it says by its argument arrives even if it is killed."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # no other thread holds a lock of ours
        pid = os.fork()
    if pid == 0:
        status = 1
        pipe = os.fdopen(writer, "w")  # writes below the wrapped functions
        try:
            os.close(reader)
            work(lambda text: print(text, file=pipe, flush=True))
            status = 0
        except BaseException:  # noqa: BLE001 - told to the parent, which raises
            print(traceback.format_exc(), file=pipe, flush=True)
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as said:
        lines = said.read().splitlines()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status not in (0, -signal.SIGKILL):
        raise AssertionError("\n".join([f"the child failed ({status})", *lines]))
    return Ended(lines, status != 0)
