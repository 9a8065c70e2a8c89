"""What stands between a client of the SDK and its server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import anyio

from cortex_replay.engine.mcp.link import Outgoing, ServerLink
from cortex_replay.engine.mcp.session import Session
from cortex_replay.interception.mcp.sdk import Sdk
from cortex_replay.interception.mcp.servers import McpServers
from cortex_replay.interception.mcp.transport_link import LentLink, TransportLink
from cortex_replay.mcp.messages import INITIALIZE, INITIALIZED, NotAMessage, messages_in

__all__ = ["Connection", "connect"]

_ROOM: Final = 256
"""How many messages wait for a client that is busy."""
_GRACE_S: Final = 1.0
"""How long a client that leaves waits until its last message is on its way."""


class Connection:
    """A client that is connected. Its calls belong to the test that runs when it makes them, so each test
    that uses it has a session of its own; the real server, if there is one, is the same for all.

    Args:
        name: Of the server.
        current: Gives the servers of the test that runs now.
        transport: Makes the SDK's own way to the server.
    """

    def __init__(
        self, name: str, current: Callable[[], McpServers | None], transport: Callable[[], Any]
    ) -> None:
        self._name = name
        self._current = current
        self._transport = transport
        self._sdk = Sdk()
        self._messages: dict[bytes, Any] = {}
        self._greeting: list[bytes] = []
        """What a server that is connected in a later test is to be told first."""
        self._servers: McpServers | None = None
        self._session: Session | None = None
        self._first: Session | None = None
        self._link: TransportLink | None = None
        self._to_client, self.read = anyio.create_memory_object_stream[Any](_ROOM)
        self.write, self._from_client = anyio.create_memory_object_stream[Any](0)

    def session_id(self) -> str | None:
        """The id of the session over HTTP; ``None`` if no server was asked."""
        return None if self._link is None else self._link.session_id

    async def serve(self) -> None:
        """Answer the client until it leaves."""
        with contextlib.closing(self._to_client), self._from_client:
            async for message in self._from_client:
                frame = self._sdk.frame_of_client(message)
                if message.metadata is not None:
                    self._messages[frame] = message
                session = await self._session_of_test()
                self._remember(frame)
                await session.take(frame)

    async def close(self) -> None:
        """The client has left."""
        if self._session is not None:
            await self._session.close(keep=self._servers is self._current())
        if self._link is not None:
            await self._link.close()
        self._to_client.close()

    async def _session_of_test(self) -> Session:
        servers = self._current() or self._servers
        if self._session is None or servers is not self._servers:
            if self._session is not None:
                await self._session.close(keep=False)  # its test is over
            assert servers is not None  # noqa: S101 - it was opened in a test
            self._servers = servers
            self._session = servers.open_session(self._name, self._reach, self._tell)
            self._first = self._first or self._session
        return self._session

    def _remember(self, frame: bytes) -> None:
        if b"initialize" not in frame:
            return
        with contextlib.suppress(NotAMessage):
            if any(one.get("method") in (INITIALIZE, INITIALIZED) for one in messages_in(frame)):
                self._greeting.append(frame)

    async def _reach(self) -> ServerLink:
        """The way to the server, which outlives the session of one test."""
        if self._link is None or self._link.is_over:
            link = TransportLink(self._sdk, self._messages)
            await link.open(self._transport())
            if self._session is not self._first:  # which greets the server itself
                await link.greet(self._greeting)
            self._link = link
        return LentLink(self._link, self._give)

    async def _tell(self, out: Outgoing) -> None:
        await self._give(self._sdk.message(out.frame))
        if out.closes:
            self._to_client.close()

    async def _give(self, item: object) -> None:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # it has left
            await self._to_client.send(item)


async def connect(
    name: str,
    current: Callable[[], McpServers | None],
    transport: Callable[[], Any],
    *,
    gives_session_id: bool,
) -> AsyncIterator[tuple[Any, ...]]:
    """What a client gets in place of its transport: streams, and in 1.x what tells the id of its session.

    Args:
        name: Of the server.
        current: Gives the servers of the test that runs now.
        transport: Makes the SDK's own way to the server.
        gives_session_id: Whether the client expects that.
    """
    connection = Connection(name, current, transport)
    serving = asyncio.ensure_future(connection.serve())
    try:
        further = (connection.session_id,) if gives_session_id else ()
        yield (connection.read, connection.write, *further)
    finally:
        with anyio.CancelScope(shield=True):
            connection.write.close()
            await asyncio.wait({serving}, timeout=_GRACE_S)
            serving.cancel()
            await asyncio.wait({serving})
            await connection.close()
            connection.read.close()
        if not serving.cancelled():
            serving.result()
