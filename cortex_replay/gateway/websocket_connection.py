"""One WebSocket of a client, over ASGI."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from cortex_replay.engine.http.call import HttpReply
from cortex_replay.gateway.closing import CLOSE

__all__ = ["Connection", "Gone"]

_Message = dict[str, Any]
_MOST_AHEAD: Final = 64
"""How many messages a client may send before the first of them is read."""
_LONGEST_REASON: Final = 123
"""Of a close frame, in bytes."""
_KEY_START: Final = ("openai-insecure-api-key.", "xai-client-secret.")


class Gone(Exception):
    """The client has left."""


class Connection:
    """A WebSocket that a client wants to open, and then one that is open.

    It is read all the time, so that a client that leaves is noticed while something is done for it.
    """

    def __init__(
        self,
        scope: _Message,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._messages: asyncio.Queue[str | bytes] = asyncio.Queue(_MOST_AHEAD)
        self._reader: asyncio.Task[None] | None = None
        self.gone: Final = asyncio.Event()
        """Is set once the client has left."""

    @property
    def subprotocol(self) -> str | None:
        """The one to agree on: the first that is offered, and no key."""
        offered: list[str] = self._scope["subprotocols"]
        return next((name for name in offered if name and not name.startswith(_KEY_START)), None)

    @property
    def is_open(self) -> bool:
        """Whether it was accepted."""
        return self._reader is not None

    async def wait_until_gone(self) -> None:
        """Wait until the client gives up, without a word."""
        if self._reader is None:
            self._reader = asyncio.create_task(self._read())
        await self.gone.wait()

    async def deny(self, reply: HttpReply) -> None:
        """Open none; the client gets an ordinary answer."""
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers]
        await self._send(
            {"type": "websocket.http.response.start", "status": reply.status, "headers": headers}
        )
        await self._send({"type": "websocket.http.response.body", "body": reply.body})

    async def accept(self, subprotocol: str | None = None) -> None:
        await self._send({"type": "websocket.accept", "subprotocol": subprotocol})
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while (message := await self._receive())["type"] != "websocket.disconnect":
            if message["type"] == "websocket.receive":
                text = message.get("text")
                await self._messages.put(message["bytes"] if text is None else text)
        self.gone.set()

    async def receive(self) -> str | bytes:
        """The next message.

        Raises:
            Gone: There is none.
        """
        if self._messages.empty() and not self.gone.is_set():
            coming = asyncio.ensure_future(self._messages.get())
            leaving = asyncio.ensure_future(self.gone.wait())
            try:
                await asyncio.wait({coming, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if coming.done():
                    return coming.result()
            finally:
                leaving.cancel()
                coming.cancel()
        if self._messages.empty():
            raise Gone
        return self._messages.get_nowait()

    async def send(self, message: str | bytes) -> None:
        """Send one message.

        Raises:
            Gone: Nobody is there to read it.
        """
        kind = "text" if isinstance(message, str) else "bytes"
        try:
            await self._send({"type": "websocket.send", kind: message})
        except (OSError, RuntimeError):  # what servers raise behind the end
            raise Gone from None

    async def close(self, code: int, reason: str = "") -> None:
        """Say goodbye."""
        shown = reason.encode()[:_LONGEST_REASON].decode(errors="ignore")
        with contextlib.suppress(OSError, RuntimeError):
            await self._send({"type": "websocket.close", "code": code, "reason": shown})

    def cut(self, *, is_hard: bool) -> None:
        """Close without a word; hard, so that the client's system is told of a reset."""
        self._scope[CLOSE](is_hard=is_hard)

    async def while_there(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something for the client, until it leaves.

        Raises:
            Gone: It has left.
        """
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(self.gone.wait())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not working.done():
                working.cancel()
        try:
            await working
        except asyncio.CancelledError:
            raise Gone from None

    async def aclose(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
