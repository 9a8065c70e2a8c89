"""What the processes that are measured have in common: what they ask, and how they time themselves.

Nothing but the standard library is imported here, because the SDK has an environment of its own.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping

__all__ = ["SYSTEM", "Ask", "AskAsync", "Timed", "obey", "timed", "timed_async"]

Ask = Callable[[str, int, str], int]
"""Asks a model for an answer of so many pieces to a prompt; returns how many came."""
AskAsync = Callable[[str, int, str], Awaitable[int]]
Timed = Callable[[str, int, int], float]
"""Asks a model for answers of so many pieces, so many times; returns the CPU seconds of one."""

SYSTEM = "You are a terse assistant in a test suite."

_PROMPT_LENGTH = 4096
_POOL = "It was the one thing that all of them had said about each other, and so it had to be long. " * 50
_numbers = itertools.count()


def obey(tasks: Mapping[str, Timed]) -> None:
    """Measure what each line of the input names, and write the result, until the input ends."""
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(tasks[name](*arguments)), flush=True)


def timed(ask: Ask) -> Timed:
    def cpu_per_call(model: str, pieces: int, calls: int) -> float:
        _require(ask(model, pieces, _prompt()), pieces)  # which also opens the connection again
        prompts = [_prompt() for _ in range(calls)]
        gc.collect()
        start = time.process_time()
        for prompt in prompts:
            ask(model, pieces, prompt)
        return (time.process_time() - start) / calls

    return cpu_per_call


def timed_async(runner: asyncio.Runner, ask: AskAsync) -> Timed:
    """As :func:`timed`, on the one event loop of this process."""

    async def cpu_per_call(model: str, pieces: int, calls: int) -> float:
        _require(await ask(model, pieces, _prompt()), pieces)
        prompts = [_prompt() for _ in range(calls)]
        gc.collect()
        start = time.process_time()
        for prompt in prompts:
            await ask(model, pieces, prompt)
        return (time.process_time() - start) / calls

    return lambda *arguments: runner.run(cpu_per_call(*arguments))


def _prompt() -> str:
    """A text of 4 KiB of its own: nobody may remember an earlier call."""
    return f"{next(_numbers)}: {_POOL}"[:_PROMPT_LENGTH]


def _require(came: int, pieces: int) -> None:
    if came != pieces:
        raise RuntimeError(f"an answer of {pieces} pieces came in {came}")
