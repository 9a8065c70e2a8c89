"""A client's session over HTTP: several connections, and one session behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from cortex_replay.engine.mcp.link import Outgoing
from cortex_replay.errors import LlmError
from cortex_replay.gateway.mcp.streams import APART, Order, Stream, stream_name
from cortex_replay.mcp.messages import (
    CANCELLED,
    Message,
    RequestId,
    error_message,
    parameters_of,
    render_message,
)
from cortex_replay.redact.logs import logger_of
from cortex_replay.run.mcp.desk import Desk
from cortex_replay.run.mcp.http.server import ClientHeaders

__all__ = ["Visitor"]

logger = logger_of(__name__)

_MOST_ENDED: Final = 16
"""How many streams are kept behind their end, for a client that lost it."""
_MOST_BYTES: Final = 16 * 2**20
_CANCELLED: Final = -32800
"""The code by which SDKs' servers end the stream of a request that was given up."""


class Visitor:
    """One client of one server.

    Args:
        desk: Who opens the session.
        server: The name of the server.
        scope: The name of the scope whose calls these are.
        id: What the client names it by; empty for one that is there for a single request.
        is_older: Whether everything goes over one stream, as the older transport has it.
    """

    def __init__(
        self,
        desk: Desk,
        server: str,
        scope: str,
        id: str = "",  # noqa: A002
        *,
        is_older: bool = False,
    ) -> None:
        self.id = id
        self._is_older = is_older
        self.server = server
        self.scope = scope
        self.client = ClientHeaders()
        self._order = Order()
        self.apart = Stream(APART, self._order)
        """What belongs to no request."""
        self.seen_at = 0.0
        """When the client came last."""
        self._streams: dict[str, Stream] = {APART: self.apart}
        self._of_request: dict[RequestId, Stream] = {}
        self._taking = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._session = desk.open_session(server, desk.http.connect(server, self.client), self._send, scope)

    @property
    def is_busy(self) -> bool:
        """Whether it waits for something, or a connection waits for it."""
        return bool(self._of_request) or any(stream.is_read for stream in self._streams.values())

    def has_asked(self, about: RequestId) -> bool:
        """Whether a request of this id is under way."""
        return about in self._of_request

    @property
    def may_ask(self) -> bool:
        """Whether an answer may take its time, since the real server gives it."""
        return self._session.may_ask

    def stream(self, name: str) -> Stream | None:
        """A stream that is still kept."""
        return self._streams.get(name)

    def open_stream(self, expected: Sequence[RequestId]) -> Stream:
        """The stream of requests that are about to be taken."""
        self._forget()
        stream = Stream(stream_name(expected), self._order, expected)
        if (before := self._streams.get(stream.name)) is not None:  # its id is used anew
            before.end()
            self.drop(before)
        self._streams[stream.name] = stream
        self._of_request |= dict.fromkeys(expected, stream)
        return stream

    def drop(self, stream: Stream) -> None:
        """A client has had all of a stream."""
        if self._streams.get(stream.name) is stream:
            del self._streams[stream.name]
        self._order.discard(stream)

    def _forget(self) -> None:
        """Drop the oldest streams that are over, where there are many or large ones."""
        ended = [one for one in self._streams.values() if one.is_over and not one.is_read]
        size = sum(one.size for one in ended)
        while ended and (len(ended) > _MOST_ENDED or size > _MOST_BYTES):
            oldest = ended.pop(0)
            size -= oldest.size
            self.drop(oldest)

    async def take(self, frame: bytes, messages: Iterable[Message] = ()) -> None:
        """A frame of the client, behind those before it."""
        async with self._taking:
            try:
                await self._session.take(frame)
            except LlmError as error:
                logger.warning("%s: a message was not passed on: %s", self.server, error)
        for message in messages:
            if message.get("method") == CANCELLED:
                await self._end_cancelled(parameters_of(message).get("requestId"))

    def begin(self, frame: bytes, stream: Stream) -> None:
        """Take a frame in a task of the session's own: it goes on when its connection breaks.

        Args:
            frame: The client's.
            stream: Of the requests in it.
        """
        task = asyncio.ensure_future(self._take_for(frame, stream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take_for(self, frame: bytes, stream: Stream) -> None:
        try:
            await self.take(frame)
        finally:
            if not self.may_ask:
                stream.settle()

    async def _end_cancelled(self, about: object) -> None:
        """Only an answer ends the stream of a request, so one that was given up gets one."""
        stream = self._of_request.pop(about, None) if isinstance(about, str | int) else None
        if stream is not None and isinstance(about, str | int):
            answer = error_message(about, _CANCELLED, "cortex-replay: the request was cancelled")
            await stream.put(render_message(answer), about)

    async def _send(self, out: Outgoing) -> None:
        stream = self.apart if out.about is None else self._of_request.get(out.about, self.apart)
        if out.is_end and out.about is not None:
            self._of_request.pop(out.about, None)
            if stream is self.apart and not self._is_older:
                return  # it was given up
        await stream.put(out.frame, out.about if out.is_end and stream is not self.apart else None)
        if out.closes:
            for one in (stream, self.apart):
                one.break_off()

    async def close(self) -> None:
        """The client has left: keep what was recorded, and end the server's side. A request that stands
        alone is then given up; in a session, only the client says so."""
        for about in [] if self.id else list(self._of_request):
            await self._session.cancel(about, "the client closed the connection")
        for stream in self._streams.values():
            stream.end()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._session.close()
