"""[complete]: one answer from a store that is open, beside vcrpy answering over httpx.

vcrpy replays what goes over the wire and this project replays the call, so their work differs;
to the test that waits for an answer they are the same thing.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from benchmarks import vcrpy_peer
from benchmarks.data import MODEL, Script, Texts, fixture_of, write_store
from benchmarks.measure import say, smallest
from benchmarks.table import Goal, Row
from cortex_replay import LlmRequest, ReplayAdapter

__all__ = ["run"]

_FEW = 10
_MANY = 10_000
_CALLS = 10_000
_ROUNDS = 7
_SYSTEM = "You are a terse assistant in a test suite."
_PROMPT_LENGTH = 4096


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    texts = Texts(seed=3)
    say(f"writing stores of {_FEW:,} and of {_MANY:,} fixtures, and a cassette")
    with asyncio.Runner() as runner:  # one event loop for every call of either side
        few = _timed_calls(runner, folder / "few", _prompts(texts, _FEW), texts)
        many = _timed_calls(runner, folder / "many", _prompts(texts, _MANY), texts)
        with vcrpy_peer.cassette_of(folder, _prompts(texts, vcrpy_peer.INTERACTIONS)) as ask_vcrpy:
            say("measuring calls")
            tasks = {"few": few, "many": many, "vcrpy": lambda: runner.run(ask_vcrpy())}
            taken = smallest(_ROUNDS, tasks)
    what = "complete(), 4 KiB prompt"
    absolute, flat = Goal("seconds", 50e-6), Goal("slower", 1.5)
    vcrpy = f"vcrpy + httpx, {vcrpy_peer.INTERACTIONS:,} recorded"
    return [
        Row("complete", f"{what}, {_FEW:,} fixtures", taken["few"], goal=absolute, unit="call"),
        Row("complete", f"{what}, {_MANY:,} fixtures", taken["many"], goal=absolute, unit="call"),
        Row(
            "complete",
            "  against few fixtures",
            taken["many"],
            f"{_FEW:,} fixtures",
            taken["few"],
            flat,
            "call",
        ),
        Row("complete", "  against vcrpy", taken["many"], vcrpy, taken["vcrpy"], unit="call"),
    ]


def _prompts(texts: Texts, count: int) -> list[str]:
    """Prompts of 4 KiB; every tenth holds more than ASCII."""
    scripts: list[Script] = ["mixed" if number % 10 == 0 else "ascii" for number in range(count)]
    return [texts.between(_PROMPT_LENGTH, _PROMPT_LENGTH, script) for script in scripts]


def _request(prompts: Sequence[str], number: int) -> LlmRequest:
    """A request of its own with a text of its own: neither may remember an earlier call."""
    return LlmRequest(MODEL, _SYSTEM, f"{number}: {prompts[number]}", 0.0, 1024)


def _timed_calls(
    runner: asyncio.Runner, root: Path, prompts: Sequence[str], texts: Texts
) -> Callable[[], float]:
    """Opens a store of these prompts, asks for each once, and returns what then measures calls."""
    numbers = range(len(prompts))
    write_store(root, (fixture_of(_request(prompts, i), texts.between(300, 600)) for i in numbers))
    adapter = ReplayAdapter(root)
    runner.run(_cpu_per_call(adapter, [_request(prompts, number) for number in numbers]))
    dice = random.Random(4)

    def calls() -> float:
        order = dice.choices(numbers, k=_CALLS)
        return runner.run(_cpu_per_call(adapter, [_request(prompts, number) for number in order]))

    return calls


async def _cpu_per_call(adapter: ReplayAdapter, requests: Sequence[LlmRequest]) -> float:
    gc.collect()
    start = time.process_time()
    for request in requests:
        await adapter.complete(request)
    return (time.process_time() - start) / len(requests)
