"""[commit]: one new answer onto stores of ever more rows.

In one file a commit reads and writes the whole index, so its cost must grow with the rows, and not faster. A
store as large as the largest of these has shards by itself: it is kept from that until it was measured in one
file. With shards a commit reads and writes one of them, however many rows there are; going over to them is
measured by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.data import MODEL, fixture_of, small_fixtures, write_store
from benchmarks.measure import cpu_of, say, smallest
from benchmarks.table import Goal, Row
from cortex_replay import LlmRequest, Store
from cortex_replay.store.fixture import Fixture
from cortex_replay.store.index import shards

__all__ = ["run"]

_SIZES = (1_000, 10_000, 100_000)
_FEWEST_WITH_SHARDS = 25_000
_ROUNDS = 7
# Ten times the rows; the rest is room for caches that are too small for the larger store.
_LINEAR = Goal("slower", 10.5)
# The same work; the rest is that each shard has four times the rows.
_CONSTANT = Goal("slower", 1.5)


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    with _in_one_file():
        tasks = {str(size): _store_of(folder, size) for size in _SIZES}
        say("measuring commits to an index in one file")
        rows = _growing_rows(smallest(_ROUNDS, tasks))
    few, many = f"{_FEWEST_WITH_SHARDS:,} rows", f"{_SIZES[-1]:,} rows"
    sharded = {few: _store_of(folder, _FEWEST_WITH_SHARDS), many: tasks[str(_SIZES[-1])]}
    say("measuring commits to an index with shards")
    sharded[few]()
    rows.append(Row("commit", f"going over to shards with {many}", sharded[many]()))
    taken = smallest(_ROUNDS, sharded)
    what, peer = f"one answer onto {many}, with shards", f"onto {few}, with shards"
    rows.append(Row("commit", what, taken[many], peer, taken[few], _CONSTANT))
    return rows


def _growing_rows(taken: dict[str, float]) -> list[Row]:
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
    return rows


@contextmanager
def _in_one_file() -> Iterator[None]:
    """Let stores of any size stay in one file."""
    most = shards.MOST_ROWS_IN_ONE_FILE
    shards.MOST_ROWS_IN_ONE_FILE = 2 * _SIZES[-1]  # type: ignore[misc]
    try:
        yield
    finally:
        shards.MOST_ROWS_IN_ONE_FILE = most  # type: ignore[misc]


def _store_of(folder: Path, size: int) -> Callable[[], float]:
    say(f"writing a store of {size:,} fixtures")
    write_store(folder / str(size), small_fixtures(size))
    return _committing(folder / str(size))


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
