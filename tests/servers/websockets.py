"""A scripted upstream with WebSockets. There is no real one without a key: this one follows the documents.

``/v1/responses`` answers ``response.create`` as the API does: it knows the responses of a connection by their
ids, and those of other connections not. ``/v1/realtime`` holds a session. Ids are new for every connection.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from cortex_replay.types import LlmResponse, StreamChunk, TokenUsage
from cortex_replay.wire import WIRES
from tests.waiting import LONGEST_S

__all__ = ["SocketUpstream", "socket_upstream"]

_NUMBERS = count(1)


@dataclass(repr=False)  # it has seen keys
class SocketUpstream:
    """What it was asked, and where it is."""

    key: str
    url: str = ""
    received: list[Any] = field(default_factory=list)
    """Messages, in order."""
    openings: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Paths and headers of upgrades."""
    refusal: int = 0
    """The status that upgrades are refused with, if they are."""
    location: str = ""
    """Where a refusal leads."""
    counts: bool = False
    """Whether no two responses say the same."""
    breaks_after: int | None = None
    """After how many messages of a response it resets the connection."""

    async def serve(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        url = urlsplit(connection.request.path)
        try:
            if url.path == "/v1/responses":
                await _Responses(self, connection).serve()
            else:
                model = parse_qs(url.query).get("model", ["gpt-realtime"])[0]
                await _Session(self, connection, model).serve()
        except ConnectionClosed:
            pass

    def check(self, _: ServerConnection, request: Request) -> Response | None:
        headers = {name.lower(): value for name, value in request.headers.raw_items()}
        self.openings.append((request.path, headers))
        status = self.refusal
        if self.key not in headers.get("authorization", ""):
            status = 401
        if not status:
            return None
        body = json.dumps({"error": {"message": "not here", "type": "invalid_request_error"}}).encode()
        response = Response(status, HTTPStatus(status).phrase, request.headers.__class__(), body)
        response.headers["content-type"] = "application/json"
        response.headers["content-length"] = str(len(body))
        if self.location:
            response.headers["location"] = self.location
        return response


class _Responses:
    def __init__(self, upstream: SocketUpstream, connection: ServerConnection) -> None:
        self._upstream = upstream
        self._connection = connection
        self._known: dict[str, list[str]] = {}
        """What was said before each response of this connection."""

    async def serve(self) -> None:
        async for message in self._connection:
            event = json.loads(message)
            self._upstream.received.append(event)
            before = event.get("previous_response_id")
            if before is not None and before not in self._known:
                error = {
                    "code": "previous_response_not_found",
                    "message": f"Previous response with id '{before}' not found.",
                    "param": "previous_response_id",
                    "type": "invalid_request_error",
                }
                await self._send({"type": "error", "status": 400, "error": error})
                continue
            await self._respond(event, self._known.get(before or "", []))

    async def _respond(self, event: dict[str, Any], before: list[str]) -> None:
        request = WIRES["openai-responses"].lift({k: v for k, v in event.items() if k != "type"})
        said = [*before, *(message.content for message in request.messages)]
        is_quiet = event.get("generate") is False
        text = "" if is_quiet else "You said: " + ", then ".join(said)
        number = next(_NUMBERS)
        answer_id = f"upstream{number}"
        text += f" ({number})" if self._upstream.counts else ""
        self._known[f"resp_{answer_id}"] = said
        encoder = WIRES["openai-responses"].stream_encoder(request.model, answer_id)
        response = LlmResponse(text, None, request.model, TokenUsage(11, 5), "", "stop")
        words = [StreamChunk(f"{word} ") for word in text.split()]
        words = [*words[:-1], StreamChunk(text.split()[-1])] if words else []
        chunks = [encoder.start(), *map(encoder.chunk, words)]
        chunks.append(encoder.chunk(StreamChunk("", "stop", response=response)))
        lines = b"".join(chunks).decode().splitlines()
        frames = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        for number, frame in enumerate(frames):
            if number == self._upstream.breaks_after:
                self._connection.transport.abort()
                return
            await self._connection.send(frame)

    async def _send(self, event: dict[str, Any]) -> None:
        await self._connection.send(json.dumps(event))


class _Session:
    def __init__(self, upstream: SocketUpstream, connection: ServerConnection, model: str) -> None:
        self._upstream = upstream
        self._connection = connection
        self._model = model
        self._session = f"sess_{next(_NUMBERS)}"
        self._events = count(1)
        self._said: list[str] = []

    async def serve(self) -> None:
        session: dict[str, Any] = {"id": self._session, "model": self._model, "type": "realtime"}
        await self._send("session.created", session=session)
        async for message in self._connection:
            if isinstance(message, bytes):
                self._upstream.received.append(message)
                await self._connection.send(message[::-1])
                continue
            event = json.loads(message)
            self._upstream.received.append(event)
            match event["type"]:
                case "session.update":
                    session |= event["session"]
                    await self._send("session.updated", session=session)
                case "conversation.item.create":
                    item = {"id": f"item_{self._session}", **event["item"]}
                    texts = [part.get("text", "") for part in item.get("content", [])]
                    self._said.append(" ".join(texts) or str(item.get("output", "")))
                    await self._send("conversation.item.added", item=item)
                case "input_audio_buffer.append":
                    self._said.append(f"{len(base64.b64decode(event['audio']))} bytes")
                case "response.create":
                    await self._respond()
                case "goodbye":
                    await self._connection.close(1000, "as you wish")
                case kind:
                    error = {"type": "invalid_request_error", "message": f"no {kind}"}
                    await self._send("error", error=error | {"event_id": event.get("event_id")})

    async def _respond(self) -> None:
        text = "You said: " + ", then ".join(self._said)
        ids = {"response_id": f"resp_{self._session}", "item_id": f"item_{self._session}_out"}
        await self._send("response.created", response={"id": ids["response_id"], "status": "in_progress"})
        audio = base64.b64encode(text.encode() * 9).decode()
        await self._send("response.output_audio.delta", **ids, output_index=0, content_index=0, delta=audio)
        for word in text.split():
            await self._send(
                "response.output_text.delta", **ids, output_index=0, content_index=0, delta=f"{word} "
            )
        usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
        done = {"id": ids["response_id"], "status": "completed", "usage": usage, "output": []}
        await self._send("response.done", response=done)

    async def _send(self, kind: str, **fields: Any) -> None:
        event_id = f"event_{self._session}_{next(self._events)}"
        await self._connection.send(json.dumps({"type": kind, "event_id": event_id, **fields}))


def _select(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return next((name for name in offered if name == "realtime"), None)


@contextmanager
def socket_upstream(key: str) -> Iterator[SocketUpstream]:
    """The server, in a thread, for as long as the block lasts."""
    upstream = SocketUpstream(key)
    loop = asyncio.new_event_loop()
    started = threading.Event()
    ending: list[asyncio.Event] = []

    async def run() -> None:
        ending.append(asyncio.Event())
        async with serve(
            upstream.serve,
            "127.0.0.1",
            0,
            process_request=upstream.check,
            select_subprotocol=_select,
            compression=None,
            close_timeout=1,
        ) as server:
            upstream.url = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
            started.set()
            await ending[0].wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    started.wait(LONGEST_S)
    try:
        yield upstream
    finally:
        loop.call_soon_threadsafe(ending[0].set)
        thread.join()
        loop.close()
