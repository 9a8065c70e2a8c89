"""[commit]: one new answer onto stores of ever more rows.

In one file a commit reads and writes the whole index, so its cost must grow with the rows, and not faster.
The largest store goes over to shards with the first commit, which is measured by itself; from then on a
commit reads and writes one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from benchmarks.data import MODEL, fixture_of, small_fixtures, write_store
from benchmarks.measure import cpu_of, say, smallest
from benchmarks.table import Goal, Row
from cortex_replay import LlmRequest, Store
from cortex_replay.store.fixture import Fixture

__all__ = ["run"]

_SIZES = (1_000, 10_000, 100_000)
_ROUNDS = 7
# Ten times the rows; the rest is room for caches that are too small for the larger store.
_LINEAR = Goal("slower", 10.5)


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    tasks: dict[str, Callable[[], float]] = {}
    for size in _SIZES:
        say(f"writing a store of {size:,} fixtures")
        write_store(folder / str(size), small_fixtures(size))
        tasks[str(size)] = _committing(folder / str(size))
    say("measuring commits")
    over = tasks[str(_SIZES[-1])]()
    taken = smallest(_ROUNDS, tasks)

    rows = []
    smaller = None
    for size in _SIZES:
        ours, what = taken[str(size)], f"one answer onto {size:,} rows"
        if smaller is None:
            rows.append(Row("commit", what, ours))
        else:
            rows.append(Row("commit", what, ours, f"onto {smaller:,} rows", taken[str(smaller)], _LINEAR))
        rows.append(Row("commit", "  for each row", ours / size, unit="row"))
        smaller = size
    rows.append(Row("commit", f"going over to shards with {smaller:,} rows", over))
    return rows


def _committing(root: Path) -> Callable[[], float]:
    """What then measures one commit more onto an open store."""
    store = Store.open(root, verify="on-read")

    def one_commit() -> float:
        # Another one each time: what is recorded already would change nothing.
        fixture = fixture_of(LlmRequest(MODEL, "new", str(len(store))), "Yes.")
        return cpu_of(lambda: _add_and_commit(store, fixture))

    return one_commit


def _add_and_commit(store: Store, fixture: Fixture) -> None:
    store.add(fixture)
    if len(store.commit().added) != 1:
        raise RuntimeError("the answer was not committed")
