"""A model server that says what a function says, on every wire, whole or as a stream."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from cortex_replay.providers import address_at
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk, TokenUsage, ToolCall, ToolCallDelta
from cortex_replay.wire import WIRES
from tests.adapters.fake_provider import Exchange, FakeProvider, serving_in_thread

__all__ = ["KEY", "Speaker", "last_text", "reply", "speaking"]

Speaker = Callable[[LlmRequest], LlmResponse | int]
"""What a model answers, or the status with which it fails."""
KEY: Final = "canary-of-the-models-that-are-looked-at"
_PIECE: Final = 12
_EMBEDDINGS: Final = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25, -0.125]}],
    "model": "text-embedding-6-small",
    "usage": {"prompt_tokens": 9, "total_tokens": 9},
}


def last_text(request: LlmRequest) -> str:
    """What was said last to the model."""
    return str(request.messages[-1].content) if request.messages else ""


def reply(
    request: LlmRequest,
    text: str = "",
    *calls: ToolCall,
    reason: str = "",
    thought: str | None = None,
    usage: TokenUsage | None = None,
) -> LlmResponse:
    """An answer, which ends as one with or without tool calls does."""
    length = sum(len(str(message.content)) for message in request.messages)
    spent = usage or TokenUsage(length // 4 + 20, len(text) // 4 + 8)
    end = reason or ("tool_calls" if calls else "stop")
    return LlmResponse(text, None, request.model, spent, "", end, calls, thought)


@contextmanager
def speaking(speaker: Speaker, pace_s: float = 0) -> Iterator[FakeProvider]:
    """The server, for as long as the block lasts.

    Args:
        speaker: What it says.
        pace_s: Between two pieces of a stream.
    """

    async def answer(exchange: Exchange) -> None:
        address = address_at(exchange.received.path.partition("?")[0])
        if address is None:
            await exchange.whole(json.dumps(_EMBEDDINGS).encode())
            return
        wire = WIRES[address.protocol]
        document = {**exchange.received.json, **dict(address.parameters)}
        said = speaker(wire.lift(document))
        if isinstance(said, int):
            error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
            await exchange.whole(json.dumps(error).encode(), said)
            return
        if not wire.wants_stream(document):
            await exchange.whole(json.dumps(wire.encode_answer(said, "live")).encode())
            return
        encoder = wire.stream_encoder(said.model, "live")
        await exchange.start_stream(wire.stream_media_type)
        await exchange.piece(encoder.start())
        for chunk in _chunks(said):
            if pace_s:
                await asyncio.sleep(pace_s)
            await exchange.piece(encoder.chunk(chunk))
        await exchange.end_stream()

    with serving_in_thread(answer) as provider:
        yield provider


def _chunks(said: LlmResponse) -> Iterator[StreamChunk]:
    """Thoughts and text word by word, arguments a few characters at a time."""
    for word in re.findall(r"\s*\S+\s*$|\s*\S+", said.reasoning or ""):
        yield StreamChunk("", reasoning=word)
    for word in re.findall(r"\s*\S+\s*$|\s*\S+", said.text):
        yield StreamChunk(word)
    for number, call in enumerate(said.tool_calls):
        whole = ToolCallDelta.whole(number, call)
        yield StreamChunk("", tool_calls=(ToolCallDelta(number, whole.id, whole.name),))
        for at in range(0, len(whole.arguments), _PIECE):
            piece = ToolCallDelta(number, arguments=whole.arguments[at : at + _PIECE])
            yield StreamChunk("", tool_calls=(piece,))
    yield StreamChunk("", said.finish_reason, response=said)
