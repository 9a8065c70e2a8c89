"""A server with that model behind it. It speaks every wire, and OpenAI's responses over a WebSocket, too."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import uvicorn

from cortex_replay.providers import address_at
from cortex_replay.types import LlmMessage, LlmRequest, LlmResponse, TokenUsage
from cortex_replay.wire import WIRES, Wire
from integration.agents.script import chunks_of, next_turn

__all__ = ["KEY", "AgentUpstream", "agent_upstream"]

# Of no shape that a redactor knows: where it is not stored, it was never written.
KEY: Final = "canary-of-the-agents-upstream"

_KEY_HEADERS: Final = (b"authorization", b"x-api-key", b"x-goog-api-key")
_RESPONSES: Final = WIRES["openai-responses"]

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(repr=False)  # it has seen keys
class AgentUpstream:
    """Where it is, and what it was asked, in order."""

    url: str
    asked: list[tuple[str, Any]] = field(default_factory=list)
    """Path and body of each call."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = [value for name, value in scope["headers"] if name in _KEY_HEADERS]
        is_known = any(KEY.encode() in value for value in given)
        if scope["type"] == "websocket":
            await _Socket(self, receive, send).serve(scope["path"], is_known=is_known)
        elif not is_known:
            await _send_whole(send, {"error": {"type": "authentication_error", "message": "bad key"}}, 401)
        else:
            await self._answer(scope["path"], await _body(receive), send)

    async def _answer(self, path: str, body: bytes, send: Send) -> None:
        document = json.loads(body) if body else None
        self.asked.append((path, document))
        address = address_at(path)
        if address is None or document is None:
            await _send_whole(send, {"error": {"message": f"no {path}"}}, 404)
            return
        wire = WIRES[address.protocol]
        document |= dict(address.parameters)
        response = next_turn(wire.lift(document))
        answer_id = f"live{len(self.asked)}"
        if not wire.wants_stream(document):
            await _send_whole(send, wire.encode_answer(response, answer_id))
            return
        await _send_head(send, 200, wire.stream_media_type)
        for piece in _stream(wire, response, answer_id):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class _Socket:
    """One WebSocket, which knows its responses by their ids."""

    def __init__(self, upstream: AgentUpstream, receive: Receive, send: Send) -> None:
        self._upstream = upstream
        self._receive = receive
        self._send = send
        self._known: dict[str, tuple[LlmMessage, ...]] = {}

    async def serve(self, path: str, *, is_known: bool) -> None:
        await self._receive()  # the wish to connect
        if not is_known:
            await self._send({"type": "websocket.close"})
            return
        await self._send({"type": "websocket.accept"})
        while (message := await self._receive())["type"] == "websocket.receive":
            event = json.loads(message["text"])
            self._upstream.asked.append((path, event))
            await self._respond(event)

    async def _respond(self, event: dict[str, Any]) -> None:
        request = _RESPONSES.lift({name: value for name, value in event.items() if name != "type"})
        messages = (*self._known.get(event.get("previous_response_id") or "", ()), *request.messages)
        response = next_turn(LlmRequest(request.model, request.system, messages, tools=request.tools))
        if event.get("generate") is False:
            response = LlmResponse("", None, request.model, TokenUsage(11, 0), "", "stop")
        answer_id = f"live{len(self._upstream.asked)}"
        self._known[f"resp_{answer_id}"] = messages
        for line in b"".join(_stream(_RESPONSES, response, answer_id)).decode().splitlines():
            if line.startswith("data: {"):
                await self._send({"type": "websocket.send", "text": line.removeprefix("data: ")})


def _stream(wire: Wire, response: LlmResponse, answer_id: str) -> Iterator[bytes]:
    encoder = wire.stream_encoder(response.model, answer_id)
    yield encoder.start()
    yield from map(encoder.chunk, chunks_of(response))


async def _body(receive: Receive) -> bytes:
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return body


async def _send_head(send: Send, status: int, media_type: str) -> None:
    headers = [(b"content-type", media_type.encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _send_whole(send: Send, document: object, status: int = 200) -> None:
    await _send_head(send, status, "application/json")
    await send({"type": "http.response.body", "body": json.dumps(document).encode()})


@contextmanager
def agent_upstream() -> Iterator[AgentUpstream]:
    """The server, in a thread, for as long as the block lasts."""
    listening = socket.create_server(("127.0.0.1", 0))
    upstream = AgentUpstream(f"http://127.0.0.1:{listening.getsockname()[1]}")
    server = uvicorn.Server(uvicorn.Config(upstream, lifespan="off", log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield upstream
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
