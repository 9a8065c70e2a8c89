"""[conversation]: an agent's conversation, of which each turn is stored once, against each turn stored whole.

A turn is 4 kB of text: half a question, half an answer. Its size on disk must grow with the text, and neither
opening nor replay may be slower than with files that hold the whole request.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from benchmarks.data import MODEL, fixture_of, write_store
from benchmarks.measure import cpu_of, say, smallest
from benchmarks.table import Goal, Row
from cortex_replay import LlmMessage, LlmRequest, Store
from cortex_replay.store.fixture import Fixture
from cortex_replay.store.journal import STATE_FOLDER
from cortex_replay.store.reader import Verify

__all__ = ["run"]

_TURN = 4_000
_LENGTHS = (40, 80, 160)
_MEASURED = 80
_ROUNDS = 25
_WHOLE = "each turn whole"
_NO_SLOWER = Goal("slower", 1.1)
"""But for what two runs of the same differ by."""


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    rows = []
    for length in _LENGTHS:
        say(f"writing a conversation of {length} turns")
        turns = _turns(length)
        _commit(Store.create(folder / f"linked-{length}"), turns)
        size = _size(folder / f"linked-{length}")
        text = length * _TURN
        what = f"{length} turns on disk"
        rows.append(Row("conversation", what, size, "their text", text, Goal("slower", 3), clock="bytes"))
    turns = _turns(_MEASURED)
    linked, whole = folder / f"linked-{_MEASURED}", folder / "whole"
    write_store(whole, turns)
    shutil.rmtree(linked / STATE_FOLDER)  # both as in a clone
    what = f"{_MEASURED} turns on disk"
    rows.append(Row("conversation", what, _size(linked), _WHOLE, _size(whole), clock="bytes"))
    say("measuring conversations")
    ways: tuple[Verify, ...] = ("full", "on-read")
    for verify in ways:
        rows += _compare(f"open, {verify}", linked, whole, partial(_open, verify=verify))
        rows += _compare(
            f"replay of all turns, {verify}",
            linked,
            whole,
            partial(_replay, verify=verify, turns=turns),
        )
    taken = smallest(5, {"commit": lambda: _commit_anew(folder / "new", turns)})
    rows.append(Row("conversation", f"stage and commit {_MEASURED} turns", taken["commit"]))
    return rows


def _compare(what: str, linked: Path, whole: Path, measure: Callable[[Path], float]) -> list[Row]:
    taken = smallest(_ROUNDS, {"linked": lambda: measure(linked), "whole": lambda: measure(whole)})
    return [Row("conversation", what, taken["linked"], _WHOLE, taken["whole"], _NO_SLOWER)]


def _turns(count: int) -> list[Fixture]:
    messages: list[LlmMessage] = []
    made = []
    for number in range(count):
        question, answer = (f"{kind} {number} ".ljust(_TURN // 2, "x") for kind in ("question", "answer"))
        messages.append(LlmMessage("user", question))
        made.append(fixture_of(LlmRequest(MODEL, "Be brief.", messages), answer))
        messages.append(LlmMessage("assistant", answer))
    return made


def _open(root: Path, verify: Verify) -> float:
    return cpu_of(lambda: Store.open(root, verify=verify))


def _replay(root: Path, verify: Verify, turns: Sequence[Fixture]) -> float:
    store = Store.open(root, verify=verify)
    return cpu_of(lambda: [store.get(*turn.key) for turn in turns])


def _commit_anew(root: Path, turns: Sequence[Fixture]) -> float:
    shutil.rmtree(root, ignore_errors=True)
    store = Store.create(root)
    return cpu_of(lambda: _commit(store, turns))


def _commit(store: Store, turns: Sequence[Fixture]) -> None:
    for turn in turns:
        store.add(turn)
    if len(store.commit().added) != len(turns):
        raise RuntimeError("not every turn was committed")


def _size(root: Path) -> int:
    """Of all files that git would keep, but for the empty grid of the index."""
    return sum(path.stat().st_size for path in (root / "fixtures").rglob("*.json"))
