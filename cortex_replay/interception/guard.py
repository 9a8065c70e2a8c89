"""A guard against calls that nobody intercepts: while we replay, no client reaches a model's host.

A client names the host that it wants in one of four places, whatever is between the two: it looks the name
up, it connects to an address, it begins TLS with a server's name, or it writes an HTTP request that says
``Host``, ``CONNECT`` or a whole URL. All four are watched, so no proxy, no address and no loop with a
resolver of its own (uvloop) leads around the guard. Nothing stays watched behind the last one.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import re
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, NamedTuple

from cortex_replay.engine.bypass import is_bypassed
from cortex_replay.hosts import host_of, normal_host

__all__ = ["LiveCallRefused", "guarding"]

_HEAD: Final = re.compile(rb"[A-Za-z]{3,16}+ (?:[a-zA-Z][a-zA-Z0-9+.-]*+://)?([^/\s]*+)[^\r\n]*? HTTP/1")
_HOST: Final = re.compile(rb"\r\nhost:[ \t]*([^\r\n]*)", re.IGNORECASE)
_MOST_HEAD_BYTES: Final = 65536
_KEYWORD_ONLY: Final = 99
_MISSING: Final = object()


class LiveCallRefused(OSError):
    """A client that is not intercepted wanted to reach a model."""


class _Guard(NamedTuple):
    hosts: frozenset[str]
    refuse: Callable[[str], BaseException]


_LOCK: Final = threading.RLock()
_ACTIVE: Final[list[_Guard]] = []
_REPLACED: Final[list[tuple[Any, str, Any]]] = []


@contextlib.contextmanager
def guarding(hosts: Collection[str], refuse: Callable[[str], BaseException]) -> Iterator[None]:
    """Raise what ``refuse`` makes of its name when somebody wants to reach one of these hosts."""
    guard = _Guard(frozenset(map(normal_host, hosts)), refuse)
    with _LOCK:
        if not _ACTIVE:
            _replace()
        _ACTIVE.append(guard)
    try:
        yield
    finally:
        with _LOCK:
            _ACTIVE.remove(guard)
            if not _ACTIVE:
                _restore()


def _check(host: object) -> None:
    """Refuse a host that is guarded."""
    if not isinstance(host, str | bytes | bytearray) or is_bypassed():
        return
    name = normal_host(host if isinstance(host, str) else bytes(host))
    for guard in reversed(_ACTIVE):
        if name in guard.hosts:
            raise guard.refuse(name)


def _check_address(address: object) -> None:
    if isinstance(address, tuple) and address:
        _check(address[0])


def _check_request(data: Any) -> None:
    """Refuse a request whose head names a host that is guarded."""
    try:
        first = bytes(memoryview(data)[:1])
        if not first.isalpha():
            return
        written = bytes(memoryview(data)[:_MOST_HEAD_BYTES])
    except (TypeError, ValueError, NotImplementedError):  # it is for the socket to say what is wrong with it
        return
    head = _HEAD.match(written)
    if head is None:
        return
    if head[1]:
        _check(host_of(head[1].decode("latin-1")))
    named = _HOST.search(written.partition(b"\r\n\r\n")[0])
    if named is not None:
        _check(host_of(named[1].decode("latin-1")))


def _check_buffers(buffers: Any) -> None:
    if isinstance(buffers, list | tuple):
        _check_request(b"".join(bytes(memoryview(buffer)[:_MOST_HEAD_BYTES]) for buffer in buffers[:64]))


def _replace() -> None:
    """Put the checks before everything that leads to a host."""
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        _put_before(socket, name, _check, 0, "host")
    for name in ("connect", "connect_ex"):
        _put_before(socket.socket, name, _check_address, 1)
    for name in ("send", "sendall", "sendto"):
        _put_before(socket.socket, name, _check_request, 1)
    _put_before(socket.socket, "sendmsg", _check_buffers, 1)
    for kind, name in ((ssl.SSLSocket, "send"), (ssl.SSLSocket, "write"), (ssl.SSLObject, "write")):
        _put_before(kind, name, _check_request, 1)
    _put_before(ssl.SSLContext, "wrap_socket", _check, 5, "server_hostname")
    _put_before(ssl.SSLContext, "wrap_bio", _check, 4, "server_hostname")
    _replace_in_loops()


def _replace_in_loops() -> None:
    """The same for event loops: what is raised below them would reach nobody, and uvloop has no sockets of
    Python's below it."""
    loops: list[Any] = [asyncio.BaseEventLoop]
    with contextlib.suppress(ImportError):  # not there on Windows
        loops.append(importlib.import_module("uvloop").Loop)
    for loop in loops:
        _put_before(loop, "getaddrinfo", _check, 1, "host")
        _put_before(loop, "create_connection", _check, 2, "host")
        _put_before(loop, "create_connection", _check, _KEYWORD_ONLY, "server_hostname")
        _put_before(loop, "start_tls", _check, _KEYWORD_ONLY, "server_hostname")
    for module, kind in (
        ("asyncio.selector_events", "_SelectorSocketTransport"),
        ("asyncio.proactor_events", "_ProactorBaseWritePipeTransport"),
    ):
        transport = getattr(sys.modules.get(module), kind, None)
        if transport is not None:
            _put_before(transport, "write", _check_request, 1, "data")


def _put_before(
    owner: Any, name: str, check: Callable[[Any], None], position: int, keyword: str | None = None
) -> None:
    """Let a check look at one argument of a function, wherever it is given."""
    original = getattr(owner, name)

    def replacement(*arguments: Any, **options: Any) -> Any:
        if len(arguments) > position:
            check(arguments[position])
        elif keyword in options:
            check(options[keyword])
        return original(*arguments, **options)

    _REPLACED.append((owner, name, owner.__dict__.get(name, _MISSING)))
    setattr(owner, name, replacement)


def _restore() -> None:
    while _REPLACED:
        owner, name, before = _REPLACED.pop()
        if before is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
