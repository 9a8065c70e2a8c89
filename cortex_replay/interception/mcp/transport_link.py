"""A real server, as the SDK itself reaches it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import anyio

from cortex_replay.engine.bypass import bypassing
from cortex_replay.engine.mcp.link import Said
from cortex_replay.errors import Transport
from cortex_replay.interception.mcp.sdk import Sdk
from cortex_replay.mcp.messages import is_answer, is_request, messages_in, request_id

__all__ = ["LentLink", "TransportLink"]

_CLOSED = (anyio.ClosedResourceError, anyio.BrokenResourceError)


class TransportLink:
    """A transport of the SDK. It has to be closed in the task that opened it, so it has one of its own; and
    nothing that it sends is intercepted, since it is recorded already.

    Args:
        sdk: Whose messages these are.
        messages: The client's own messages, where they say more than their frames.
    """

    def __init__(self, sdk: Sdk, messages: dict[bytes, Any]) -> None:
        self._sdk = sdk
        self._messages = messages
        self._streams: tuple[Any, ...] = ()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self, transport: Any) -> None:
        """Open a transport.

        Args:
            transport: The context manager that gives its streams.

        Raises:
            Transport: It cannot be opened.
        """
        is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._run(transport, is_open))
        try:
            await asyncio.wait({self._task, is_open}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        if self._task.done():
            raise Transport(self._reason())

    async def _run(self, transport: Any, is_open: asyncio.Future[None]) -> None:
        with bypassing():
            async with transport as streams:
                self._streams = tuple(streams)
                is_open.set_result(None)
                await self._stop.wait()
                await self._streams[1].aclose()  # as a session does: old versions wait for it

    @property
    def is_over(self) -> bool:
        return self._stop.is_set()

    @property
    def session_id(self) -> str | None:
        """The id of a session over HTTP, as the SDK's 1.x tells it."""
        return self._streams[2]() if len(self._streams) > 2 else None

    async def send(self, frame: bytes) -> None:
        """Give the server a frame of the client.

        Raises:
            Transport: It is gone.
        """
        message = self._messages.get(frame) or self._sdk.message(frame)
        try:
            with bypassing():  # the SDK may send it in the context of its sender
                await self._streams[1].send(message)
        except _CLOSED:
            raise Transport(self._reason()) from None

    async def receive(self) -> bytes | Exception:
        """What the server says next, or what it said that the SDK could not read.

        Raises:
            Transport: It is gone.
        """
        try:
            item = await self._streams[0].receive()
        except (*_CLOSED, anyio.EndOfStream):
            await self.close()
            raise Transport(self._reason()) from None
        return item if isinstance(item, Exception) else self._sdk.frame_of_server(item)

    async def greet(self, frames: Iterable[bytes]) -> None:
        """Tell the server what its client said before it was there; the answers are dropped.

        Raises:
            Transport: It is gone.
        """
        for frame in frames:
            await self.send(frame)
            [message] = messages_in(frame)
            while is_request(message):
                said = await self.receive()
                if isinstance(said, bytes) and _answers(said, request_id(message)):
                    break

    async def close(self) -> None:
        """Close the transport, and have its server end if the SDK started it."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait({self._task})
            self._reason()  # or asyncio complains that it was never asked for

    def _reason(self) -> str:
        """Why the transport is gone."""
        is_known = self._task is not None and self._task.done() and not self._task.cancelled()
        error = self._task.exception() if self._task is not None and is_known else None
        return "the server has ended" if error is None else _words(error)


class LentLink:
    """A transport, as one session has it: the next may have it, too.

    Args:
        link: The transport.
        give: Gives the client what is no message.
    """

    def __init__(self, link: TransportLink, give: Callable[[object], Awaitable[None]]) -> None:
        self._link = link
        self._give = give
        self._waiting = anyio.CancelScope()
        self._is_closed = False

    async def send(self, frame: bytes) -> None:
        await self._link.send(frame)

    async def frames(self) -> AsyncIterator[Said]:
        while not self._is_closed:
            said: bytes | Exception | None = None
            with anyio.CancelScope() as self._waiting:
                said = await self._link.receive()
            if isinstance(said, bytes):
                yield Said(said)
            elif said is not None:
                await self._give(said)

    async def close(self) -> None:
        self._is_closed = True
        self._waiting.cancel()


def _answers(frame: bytes, about: object) -> bool:
    return any(is_answer(message) and request_id(message) == about for message in messages_in(frame))


def _words(error: BaseException) -> str:
    """The first of what went wrong, without the groups around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
