"""A guard against calls that nobody intercepts: no client asks a model around us.

In replay no client reaches the host of a provider. It names that host in one of four places, whatever is
between the two: it looks the name up, it connects to an address, it begins TLS with a server's name, or it
writes an HTTP request that says ``Host``, ``CONNECT`` or a whole URL. All four are watched, so no proxy, no
address and no loop with a resolver of its own (uvloop) leads around the guard.

Any other host may be a model's, too. So each request that is written is looked at: whether it asks what
models are asked (:mod:`cortex_replay.engine.http.model_calls`). Nothing stays watched behind the last guard.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from cortex_replay.engine.bypass import is_bypassed
from cortex_replay.engine.http.model_calls import ModelCall, model_call
from cortex_replay.hosts import host_of, normal_host
from cortex_replay.interception.nowhere import Nowhere
from cortex_replay.interception.transports.seam import Replacement, Replacements, Transport

__all__ = ["LiveCallRefused", "guarding"]

_HEAD: Final = re.compile(rb"([A-Za-z]{3,16}+) (?:[a-zA-Z][a-zA-Z0-9+.-]*+://)?([^/\s]*+)([^\r\n]*?) HTTP/1")
_LONGEST_FIELD: Final = 64
"""Of a field's name and what stands around it, where a body comes in pieces."""
_KEYWORD_ONLY: Final = 99
_MISSING: Final = object()


class LiveCallRefused(OSError):
    """A client that is not intercepted wanted to reach a model."""


class _Guard(NamedTuple):
    hosts: frozenset[str]
    refuse: Callable[[str], BaseException]
    is_allowed: Callable[[str], bool]


class _Pending(NamedTuple):
    """A request whose head is written, and whose body must tell what it is."""

    authority: str
    looks_like: ModelCall
    fields: frozenset[str] = frozenset()
    """Those that it was seen to have."""
    tail: bytes = b""
    """The last bytes that came of it."""


_LOCK: Final = threading.RLock()
_PENDING: Final[WeakKeyDictionary[Any, _Pending]] = WeakKeyDictionary()
_ACTIVE: Final[list[_Guard]] = []
_REPLACED: Final[list[tuple[Any, str, Any]]] = []


@contextlib.contextmanager
def guarding(
    hosts: Collection[str],
    refuse: Callable[[str], BaseException],
    is_allowed: Callable[[str], bool] = lambda _: False,
) -> Iterator[None]:
    """Let nobody ask a model around us.

    Args:
        hosts: Nobody may reach these, whatever for.
        refuse: Makes what is raised, of the host's name; other hosts have their port behind it.
        is_allowed: Whether another host, with its port, may be asked what models are asked.
    """
    guard = _Guard(frozenset(map(normal_host, hosts)), refuse, is_allowed)
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
                _PENDING.clear()


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


def _check_request(connection: Any, data: Any) -> None:
    """Refuse a request whose head names a host that is guarded, or that asks what models are asked."""
    if isinstance(getattr(connection, "transport", None), Nowhere):
        return
    try:
        pending = _PENDING.get(connection) if _PENDING else None
        if pending is None and not bytes(memoryview(data)[:1]).isalpha():
            return
        written = bytes(data)
    except (TypeError, ValueError, NotImplementedError):  # it is for the socket to say what is wrong with it
        return
    head = _HEAD.match(written)
    if head is not None:
        _check_head(connection, head, written)
    elif pending is not None:
        _check_body(connection, pending, written)


def _check_head(connection: Any, head: re.Match[bytes], written: bytes) -> None:
    lines, _, body = written.partition(b"\r\n\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, colon, value in (line.partition(":") for line in lines.decode("latin-1").split("\r\n")[1:])
        if colon
    }
    target, host = head[2].decode("latin-1"), headers.get("host", "")
    for authority in filter(None, (target, host)):
        _check(host_of(authority))
    path = head[3].decode("latin-1").partition("?")[0]
    looks_like = model_call(head[1].decode(), path, lambda name: headers.get(name, ""))
    with _LOCK:
        _PENDING.pop(connection, None)
    if looks_like is not None:
        _check_body(connection, _Pending(target or host, looks_like), body)


def _check_body(connection: Any, pending: _Pending, data: bytes) -> None:
    """Refuse a body that asks a model, as soon as it can be told; until then, remember it."""
    if is_bypassed():
        return
    seen = pending.tail + data
    fields = pending.fields | pending.looks_like.fields_in(seen)
    is_whole = pending.looks_like.fits_fields(fields)
    with _LOCK:
        _PENDING.pop(connection, None)
        if not is_whole:
            _PENDING[connection] = pending._replace(fields=fields, tail=seen[-_LONGEST_FIELD:])
            return
    for guard in reversed(_ACTIVE):
        if not guard.is_allowed(pending.authority):
            transport = getattr(connection, "transport", connection)
            if isinstance(transport, asyncio.Transport):
                transport.abort()  # else its reader would wait for an answer
            raise guard.refuse(pending.authority)


def _check_buffers(connection: Any, buffers: Any) -> None:
    if isinstance(buffers, list | tuple):
        with contextlib.suppress(TypeError):  # it is for the socket to say what is wrong with it
            _check_request(connection, b"".join(buffers))


def _replace() -> None:
    """Put the checks before everything that leads to a host."""
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        _put_before(socket, name, _check, 0, "host")
    for name in ("connect", "connect_ex"):
        _put_before(socket.socket, name, _check_address, 1)
    for name in ("send", "sendall", "sendto"):
        _put_before_write(socket.socket, name, _check_request)
    _put_before_write(socket.socket, "sendmsg", _check_buffers)
    for kind, name in ((ssl.SSLSocket, "send"), (ssl.SSLSocket, "write"), (ssl.SSLObject, "write")):
        _put_before_write(kind, name, _check_request)
    _put_before(ssl.SSLContext, "wrap_socket", _check, 5, "server_hostname")
    _put_before(ssl.SSLContext, "wrap_bio", _check, 4, "server_hostname")
    _replace_in_loops()


def _replace_in_loops() -> None:
    """The same for event loops: what is raised below them would reach nobody, and uvloop has no sockets of
    Python's below it."""
    for _, name, wrap in _replacements_in_loop(asyncio.BaseEventLoop):
        _install(asyncio.BaseEventLoop, name, wrap(getattr(asyncio.BaseEventLoop, name)))
    _UVLOOP.put()
    for module, kind in (
        ("asyncio.selector_events", "_SelectorSocketTransport"),
        ("asyncio.proactor_events", "_ProactorBaseWritePipeTransport"),
    ):
        transport = getattr(sys.modules.get(module), kind, None)
        if transport is not None:
            _put_before_write(transport, "write", _check_request)
            _put_before_write(transport, "writelines", _check_buffers)


def _replacements_in_loop(loop: type) -> Iterable[Replacement]:
    yield Replacement(loop, "create_connection", partial(_before, _replace_in_aiohttp, 0, None))
    yield Replacement(loop, "getaddrinfo", partial(_before, _check, 1, "host"))
    yield Replacement(loop, "create_connection", partial(_before, _check, 2, "host"))
    for name in ("create_connection", "start_tls"):
        yield Replacement(loop, name, partial(_before, _check, _KEYWORD_ONLY, "server_hostname"))


_UVLOOP: Final = Replacements([Transport("uvloop", lambda library: _replacements_in_loop(library.Loop))])
"""Which a program may import long after the first guard began, or never."""


def _replace_in_aiohttp(_: object = None) -> None:
    """The same for aiohttp, whose plain HTTP on uvloop is written by no class of Python's. It may be imported
    long after the first guard began."""
    writer = getattr(sys.modules.get("aiohttp.http_writer"), "StreamWriter", None)
    with _LOCK:
        if writer is None or not _ACTIVE or any(owner is writer for owner, _, _ in _REPLACED):
            return
        for name, check in (("_write", _check_request), ("_writelines", _check_buffers)):
            if hasattr(writer, name):
                _put_before_write(writer, name, check)


def _put_before(
    owner: Any, name: str, check: Callable[[Any], None], position: int, keyword: str | None = None
) -> None:
    """Let a check look at one argument of a function, wherever it is given."""
    _install(owner, name, _before(check, position, keyword, getattr(owner, name)))


def _before(
    check: Callable[[Any], None], position: int, keyword: str | None, original: Callable[..., Any]
) -> Callable[..., Any]:
    def replacement(*arguments: Any, **options: Any) -> Any:
        if len(arguments) > position:
            check(arguments[position])
        elif keyword in options:
            check(options[keyword])
        return original(*arguments, **options)

    return replacement


def _put_before_write(owner: Any, name: str, check: Callable[[Any, Any], None]) -> None:
    """Let a check look at what a method of a connection is to write."""
    original = getattr(owner, name)

    def replacement(connection: Any, *arguments: Any, **options: Any) -> Any:
        written = arguments[:1] or tuple(options.values())[:1]  # each has one that can be named, its data
        for data in written:
            check(connection, data)
        return original(connection, *arguments, **options)

    _install(owner, name, replacement)


def _install(owner: Any, name: str, replacement: Callable[..., Any]) -> None:
    _REPLACED.append((owner, name, owner.__dict__.get(name, _MISSING)))
    setattr(owner, name, replacement)


def _restore() -> None:
    _UVLOOP.take_back()
    while _REPLACED:
        owner, name, before = _REPLACED.pop()
        if before is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
