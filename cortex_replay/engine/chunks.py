"""A recorded answer as a stream."""

from __future__ import annotations

from cortex_replay.adapters.base import as_one_chunk
from cortex_replay.store import Answer
from cortex_replay.types import StreamChunk

__all__ = ["chunks_of"]


def chunks_of(answer: Answer, asked_model: str) -> list[StreamChunk]:
    """A recorded answer in its recorded chunks; one that was not streamed is one chunk."""
    response = answer.response(asked_model)
    chunks = [timed.chunk for timed in answer.stream]
    if answer.wire is not None and answer.wire.get("stream") is True:
        from cortex_replay.wire.recording import decode_chunks  # noqa: PLC0415 - most stores need no codec

        chunks = decode_chunks(answer.wire, asked_model)
    if not chunks:
        return [as_one_chunk(response)]
    last = chunks[-1]
    chunks[-1] = StreamChunk(
        last.delta, last.finish_reason or "stop", last.tool_calls, last.reasoning, response
    )
    return chunks
