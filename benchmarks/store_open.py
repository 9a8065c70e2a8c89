"""[open]: opening a large store to replay from it, against a general TOML reader on its index.

Before the first answer can be served, the index has to be read and compared with the folder;
whoever reads the index with ``tomllib`` has paid the peer's time before doing anything with it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path

from benchmarks.data import small_fixtures, write_store
from benchmarks.measure import cpu_of, say, smallest
from benchmarks.table import Goal, Row
from cortex_replay import Store
from cortex_replay.store.paths import INDEX_NAME

__all__ = ["run"]

_COUNT = 100_000
_ROUNDS = 5


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    say(f"writing a store of {_COUNT:,} fixtures")
    root = folder / "store"
    write_store(root, small_fixtures(_COUNT))
    size = (root / INDEX_NAME).stat().st_size
    say(f"measuring the opening of that store; its index has {size / 1e6:.1f} MB")
    taken = smallest(
        _ROUNDS,
        {
            "ours": lambda: cpu_of(lambda: _opened(root)),
            "tomllib": lambda: cpu_of(lambda: _general_reader(root)),
        },
    )
    what = f'Store.open(verify="on-read"), {_COUNT:,} rows'
    return [Row("open", what, taken["ours"], "tomllib.load", taken["tomllib"], Goal("faster", 5))]


def _opened(root: Path) -> Store:
    store = Store.open(root, verify="on-read")
    if len(store) != _COUNT:
        raise RuntimeError(f"the store to measure on has {len(store)} fixtures")
    return store


def _general_reader(root: Path) -> object:
    with (root / INDEX_NAME).open("rb") as file:
        return tomllib.load(file)
