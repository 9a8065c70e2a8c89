"""How time is taken: CPU seconds, the smallest of several, ours and the peer's in turn.

A wall clock also counts whoever else uses the machine, and a mean also counts the machine's bad
moments. The smallest CPU time is the work itself. Taking turns lets a slow minute hit both sides.
Only where waiting for a disk is the work, the wall clock is taken as well.
"""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

_Name = TypeVar("_Name")
__all__ = ["Times", "children_cpu", "cpu_of", "cpu_of_child", "say", "smallest", "smallest_times", "times_of"]


class Times(NamedTuple):
    """Seconds, by both clocks."""

    cpu: float
    wall: float


def say(text: str) -> None:
    """Tell whoever waits what is going on, away from the table."""
    print(text, file=sys.stderr, flush=True)


def smallest(rounds: int, tasks: Mapping[_Name, Callable[[], float]]) -> dict[_Name, float]:
    """The smallest result of each task over some rounds, in each of which every task runs once."""
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            best[name] = min(best[name], task())
    return best


def smallest_times(rounds: int, tasks: Mapping[str, Callable[[], Times]]) -> dict[str, Times]:
    """As :func:`smallest`, of each clock for itself."""
    best = {name: Times(float("inf"), float("inf")) for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            best[name] = Times._make(map(min, best[name], task()))
    return best


def cpu_of(work: Callable[[], object]) -> float:
    """The CPU seconds that ``work`` takes in this process."""
    return times_of(work).cpu


def times_of(work: Callable[[], object]) -> Times:
    """The seconds that ``work`` takes in this process."""
    gc.collect()  # so that nobody pays for what an earlier task left behind
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    taken = Times(time.process_time() - cpu, time.perf_counter() - wall)
    del result  # only now: giving memory back is no part of the work
    return taken


def cpu_of_child(arguments: Sequence[str], folder: Path) -> float:
    """The CPU seconds of a whole child process, whose output is thrown away."""
    before = children_cpu()
    subprocess.run(arguments, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return children_cpu() - before


def children_cpu() -> float:
    """The CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
