"""OpenAI's Responses over a client's WebSocket."""

from __future__ import annotations

from collections.abc import AsyncIterator

from cortex_replay.engine.http.call import Call, HttpReply
from cortex_replay.engine.http.engine import Engine
from cortex_replay.engine.http.offload import aside
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.scope import Scope
from cortex_replay.engine.ws.responses import FrameReader, error_frame, read_message, with_stream_id
from cortex_replay.engine.ws.upstream import ResponsesUpstream
from cortex_replay.errors import InvalidRequest, LlmError
from cortex_replay.gateway.answering import Answering
from cortex_replay.gateway.pace import Pace
from cortex_replay.gateway.websocket_connection import Connection
from cortex_replay.redact.logs import logger_of

__all__ = ["ResponsesSocket"]

logger = logger_of(__name__)


class ResponsesSocket:
    """Answers one response after another, as each would be answered over HTTP.

    Args:
        connection: Where messages come from.
        engine: Who answers.
        answering: What is to go wrong.
        pace: How fast recorded streams are replayed.
        asking: Whose connection it is.
        opening: The upgrade.
        route: Where responses are asked for.
        fault: What the upgrade wants to go wrong with each of its responses.
    """

    def __init__(
        self,
        connection: Connection,
        engine: Engine,
        answering: Answering,
        pace: Pace,
        asking: Scope,
        opening: Call,
        route: Route,
        fault: str,
    ) -> None:
        self._connection = connection
        self._engine = engine
        self._answering = answering
        self._pace = pace
        self._asking = asking
        self._opening = opening
        self._route = route
        self._fault = fault
        self._upstream = ResponsesUpstream(engine.relay, opening)

    async def serve(self) -> None:
        """Answer what comes, in order.

        Raises:
            Gone: The client has left.
        """
        await self._connection.accept(self._connection.subprotocol)
        try:
            while True:
                message = await self._connection.receive()
                await self._connection.while_there(self._answer(message))
        except LlmError as error:  # in the middle of an answer
            logger.debug("an answer was not finished: %s", type(error).__name__)
            await self._connection.close(1011, "cortex-replay: the upstream broke off")
        finally:
            await self._upstream.aclose()

    async def _answer(self, message: str | bytes) -> None:
        sink = _FrameSink(self._connection, self._pace)
        try:
            creation = read_message(message)
            if creation is None:
                return
            sink.stream_id = creation.stream_id
            call = Call(
                "POST",
                self._route,
                self._opening.query,
                [*self._opening.headers, ("content-type", "application/json")],
                creation.body,
            )
            fault = self._answering.next_fault(self._asking.name, self._fault)
            asking = self._asking.for_model_call()
            if fault is not None:
                await self._answering.answer_faultily(asking, call, fault, sink, self._upstream.send)
                return
            question, reply = await aside(len(call.body), self._engine.begin, asking, call)
        except InvalidRequest as error:
            reply = self._answering.error_reply_of(error, self._route.protocol)
        if reply is not None:
            await sink.send(reply)
        else:
            await self._answering.answer(asking, call, question, sink, self._upstream.send)


class _FrameSink:
    """Where the events of a response go, one a message."""

    def __init__(self, connection: Connection, pace: Pace) -> None:
        self._connection = connection
        self._pace = pace
        self.stream_id: str | None = None

    async def send(self, reply: HttpReply) -> None:
        if not reply.status:
            return
        if reply.status != 200:
            await self._send(error_frame(reply))
            return
        reader = FrameReader()
        async for data in reply.live or self._recorded(reply):
            for frame in reader.feed(data):
                await self._send(frame)
        if reply.ending == "whole":
            for frame in reader.finish():
                await self._send(frame)

    async def _recorded(self, reply: HttpReply) -> AsyncIterator[bytes]:
        if self._pace.is_instant:
            for _, data in reply.events:
                yield data
        else:
            async for data in self._pace.spread(reply.events):
                yield data

    async def _send(self, frame: str) -> None:
        await self._connection.send(with_stream_id(frame, self.stream_id))

    async def end(self, reply: HttpReply) -> None:
        if reply.ending == "hang":
            await self._connection.gone.wait()
        elif reply.ending != "whole":
            self._connection.cut(is_hard=reply.ending == "reset")
