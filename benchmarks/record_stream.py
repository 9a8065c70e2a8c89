"""[tape]: what recording a stream costs for each of its chunks.

The chunks come from an adapter in this process that has them ready, so what is left over without the
recorder is the loop alone, and it is subtracted. The rest is all that recording one answer takes, divided
by its chunks: taking each down, cutting secrets out of the whole, holding it against the rules of trust, and
staging it, in memory where possible. The commit is not a part of it: there is one for many answers.

A redactor that knows values looks for each of them in every spelling and encoding, twice: to cut it out,
and by other means to be sure that it is gone.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import time
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from pathlib import Path
from typing import ClassVar

from benchmarks.data import MODEL, Texts
from benchmarks.measure import say, smallest
from benchmarks.table import Goal, Row
from cortex_replay import LlmAdapter, LlmRequest, LlmResponse, Store, StreamChunk, TokenUsage
from cortex_replay.engine.recording import RecordingAdapter
from cortex_replay.redact.redactor import Redactor

__all__ = ["run"]

_CHUNKS = 2000
_CHUNK_LENGTH = 20
_ROUNDS = 15
_KNOWN_VALUES = [f"the-key-of-nobody-{number:04}-{'ab1c2d3e' * 2}" for number in range(10)]
_HOW_MANY_KNOWN = {0: "no known values", 1: "one known value", 10: "ten known values"}

_numbers = itertools.count()


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    say("measuring the recording of streams")
    length = _CHUNKS * _CHUNK_LENGTH
    text = Texts(seed=10).between(length, length)
    inner = _Ready(text)
    with asyncio.Runner() as runner:
        tasks: dict[str, Callable[[], float]] = {"bare": partial(_cpu_of_stream, runner, inner, text)}
        for count, name in _HOW_MANY_KNOWN.items():
            recorder = RecordingAdapter(
                inner,
                Store.create(folder / str(count)),
                redactor=Redactor(_KNOWN_VALUES[:count]),
                commit_on_close=False,
            )
            tasks[name] = partial(_cpu_of_stream, runner, recorder, text)
        taken = smallest(_ROUNDS, tasks)
    return [
        Row(
            "tape",
            f"RecordingAdapter.stream() beyond what it wraps, {name}",
            (taken[name] - taken["bare"]) / _CHUNKS,
            goal=Goal("seconds", 30e-6),
            unit="chunk",
        )
        for name in _HOW_MANY_KNOWN.values()
    ]


class _Ready(LlmAdapter):
    """Streams one answer, whose chunks were made before."""

    adapter_id: ClassVar[str] = "ready"

    def __init__(self, text: str) -> None:
        response = LlmResponse(text, None, MODEL, TokenUsage(900, _CHUNKS), "", "stop")
        pieces = [text[i : i + _CHUNK_LENGTH] for i in range(0, len(text), _CHUNK_LENGTH)]
        self._chunks = [StreamChunk(piece) for piece in pieces[:-1]]
        self._chunks.append(StreamChunk(pieces[-1], "stop", response=response))
        self._response = response

    async def complete(self, _request: LlmRequest) -> LlmResponse:
        return self._response

    async def stream(self, _request: LlmRequest) -> AsyncIterator[StreamChunk]:
        for chunk in self._chunks:
            yield chunk


def _cpu_of_stream(runner: asyncio.Runner, adapter: LlmAdapter, text: str) -> float:
    """The CPU seconds of one stream, to a prompt of its own: what was recorded would be replayed."""
    request = LlmRequest(MODEL, "", f"{next(_numbers)}: {text[:2500]}")

    async def cpu() -> float:
        came = 0
        gc.collect()
        start = time.process_time()
        async for _ in adapter.stream(request):
            came += 1
        taken = time.process_time() - start
        if came != _CHUNKS:
            raise RuntimeError(f"{came} chunks came of {_CHUNKS}")
        return taken

    return runner.run(cpu())
