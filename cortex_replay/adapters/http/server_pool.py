"""The connections to one server, the one that was used last first.

httpx hands each request to a pool that knows many servers: when a call begins and when it ends, it goes over
all connections, asks the system about each that is idle, and counts all of them for each of them. With 16
calls at once that is a third of what a call costs. Here they all lead to one server, so one look at the
connection that is taken is enough. Connections themselves, and what is said over them, are httpcore's.
"""

from __future__ import annotations

import ssl
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator
from typing import Final

import anyio
import httpcore
import httpx

__all__ = ["ServerTransport"]

_MOST_SPARE: Final = 20
_SPARE_S: Final = 5.0
"""How long a connection that is not used is kept: as long as httpx keeps one."""


class ServerTransport(httpx.AsyncHTTPTransport):
    """The transport of httpx, whose class others replace methods of, with a pool for one server."""

    def __init__(self, verify: ssl.SSLContext) -> None:
        super().__init__(verify=verify)
        self._pool = _ServerPool(
            ssl_context=verify, max_connections=None, keepalive_expiry=_SPARE_S, http1=True, http2=False
        )


class _ServerPool(httpcore.AsyncConnectionPool):
    """As many connections as there are calls under way, and a few to spare."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self._busy: set[httpcore.AsyncConnectionInterface] = set()
        self._spare: deque[tuple[float, httpcore.AsyncConnectionInterface]] = deque()

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        connection = await self._take() or self.create_connection(request.url.origin)
        self._busy.add(connection)
        try:
            response = await connection.handle_async_request(request)
        except BaseException:  # it need not have closed itself: a cancellation may come before it sends
            self._busy.discard(connection)
            await _close(connection)
            raise
        assert isinstance(response.stream, AsyncIterable)  # noqa: S101 - that of an asynchronous connection
        return httpcore.Response(
            response.status,
            headers=response.headers,
            content=_Body(response.stream, self, connection),
            extensions=response.extensions,
        )

    async def give_back(self, connection: httpcore.AsyncConnectionInterface) -> None:
        """Keep a connection for the next call, if it is as good as new."""
        if connection not in self._busy:
            return  # the pool was closed meanwhile, and the connection with it
        self._busy.remove(connection)
        if connection.is_idle():
            self._spare.append((time.monotonic(), connection))
        else:
            await _close(connection)
        await self._close_old()

    async def aclose(self) -> None:
        connections = [*self._busy, *(connection for _, connection in self._spare)]
        self._busy.clear()
        self._spare.clear()
        for connection in connections:
            await _close(connection)

    async def _take(self) -> httpcore.AsyncConnectionInterface | None:
        """The connection that was used last, if the server has not closed it since."""
        while self._spare:
            _, connection = self._spare.pop()
            if not connection.has_expired():
                return connection
            await _close(connection)
        return None

    async def _close_old(self) -> None:
        """Close those that nobody has taken for a while, and those that are too many."""
        too_old = time.monotonic() - _SPARE_S
        while self._spare and (len(self._spare) > _MOST_SPARE or self._spare[0][0] < too_old):
            _, connection = self._spare.popleft()
            await _close(connection)


async def _close(connection: httpcore.AsyncConnectionInterface) -> None:
    """Close a connection that nobody knows of any more, also in a call that is cancelled."""
    with anyio.CancelScope(shield=True):
        await connection.aclose()


class _Body:
    """The body of an answer, which gives its connection back."""

    def __init__(
        self,
        stream: AsyncIterable[bytes],
        pool: _ServerPool,
        connection: httpcore.AsyncConnectionInterface,
    ) -> None:
        self._stream = stream
        self._pool = pool
        self._connection = connection

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._stream)

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):  # or a cancelled call would leave its connection open
            try:
                await self._stream.aclose()  # type: ignore[attr-defined]
            finally:
                await self._pool.give_back(self._connection)
