"""A real MCP server that is reached over HTTP: Streamable HTTP, or the older transport."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cortex_replay.engine.mcp.link import Said, words_of
from cortex_replay.errors import LlmError, ResponseParse, Timeout, Transport
from cortex_replay.mcp.events import EventReader
from cortex_replay.mcp.headers import (
    EVENT_STREAM,
    JSON,
    LAST_EVENT_ID,
    PROTOCOL_VERSION,
    SESSION_ID,
    routing_headers,
    version_in,
)
from cortex_replay.mcp.messages import (
    CANCELLED,
    INITIALIZE,
    INITIALIZED,
    MOST_FRAME,
    Message,
    NotAMessage,
    RequestId,
    is_answer,
    is_request,
    messages_in,
    parameters_of,
    render_message,
    request_id,
)
from cortex_replay.redact.logs import logger_of
from cortex_replay.run.mcp.http.answers import (
    Refusal,
    problem_of,
    read_body,
    read_start,
    wrong_type,
)
from cortex_replay.run.mcp.http.older import listen
from cortex_replay.run.mcp.http.server import ClientHeaders, HttpServer

if TYPE_CHECKING:
    from cortex_replay.adapters.http import RelayReply, ReplyBody

__all__ = ["HttpLink"]

logger = logger_of(__name__)

_MOST_AHEAD: Final = 4
"""How many frames wait until the session takes them."""
_OPEN_S: Final = 2.0
"""How long the first notification waits for the stream of what belongs to no request."""
_DELETE_S: Final = 3.0
_QUICK_MS: Final = 30_000
"""How long what needs no work may take: that a notification is taken, or an endpoint is named."""
_PAUSE_MS: Final = 1000
_LONGEST_PAUSE_MS: Final = 30_000
_SHORTEST_PAUSE_MS: Final = 10
_MOST_FAILURES: Final = 4
"""How often in a row a stream is asked for in vain."""
_ACCEPT: Final = f"{JSON}, {EVENT_STREAM}"
_OLDER: Final = frozenset([400, 404, 405, 406, 415, 501])
"""How a server that knows only the older transport answers the first message."""


@dataclass(slots=True)
class _Place:
    """How far a stream was read."""

    event: str = ""
    pause_ms: int = _PAUSE_MS
    failures: int = 0


class HttpLink:
    """One session with a server. Each request of the client is a request of HTTP, and may be answered by a
    stream; what belongs to none comes over a stream of its own.

    Args:
        server: Where it is, and who sends to it.
        client: The headers that the client brings, as they are when something is sent.
    """

    def __init__(self, server: HttpServer, client: ClientHeaders) -> None:
        self._server = server
        self._client = client
        self._said: asyncio.Queue[Said | LlmError | None] = asyncio.Queue(_MOST_AHEAD)
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: dict[RequestId, asyncio.Task[None]] = {}
        """Requests that stand alone: their cancellation is the end of their connection."""
        self._session = ""
        self._version = ""
        self._endpoint: str | None = None
        """Where messages go in the older transport."""
        self._is_newer = server.transport == "http"
        self._quick_ms = min(_QUICK_MS, server.timeout_ms)

    async def send(self, frame: bytes) -> None:
        """Give the server a frame; what comes of a request, :meth:`frames` tells.

        Raises:
            LlmError: It does not take it.
        """
        message = messages_in(frame)[0]
        if self._server.transport == "sse" and self._endpoint is None:
            await self._open_older()
        if is_request(message):
            about = request_id(message)
            task = self._begin(self._ask(frame, message))
            if about is not None and version_in(message) is not None:
                self._asked[about] = task
        elif message.get("method") == CANCELLED and self._end(parameters_of(message).get("requestId")):
            pass
        else:
            if message.get("method") == INITIALIZED:
                await self._open_stream()
            await self._deliver(frame, message)

    async def frames(self) -> AsyncIterator[Said]:
        while (said := await self._said.get()) is not None:
            if isinstance(said, LlmError):
                raise Transport(words_of(said))
            yield said

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session:
            with contextlib.suppress(LlmError, TimeoutError):
                async with asyncio.timeout(_DELETE_S), self._send("DELETE", self._headers(None)):
                    pass
        while not self._said.empty():
            self._said.get_nowait()
        self._said.put_nowait(None)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _end(self, about: object) -> bool:
        """Give up a request that stands alone; whether there is one of this id."""
        task = self._asked.pop(about, None) if isinstance(about, str | int) else None
        if task is not None:
            task.cancel()
        return task is not None

    def _headers(self, message: Message | None, place: _Place | None = None) -> dict[str, str]:
        routing = {} if message is None else routing_headers(message)
        headers = self._client.beside(has_routing=bool(routing), routing=routing)
        headers["accept"] = _ACCEPT if message is not None else EVENT_STREAM
        if message is not None:
            headers["content-type"] = JSON
        if not routing:
            if self._session:
                headers[SESSION_ID] = self._session
            if self._version:
                headers[PROTOCOL_VERSION] = self._version
        if place is not None and place.event:
            as_utf8 = place.event.encode().decode("latin-1")
            headers[LAST_EVENT_ID] = as_utf8.strip(" \t")
        return headers

    @contextlib.asynccontextmanager
    async def _send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        target: str | None = None,
        limit_ms: int | None = None,
    ) -> AsyncIterator[RelayReply]:
        """What the server answers, once its head is there.

        Raises:
            LlmError: It cannot be reached, or the user has not agreed that a key goes there.
        """
        limit = limit_ms or self._server.timeout_ms
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(limit / 1000):
                    reply = await stack.enter_async_context(self._server.send(method, headers, body, target))
            except TimeoutError:
                raise Timeout(limit, self._server.shown) from None
            yield reply

    # Requests

    async def _ask(self, frame: bytes, message: Message) -> None:
        about = request_id(message)
        try:
            if self._endpoint is None:
                await self._exchange(frame, message, about)
            else:  # what comes of it comes over the stream
                await self._deliver(frame, message, self._server.timeout_ms)
        except LlmError as error:
            await self._said.put(Said(b"", about, words_of(error)))
        finally:
            if about is not None:
                self._asked.pop(about, None)

    async def _exchange(self, frame: bytes, message: Message, about: RequestId | None) -> None:
        place = _Place()
        try:
            async with self._send("POST", self._headers(message), frame) as reply:
                if not 200 <= reply.status < 300:
                    await self._take_refusal(reply, message, about)
                    return
                self._is_newer = True
                self._note_session(reply, message)
                if reply.body.content_type == JSON:
                    await self._take_body(await read_body(reply.body, MOST_FRAME), message, about)
                    return
                if reply.body.content_type != EVENT_STREAM:
                    raise Refusal(wrong_type(reply.body.content_type), reply.status)
                if await self._read_events(reply.body, place, message):
                    return
        except Refusal as error:
            if self._is_newer or error.status not in _OLDER:
                raise
            await self._open_older(error)
            await self._deliver(frame, message, self._server.timeout_ms)
            return
        except Transport:
            if not place.event:
                raise
        if not place.event:
            raise Transport(
                "the server ended its answer before it was whole, and names no event to go on from"
            )
        await self._resume(message, place)

    async def _take_refusal(self, reply: RelayReply, message: Message, about: RequestId | None) -> None:
        """An error with a status of its own: an answer of the protocol, or a reason why there is none."""
        status = reply.status
        is_gone = status == 404 and bool(self._session) and version_in(message) is None
        body = await read_start(reply.body)
        if status < 500 and status not in (401, 403, 429) and not is_gone:
            with contextlib.suppress(NotAMessage):
                [error] = messages_in(body)
                if "error" in error:
                    self._is_newer = True
                    await self._said.put(Said(render_message({**error, "id": about}), about))
                    return
        problem = problem_of(reply, body)
        if is_gone:
            problem = "the server has forgotten this session (status 404); begin a new one"
            self._session = ""
            self._client.is_forgotten = True
            await self._said.put(Said(b"", about, problem))
            await self._said.put(Transport(problem))
            return
        raise Refusal(problem, status)

    def _note_session(self, reply: RelayReply, message: Message) -> None:
        if message.get("method") != INITIALIZE:
            return
        found = next((value for name, value in reply.headers if name.lower() == SESSION_ID), "")
        if found and (not found.isascii() or not found.isprintable() or len(found) > 1024):
            raise ResponseParse("the id of the session is none that a header can carry")
        self._session = found

    async def _take_body(self, body: bytes, message: Message, about: RequestId | None) -> None:
        """The answer to a request, or to several, as JSON."""
        try:
            answers = messages_in(body)
        except NotAMessage as error:
            raise ResponseParse(f"the server answered what is no message of MCP: {error}") from None
        for answer in answers:
            self._note_version(answer, message)
            await self._said.put(Said(body if len(answers) == 1 else render_message(answer), about))
        if not any(is_answer(answer) and request_id(answer) == about for answer in answers):
            raise ResponseParse("the server answered another request than the one that was asked")

    def _note_version(self, answer: Message, message: Message) -> None:
        result = answer.get("result")
        if message.get("method") == INITIALIZE and isinstance(result, dict):
            version = result.get("protocolVersion")
            if isinstance(version, str) and version.isascii() and version.isprintable():
                self._version = version[:64]

    async def _read_events(self, body: ReplyBody, place: _Place, message: Message | None) -> bool:
        """Take the events of a stream; whether the answer to its request was among them.

        Raises:
            LlmError: It broke, or an event is too large.
        """
        about = None if message is None else request_id(message)
        reader = EventReader(MOST_FRAME)
        while data := await body.read():
            for event in reader.feed(data):
                if event.id:
                    place.event, place.failures = event.id, 0
                if event.retry_ms is not None:
                    place.pause_ms = min(event.retry_ms, _LONGEST_PAUSE_MS)
                if event.name == "message" and event.data:
                    await self._said.put(Said(event.data, about))
                    if message is not None and self._has_answer(event.data, message):
                        return True
        return False

    def _has_answer(self, frame: bytes, message: Message) -> bool:
        try:
            found = messages_in(frame)
        except NotAMessage:
            return False
        answers = [one for one in found if is_answer(one) and request_id(one) == request_id(message)]
        for answer in answers:
            self._note_version(answer, message)
        return bool(answers)

    async def _resume(self, message: Message, place: _Place) -> None:
        """Go on with a stream that broke, from its last event.

        Raises:
            LlmError: That cannot be had.
        """
        problem: LlmError = Transport("the server ended its answer again and again before it was whole")
        while place.failures < _MOST_FAILURES:
            place.failures += 1
            await self._pause(place)
            try:
                async with self._send("GET", self._headers(None, place)) as reply:
                    if not 200 <= reply.status < 300 or reply.body.content_type != EVENT_STREAM:
                        body = await read_start(reply.body)
                        raise Refusal(
                            f"the rest of an answer is not there: {problem_of(reply, body)}", reply.status
                        )
                    if await self._read_events(reply.body, place, message):
                        return
            except Transport as error:
                problem = error
        raise problem

    @staticmethod
    async def _pause(place: _Place) -> None:
        grown = place.pause_ms * 2 ** max(0, place.failures - 1)
        await asyncio.sleep(min(max(grown, _SHORTEST_PAUSE_MS), _LONGEST_PAUSE_MS) / 1000)

    # Notifications and answers

    async def _deliver(self, frame: bytes, message: Message, limit_ms: int | None = None) -> None:
        """Send what is answered elsewhere, if at all. Others wait for a notification to be taken.

        Raises:
            LlmError: The server did not take it.
        """
        headers, limit_ms = self._headers(message), limit_ms or self._quick_ms
        async with self._send("POST", headers, frame, self._endpoint, limit_ms) as reply:
            body = await read_start(reply.body)
            if not 200 <= reply.status < 300:
                raise Refusal(problem_of(reply, body), reply.status)

    # What belongs to no request

    async def _open_stream(self) -> None:
        """Have the stream open before the server is told that it may speak."""
        opened = asyncio.Event()
        self._begin(self._listen(opened))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OPEN_S):
                await opened.wait()

    async def _listen(self, opened: asyncio.Event) -> None:
        place = _Place()
        try:
            while place.failures < _MOST_FAILURES:
                place.failures += 1
                try:
                    async with self._send("GET", self._headers(None, place)) as reply:
                        if 400 <= reply.status < 500:
                            return  # it has none
                        if 200 <= reply.status < 300 and reply.body.content_type == EVENT_STREAM:
                            opened.set()
                            await self._read_events(reply.body, place, None)
                            place.failures = min(place.failures, 1)
                except Transport as error:
                    logger.debug("a stream of %s broke: %s", self._server.shown, words_of(error))
                await self._pause(place)
        except LlmError as error:
            await self._said.put(error)
        finally:
            opened.set()

    # The older transport

    async def _open_older(self, otherwise: LlmError | None = None) -> None:
        """Have the stream over which everything comes, and the endpoint that it names.

        Raises:
            LlmError: There is none; what is said instead, if something else was tried before.
        """
        named: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        stream = self._send("GET", self._headers(None))
        self._begin(listen(stream, self._server.url, named, self._take_older, MOST_FRAME))
        try:
            async with asyncio.timeout(self._quick_ms / 1000):
                self._endpoint = await named
        except TimeoutError:
            raise (otherwise or Timeout(self._quick_ms, self._server.shown)) from None
        except LlmError as error:
            raise (otherwise or error) from None

    async def _take_older(self, said: bytes | LlmError) -> None:
        await self._said.put(said if isinstance(said, LlmError) else Said(said))
