"""What is taken down of a call while it happens."""

from __future__ import annotations

import time

from cortex_replay.store import Answer, TimedChunk
from cortex_replay.types import LlmResponse, StreamChunk, ToolCallDelta

__all__ = ["Tape", "answer_from"]


def answer_from(response: LlmResponse, asked_model: str, stream: tuple[TimedChunk, ...] = ()) -> Answer:
    """A response as an answer to be recorded."""
    return Answer(
        text=response.text,
        parsed_json=response.parsed_json,
        model=None if response.model == asked_model else response.model,
        usage=response.usage,
        finish_reason=response.finish_reason,
        tool_calls=response.tool_calls,
        reasoning=response.reasoning,
        stream=stream,
    )


class Tape:
    """The chunks of a stream with their times, counted from the start of the call."""

    def __init__(self, asked_model: str) -> None:
        self._asked_model = asked_model
        self._started = time.monotonic()
        self._chunks: list[TimedChunk] = []

    def add(self, chunk: StreamChunk) -> None:
        at_ms = round((time.monotonic() - self._started) * 1000)
        self._chunks.append(TimedChunk(at_ms, chunk))

    def answer(self) -> Answer:
        """The whole answer; the last chunk has the response, or an adapter of somebody's forgot it."""
        chunks = [timed.chunk for timed in self._chunks]
        response = chunks[-1].response if chunks else None
        if response is None:
            response = LlmResponse(
                text="".join(chunk.delta for chunk in chunks),
                parsed_json=None,
                model=self._asked_model,
                usage=None,
                raw_hash="",
                finish_reason=next((c.finish_reason for c in reversed(chunks) if c.finish_reason), "stop"),
                tool_calls=ToolCallDelta.join(piece for chunk in chunks for piece in chunk.tool_calls),
                reasoning="".join(chunk.reasoning or "" for chunk in chunks) or None,
            )
        return answer_from(response, self._asked_model, _ending(self._chunks, response.finish_reason))


def _ending(chunks: list[TimedChunk], finish_reason: str | None) -> tuple[TimedChunk, ...]:
    """The chunks with the finish reason on the last one, and on no other."""
    last = len(chunks) - 1
    return tuple(
        TimedChunk(
            timed.at_ms,
            StreamChunk(
                timed.chunk.delta,
                finish_reason if i == last else None,
                timed.chunk.tool_calls,
                timed.chunk.reasoning,
            ),
        )
        for i, timed in enumerate(chunks)
    )
