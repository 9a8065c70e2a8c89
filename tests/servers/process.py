"""Servers as child processes: ready when they say so, gone when the block ends."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

__all__ = ["Server", "ServerFailed", "free_port", "running"]

_T = TypeVar("_T")
_READY_SECONDS: Final = 60
_GRACE_SECONDS: Final = 5
_LOOK_EVERY_SECONDS: Final = 0.02


class ServerFailed(Exception):
    """A server that ended, or never got ready; the message holds what it wrote."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server and the file that takes all it writes."""

    process: subprocess.Popen[bytes]
    log: Path

    def announced(self, pattern: str) -> str:
        """What the group of a pattern matches in the log, as soon as it does.

        A server that is told to take any free port tells the one it got this way; a port chosen
        for it could be taken by somebody else in between.
        """
        return self.when(lambda: re.search(pattern, self.written))[1]

    def when(self, look: Callable[[], _T | None]) -> _T:
        """What a look at the server finds, as soon as it finds anything."""
        deadline = time.monotonic() + _READY_SECONDS
        while (found := look()) is None:
            if self.process.poll() is not None:
                raise ServerFailed(f"{self.log.name}: ended with {self.process.returncode}\n{self.written}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self.log.name}: not ready in {_READY_SECONDS} s\n{self.written}")
            time.sleep(_LOOK_EVERY_SECONDS)
        return found

    @property
    def written(self) -> str:
        """The log so far."""
        return self.log.read_text("utf-8", errors="replace")


@contextmanager
def running(
    command: Sequence[str | Path], log: Path, *, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """A server until the block ends.

    Its standard input stays open as long as this process lives, so a server that reads it knows
    when nobody is left to stop it.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
    with process:  # closes the pipe
        try:
            yield Server(process, log)
        finally:
            _stop(process)


def free_port() -> int:
    """A port for a server that does not tell which one it got; another program could take it first."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
