"""Bytes that are carried between two connections, to hosts that are none of our business."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

__all__ = ["OuterProxy", "carry", "connect", "open_tunnel", "outer_proxy"]

_PIECE: Final = 64 * 1024
_MOST_HEAD_BYTES: Final = 64 * 1024


class OuterProxy(NamedTuple):
    """The proxy that the user's own environment names."""

    host: str
    port: int
    authorization: str
    """The line that lets us through, or nothing."""


def outer_proxy(scheme: str, host: str, port: int) -> OuterProxy | None:
    """The proxy that leads to a host; ``None`` where it is reached without one.

    Raises:
        OSError: It is of a kind that only a library for it could speak to.
    """
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - it loads a whole client

    proxies = getproxies()
    url = proxies.get(scheme) or proxies.get("all")
    if not url or proxy_bypass(f"{host}:{port}") or proxy_bypass(host):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise OSError(f"the {scheme} proxy of the environment is not an http:// URL")
    user = parts.netloc.rpartition("@")[0]
    coded = base64.b64encode(unquote(user).encode()).decode()
    line = f"proxy-authorization: Basic {coded}\r\n" if user else ""
    return OuterProxy(parts.hostname, parts.port or 80, line)


async def connect(host: str, port: int) -> socket.socket:
    """A connection to a host.

    Raises:
        OSError: It cannot be reached.
    """
    loop = asyncio.get_running_loop()
    failure: OSError = ConnectionRefusedError(f"{host} has no address")
    for family, kind, number, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, number)
        try:
            connection.setblocking(False)
            await loop.sock_connect(connection, address)
        except OSError as error:
            connection.close()
            failure = error
        except BaseException:
            connection.close()
            raise
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
    raise failure


async def open_tunnel(host: str, port: int) -> socket.socket:
    """A connection to a host whose bytes are the client's own, through the user's proxy if there is one.

    Raises:
        OSError: It cannot be reached.
    """
    outer = outer_proxy("https", host, port)
    if outer is None:
        return await connect(host, port)
    connection = await connect(outer.host, outer.port)
    try:
        shown = f"[{host}]" if ":" in host else host
        loop = asyncio.get_running_loop()
        asked = f"CONNECT {shown}:{port} HTTP/1.1\r\nhost: {shown}:{port}\r\n{outer.authorization}\r\n"
        await loop.sock_sendall(connection, asked.encode("latin-1"))
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):  # what stands behind it is the host's, and stays there
            piece = await loop.sock_recv(connection, 1)
            if not piece or len(answer) > _MOST_HEAD_BYTES:
                raise ConnectionRefusedError("the proxy of the environment did not answer")
            answer += piece
        if answer.split(b" ", 2)[1:2] != [b"200"]:
            status = answer.partition(b"\r\n")[0].decode("latin-1")
            raise ConnectionRefusedError(f"the proxy of the environment said {status!r}")
    except BaseException:
        connection.close()
        raise
    return connection


async def carry(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes both ways until both sides have ended, or one has broken off."""
    with contextlib.suppress(ExceptionGroup):  # a side that breaks off ends the other
        async with asyncio.TaskGroup() as both:
            both.create_task(_carry(one, other))
            both.create_task(_carry(other, one))


async def _carry(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, _PIECE):
        await loop.sock_sendall(target, data)
    target.shutdown(socket.SHUT_WR)
