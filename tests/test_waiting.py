"""Tests wait for what they need, and for no time; and none has a ceiling in seconds."""

from __future__ import annotations

import ast
import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.growth import costs_at_most, grows_linearly
from tests.waiting import until, wait_until

TESTS = Path(__file__).parent
SLEEPS = {
    "waiting.py": "the helper itself",
    "cli/test_batch.py": "to be replaced by the helper",
    "cli/test_record.py": "to be replaced by the helper",
    "gateway/test_commands.py": "to be replaced by the helper",
    "security/matrix/cells.py": "watches a process that it did not write, between two looks",
    "security/test_gateway_load.py": "clients that are slow, or late",
    "servers/process.py": "asks a server whether it is ready, between two tries",
}
"""Who may sleep, and what for."""
CLOCKS = {"growth.py": "compares two runs"}
"""Who may measure the time that work takes."""


def uses_of(source: str, names: set[str]) -> Iterator[int]:
    """The lines in which a module uses something of ``time``."""
    if not any(name in source for name in names):
        return  # to parse all of the tests takes seconds
    tree = ast.parse(source)
    for node in ast.walk(tree):
        is_attribute = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if is_attribute and node.value.id == "time" and node.attr in names:  # type: ignore[attr-defined]
            yield node.lineno  # type: ignore[attr-defined]
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (node.lineno for alias in node.names if alias.name in names)


def places_of(names: set[str], known: dict[str, str]) -> list[str]:
    return [
        f"{path.relative_to(TESTS).as_posix()}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if path.relative_to(TESTS).as_posix() not in known
        for line in uses_of(path.read_text(), names)
    ]


def test_no_test_sleeps() -> None:
    assert places_of({"sleep"}, SLEEPS) == []


def test_no_test_has_a_ceiling_on_cpu_time() -> None:
    assert places_of({"process_time", "process_time_ns", "thread_time", "perf_counter"}, CLOCKS) == []


def test_the_check_sees_a_planted_sleep() -> None:
    planted = "import time\nfrom time import sleep\ndef f():\n    time.sleep(1)\n    '''time.sleep(2)'''\n"

    assert sorted(uses_of(planted, {"sleep"})) == [2, 4]


def test_waiting_ends_with_its_condition_or_fails() -> None:
    happened = threading.Event()
    threading.Timer(0.05, happened.set).start()
    wait_until(happened.is_set)
    asyncio.run(until(happened.is_set))
    with pytest.raises(AssertionError, match=r"not so after 0\.01 seconds"):
        wait_until(lambda: False, 0.01)
    with pytest.raises(AssertionError, match=r"not so after 0\.01 seconds"):
        asyncio.run(until(lambda: False, 0.01))


def test_growth_tells_a_square_from_a_line() -> None:
    """By a clock that only the work moves, so that no other process on this machine decides it."""
    now = 0.0

    def work(seconds: float) -> Callable[[], None]:
        def run() -> None:
            nonlocal now
            now += seconds

        return run

    def clock() -> float:
        return now

    assert grows_linearly(work(1), work(2), clock)
    assert not grows_linearly(work(1), work(4), clock)
    assert costs_at_most(2, work(1.9), work(1), clock)
    assert not costs_at_most(2, work(2.1), work(1), clock)
