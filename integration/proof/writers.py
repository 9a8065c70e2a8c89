"""Many processes that write at once."""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cortex_replay import Store
from cortex_replay.store.fixture import Answer
from integration.proof.figures import Row, Scale, Tell
from integration.proof.vcr_cassettes import VCRPY, load, record
from tests.builder import ask, fixture_of
from tests.torture.plans import SCRATCH
from tests.torture.rekeying import RECORDERS, race

__all__ = ["prove"]

_WRITERS: Final = 8
_TWO: Final = 2
_LOST: Final = "answers lost"
_FAILED: Final = "writers that failed"


def prove(scale: Scale, tell: Tell) -> list[Row]:
    each, races = scale.pick(5, 50, 200), scale.pick(3, 200, 500)
    ours = _together(_WRITERS, each, _commit, _count_ours)
    theirs = _together(_WRITERS, each, _save, _count_theirs)
    two = _together(_TWO, each, _save, _count_theirs)
    tell(1, races + 1)
    outcomes: Counter[str] = Counter()
    lost = kept = 0
    with TemporaryDirectory(dir=SCRATCH) as folder:
        for seed in range(races):
            found = race(Path(folder) / f"{seed}", seed)
            outcomes += found.outcomes
            lost += len(found.lost)
            kept += found.kept
            tell(seed + 2, races + 1)
    failed = sum(outcomes.values()) - outcomes["done"] - outcomes["colliding"]
    return [
        Row("ours", "cortex-replay", f"{_WRITERS} processes, {each} answers each", _WRITERS * each, ours),
        Row("vcrpy", VCRPY, f"{_WRITERS} processes, {each} answers each", _WRITERS * each, theirs),
        Row("vcrpy-two", VCRPY, f"{_TWO} processes, {each} answers each", _TWO * each, two),
        Row(
            "rekey",
            "cortex-replay",
            f"`rekey` beside {RECORDERS} recorders, {races:,} times",
            kept + lost,
            {_LOST: lost, _FAILED: failed},
        ),
    ]


def _together(
    writers: int, each: int, write: Callable[[Path, int, int], None], tally: Callable[[Path], int | None]
) -> dict[str, int]:
    """Write at once; gives how many answers are gone, and how many writers gave up."""
    context = multiprocessing.get_context("fork")
    with TemporaryDirectory(dir=SCRATCH) as folder:
        gate = context.Barrier(writers)
        place = Path(folder)
        processes = [
            context.Process(target=_write, args=(gate, write, place, n, each)) for n in range(writers)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        failed = sum(process.exitcode != 0 for process in processes)
        return {_LOST: writers * each - (tally(place) or 0), _FAILED: failed}


def _write(
    gate: Barrier, write: Callable[[Path, int, int], None], place: Path, writer: int, each: int
) -> None:
    gate.wait()
    try:
        for number in range(each):
            write(place, writer, number)
    except Exception:  # noqa: BLE001 - it is counted, and need not be printed
        sys.exit(1)


def _commit(place: Path, writer: int, number: int) -> None:
    store = Store.open_or_create(place / "llm", verify="on-read")
    store.add(fixture_of(ask(f"question {number} of {writer}"), Answer("yes")))
    store.commit()


def _count_ours(place: Path) -> int:
    return len(Store.open(place / "llm").list())


def _save(place: Path, writer: int, number: int) -> None:
    record(place / "cassette.yaml", [(f"question {number} of {writer}", "yes")])


def _count_theirs(place: Path) -> int | None:
    there = load(place / "cassette.yaml")
    return None if there is None else len(there)
