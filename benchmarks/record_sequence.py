"""[sequence]: one question that is asked again and again, each time with another answer.

A recorder stages each answer as it comes, so that none is lost, and commits all of them at the end. Four
times as many take four times as long if what is staged for one answer does not grow with those before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from itertools import count
from pathlib import Path
from typing import ClassVar, Final

from benchmarks.data import MODEL, Texts
from benchmarks.measure import cpu_of, say, smallest
from benchmarks.table import Goal, Row
from cortex_replay import LlmRequest, LlmResponse, RecordingAdapter, Store, TokenUsage
from cortex_replay.adapters.base import LlmAdapter
from cortex_replay.redact.redactor import Redactor

__all__ = ["run"]

_FEW: Final = 100
_MANY: Final = 400
_ROUNDS: Final = 5
# Four times the answers; the rest is room for what a machine adds by chance. Staged anew each time, it is 20.
_LINEAR: Final = Goal("slower", 5)


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    say(f"measuring {_MANY} answers to one key")
    numbers = count()
    tasks: dict[int, Callable[[], float]] = {
        size: partial(_recorded, folder, size, numbers) for size in (_FEW, _MANY)
    }
    taken = smallest(_ROUNDS, tasks)
    what = f"{_MANY} answers to one key, staged and committed"
    return [Row("sequence", what, taken[_MANY], f"{_FEW} answers", taken[_FEW], _LINEAR)]


class _Talker(LlmAdapter):
    """Says something else each time."""

    adapter_id: ClassVar[str] = "talker"

    def __init__(self) -> None:
        self._texts = Texts(seed=5)

    async def complete(self, _request: LlmRequest) -> LlmResponse:
        text = self._texts.between(600, 1000)
        return LlmResponse(text, None, MODEL, TokenUsage(900, 200), "", "stop")


def _recorded(folder: Path, size: int, numbers: count[int]) -> float:
    root = folder / str(next(numbers))
    recorder = RecordingAdapter(_Talker(), root, redactor=Redactor())
    request = LlmRequest(MODEL, "", "Say something.")

    async def record() -> None:
        async with recorder:
            for _ in range(size):
                await recorder.complete(request)

    taken = cpu_of(lambda: asyncio.run(record()))
    store = Store.open(root)
    if len(store.get(*store.key(request)).answers) != size:
        raise RuntimeError("not every answer was recorded")
    return taken
