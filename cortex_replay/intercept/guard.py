"""A guard against calls that nobody intercepts: a name of a model's host is not resolved while we replay."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Collection, Iterator
from typing import Any

from cortex_replay.intercept.interception import is_bypassed

__all__ = ["LiveCallRefused", "guarding"]


class LiveCallRefused(OSError):
    """A client that is not intercepted wanted to reach a model."""


@contextlib.contextmanager
def guarding(hosts: Collection[str], refuse: Callable[[str], BaseException]) -> Iterator[None]:
    """Raise what ``refuse`` makes of its name when somebody looks up one of these hosts."""
    original = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        if name in hosts and not is_bypassed():
            raise refuse(str(name))
        return original(host, *arguments, **options)

    socket.getaddrinfo = getaddrinfo
    try:
        yield
    finally:
        socket.getaddrinfo = original
