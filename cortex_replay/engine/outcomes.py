"""What the n-th call of a key gets, of all that is recorded under it: whole, as a stream, or as an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cortex_replay.errors import LlmError
from cortex_replay.store import Answer
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import StreamChunk

__all__ = ["Outcome", "chunks_of", "failure_of", "recorded_outcome"]

Outcome = Answer | Exchange
"""A success, or a failure as it came over the wire."""


def recorded_outcome(answers: Sequence[Answer], failures: Mapping[int, Exchange], n: int) -> Outcome | None:
    """The failure that was answer ``n`` (from 1), else the next success; ``None`` where there is none left.

    A single success answers every call.
    """
    if n in failures:
        return failures[n]
    if len(answers) == 1:
        return answers[0]
    position = n - 1 - sum(failed < n for failed in failures)
    return answers[position] if position < len(answers) else None


def failure_of(exchange: Exchange) -> LlmError:
    """The error that a recorded failure is to a caller of an adapter."""
    from cortex_replay.wire.recording import decode_failure, decode_recording  # noqa: PLC0415 - most need no codec

    if exchange.wire.get("status") == 200 and "protocol" in exchange.wire:
        try:
            decode_recording(exchange.wire, exchange.match.model if exchange.match else "")
        except LlmError as error:
            return error
    return decode_failure(exchange.wire)


def chunks_of(answer: Answer, asked_model: str) -> list[StreamChunk]:
    """A recorded answer in its recorded chunks; one that was not streamed is one chunk."""
    response = answer.response(asked_model)
    chunks = [timed.chunk for timed in answer.stream]
    if answer.wire is not None and answer.wire.get("stream") is True:
        from cortex_replay.wire.recording import decode_chunks  # noqa: PLC0415 - most stores need no codec

        chunks = decode_chunks(answer.wire, asked_model)
    if not chunks:
        from cortex_replay.adapters.base import as_one_chunk  # noqa: PLC0415 - replayed bytes have their own

        return [as_one_chunk(response)]
    last = chunks[-1]
    chunks[-1] = StreamChunk(
        last.delta, last.finish_reason or "stop", last.tool_calls, last.reasoning, response
    )
    return chunks
