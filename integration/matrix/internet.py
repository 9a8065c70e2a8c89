"""The internet, as far as the matrix needs it: a proxy that leads the hosts of providers to servers here.

It ends TLS with certificates of its own. So what is recorded went the whole way that it goes in the world: to
the provider's host by name, through a proxy of the user's, over TLS that was verified.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Final

from cortex_replay.gateway.authority import Authority

__all__ = ["Internet", "start_internet"]

_PIECE: Final = 65536


class Internet:
    """Where it is, and what its clients have to trust."""

    def __init__(self, hosts: Mapping[str, int]) -> None:
        self._hosts = hosts
        self._authority = Authority(hosts)
        self.certificate = self._authority.certificate
        self.url = ""

    async def serve(self, ready: threading.Event, end: asyncio.Event) -> None:
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        await end.wait()
        server.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            host = head.split()[1].decode().rpartition(":")[0]
            port = self._hosts.get(host)
            if not head.startswith(b"CONNECT ") or port is None:
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
            else:
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                await writer.start_tls(self._authority.context(host))
                there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(_carry(reader, there_writer), _carry(there_reader, writer))
        writer.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_PIECE):
            # llama.cpp hangs up after five idle seconds; on a busy machine that may be in the next request.
            writer.write(data.replace(b"\r\nKeep-Alive: ", b"\r\nConnection: close\r\nX-Keep-Alive: "))
            await writer.drain()
    writer.close()


@contextlib.contextmanager
def start_internet(hosts: Mapping[str, int]) -> Iterator[Internet]:
    """The internet with these hosts, each at a port of this machine, until the block ends."""
    internet = Internet(hosts)
    ready, loop, end = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(internet.serve(ready, end)), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield internet
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()
