"""Upstreams that are a list of texts: every road of the engine, and no socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson

from cortex_replay import LlmResponse, StreamChunk, TokenUsage
from cortex_replay.adapters.http import RelayReply
from cortex_replay.engine.http.call import Call, HttpReply
from cortex_replay.run import Run
from cortex_replay.wire import WIRES
from tests.engine.http.harness import PATHS, body_of, request_for

__all__ = ["ROADS", "Spoken", "bytes_saying", "heard"]

CHAT: Final = "openai-chat"
_JSON, _EVENTS = "application/json", "text/event-stream"
ROADS: Final[dict[str, tuple[str, str, Any]]] = {
    "a completion": ("POST", PATHS[CHAT], body_of(CHAT, request_for("Say."))),
    "a streamed completion": ("POST", PATHS[CHAT], body_of(CHAT, request_for("Say."), stream=True)),
    "an exchange": ("GET", "/openai/v1/threads/t/runs/r", b""),
    "a streamed exchange": ("POST", "/openai/v1/threads/t/runs", {"stream": True}),
}
"""The kinds of calls that a run answers: method, path and body."""


def bytes_saying(road: str, text: str) -> tuple[str, list[bytes]]:
    """The media type and the pieces of an answer."""
    response = LlmResponse(text, None, "m", TokenUsage(3, 4), "", "stop")
    match road:
        case "a completion":
            return _JSON, [orjson.dumps(WIRES[CHAT].encode_answer(response, "id"))]
        case "a streamed completion":
            encoder = WIRES[CHAT].stream_encoder("m", "id")
            last = StreamChunk("", "stop", response=response)
            return _EVENTS, [encoder.start(), encoder.chunk(StreamChunk(text)), encoder.chunk(last)]
        case "an exchange":
            return _JSON, [orjson.dumps({"status": text})]
    return _EVENTS, [b"event: a\ndata: {}\n\n", f"event: b\ndata: {text}\n\n".encode()]


class _Body:
    def __init__(self, content_type: str, pieces: list[bytes]) -> None:
        self.content_type = content_type
        self._pieces = pieces
        self.is_closed = False

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    async def read_all(self) -> bytes:
        data, self._pieces = b"".join(self._pieces), []
        return data

    async def aclose(self) -> None:
        self.is_closed = True


class Spoken:
    """An upstream that says one text after the other.

    Args:
        road: In what form.
        texts: What it says.
        body: What it is asked, if not what its road says.
    """

    def __init__(self, road: str, *texts: str, body: Any = None) -> None:
        self._road = road
        self._texts = list(texts)
        self._body = ROADS[road][2] if body is None else body
        self.asked: list[Call] = []

    @asynccontextmanager
    async def send(self, call: Call, _: Mapping[str, str]) -> AsyncIterator[RelayReply]:
        self.asked.append(call)
        content_type, pieces = bytes_saying(self._road, self._texts.pop(0))
        yield RelayReply(200, [("content-type", content_type)], _Body(content_type, pieces))

    @asynccontextmanager
    async def open(self, run: Run, scope: str = "") -> AsyncIterator[HttpReply]:
        """A call whose answer is under way."""
        engine = run.engine()
        method, path, _ = ROADS[self._road]
        route = engine.upstreams.route(method, path, lambda _: "")
        assert route is not None
        data = self._body if isinstance(self._body, bytes) else orjson.dumps(self._body)
        call = Call(method, route, "", (), data)
        asking = engine.scope_of(scope, route, "")
        question, quick = engine.begin(asking, call)
        if quick is not None:
            yield quick
            return
        async with engine.answer(asking, call, question, self.send) as reply:
            yield reply

    async def ask(self, run: Run, scope: str = "") -> bytes:
        """All of an answer."""
        async with self.open(run, scope) as reply:
            return await heard(reply)


async def heard(reply: HttpReply) -> bytes:
    """What a client has at the end."""
    return reply.body if reply.live is None else b"".join([piece async for piece in reply.live])
