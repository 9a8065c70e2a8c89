"""Tries planted bugs one after the other, and says which of them a test sees."""

from __future__ import annotations

import queue
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.mutants.catalogue import ROOT, Mutant, NoMutant
from tests.mutants.copies import Copy, Finish

LIMIT: Final = 300.0
"""Seconds for the tests of one bug; a bug that makes them hang is seen."""
_NO_TESTS: Final = 5


class Verdict(StrEnum):
    """What became of a planted bug."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    UNPLANTED = "did not apply"
    BROKEN = "tests fail without it"


@dataclass(frozen=True)
class Trial:
    """A bug that was planted, and what the tests said."""

    mutant: Mutant
    verdict: Verdict
    by: str = ""
    """The test that saw it, or what went wrong."""
    cpu: float = 0.0
    is_checked: bool = False
    """Whether the test was run without the bug, too."""

    @property
    def is_right(self) -> bool:
        """It went as the list says: caught, or survived for the reason it gives."""
        expected = Verdict.CAUGHT if self.mutant.survives is None else Verdict.SURVIVED
        return self.verdict is expected


def try_all(
    mutants: Sequence[Mutant],
    workers: int = 1,
    *,
    root: Path = ROOT,
    limit: float = LIMIT,
    is_sure: bool = False,
    tell: Callable[[Trial], None] = lambda _: None,
    earlier: Sequence[Trial] = (),
) -> list[Trial]:
    """Plants each bug in a copy of ``root`` and runs its tests.

    A test that fails counts only if it passes without the bug, which is tried in the end for all at once.

    Args:
        mutants: The bugs.
        workers: How many are tried at a time, each in a copy of its own.
        root: The tree.
        limit: The seconds that the tests of one bug may take.
        is_sure: Whether the test has to fail a second time with the bug: a flaky one might fail by chance.
        tell: Is told of each trial when it ends.
        earlier: Trials of a run that was stopped; they come first, and are checked with the others.
    """
    if not mutants and all(trial.is_checked for trial in earlier):
        return list(earlier)
    with _copies(max(1, min(workers, len(mutants))), root) as copies:
        free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in copies:
            free.put(copy)

        def attempt(mutant: Mutant) -> Trial:
            copy = free.get()
            try:
                trial = _try_one(copy, mutant, limit, is_sure=is_sure)
            finally:
                free.put(copy)
            tell(trial)
            return trial

        with ThreadPoolExecutor(len(copies)) as pool:
            try:
                trials = list(pool.map(attempt, mutants))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for copy in copies:  # so that nobody waits for the runs that are under way
                    copy.close()
                raise
        return _without_bugs(copies[0], [*earlier, *trials], limit)


@contextmanager
def _copies(count: int, root: Path) -> Iterator[list[Copy]]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ExitStack() as stack:
        copies: list[Copy] = []
        for number in range(count):
            copy = stack.enter_context(Copy(Path(folder).resolve() / str(number), root))
            copies.append(copy)
            root = copy.root  # what was compiled for the first one is compiled for all
        yield copies


def _try_one(copy: Copy, mutant: Mutant, limit: float, *, is_sure: bool = False) -> Trial:
    """One list of tests after the other, until one fails."""
    cpu = 0.0
    try:
        with copy.planted(mutant):
            for test in mutant.tests:
                finish = copy.run([test], limit)
                cpu += finish.cpu
                if finish.code == _NO_TESTS:
                    return Trial(mutant, Verdict.BROKEN, f"{test} has no tests", cpu)
                if finish.code == 0:
                    continue
                by = _seen_by(finish, test)
                if is_sure and finish.code is not None and copy.run([by], limit).code == 0:
                    # Not by itself; but what a bug leaves behind shows only in a later test.
                    if _seen_by(copy.run([test], limit), "") != by:
                        continue
                    by = test
                return Trial(mutant, Verdict.CAUGHT, by, cpu)
    except (NoMutant, OSError) as error:
        return Trial(mutant, Verdict.UNPLANTED, str(error))
    return Trial(mutant, Verdict.SURVIVED, cpu=cpu)


def _seen_by(finish: Finish, test: str) -> str:
    """The test function that failed, or all that was run if none had the time to."""
    return finish.failed[0].partition("[")[0] if finish.failed else test


def _without_bugs(copy: Copy, trials: list[Trial], limit: float) -> list[Trial]:
    """The same trials; those whose test fails without the bug as well are not caught."""
    unsure = [trial for trial in trials if trial.verdict is Verdict.CAUGHT and not trial.is_checked]
    seen = sorted({trial.by for trial in unsure})
    failing = set(_failing(copy, seen, limit))
    return [
        replace(
            trial,
            verdict=Verdict.BROKEN if trial in unsure and trial.by in failing else trial.verdict,
            is_checked=True,
        )
        for trial in trials
    ]


def _failing(copy: Copy, tests: list[str], limit: float) -> list[str]:
    """Which of these fail in a tree without a bug, or cannot be run."""
    if not tests:
        return []
    finish = copy.run(tests, limit * len(tests), stop=False)
    if finish.code == 0:
        return []
    if len(tests) == 1:
        return tests
    half = len(tests) // 2
    return [*_failing(copy, tests[:half], limit), *_failing(copy, tests[half:], limit)]
