"""[bytes] and [full]: checking a store, against reading and hashing the same files with ``b3sum``.

``b3sum`` does the part of the work that nobody can leave out, as a native program. ``crtx-llm``
opening the same files is the reference that this project follows.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Collection
from pathlib import Path

from benchmarks import programs
from benchmarks.data import flat_copy, usual_fixtures, write_store
from benchmarks.measure import cpu_of, cpu_of_child, say, smallest
from benchmarks.table import Goal, Row
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.index.index import Index

__all__ = ["run"]

_COUNT = 10_000
_ROUNDS = 9


def run(folder: Path, wanted: Collection[str]) -> list[Row]:
    say(f"writing a store of {_COUNT:,} fixtures")
    root = folder / "store"
    index = write_store(root, usual_fixtures(_COUNT))
    size = sum((root / row.path).stat().st_size for row in index.fixtures)
    say(f"measuring the check of {_COUNT:,} files of {size / _COUNT:.0f} bytes on average")

    tasks: dict[str, Callable[[], float]] = {}
    if "bytes" in wanted:
        tasks["bytes"] = lambda: cpu_of(lambda: _checked(root, content=False))
    if "full" in wanted:
        tasks["full"] = lambda: cpu_of(lambda: _checked(root, content=True))
    tasks |= _peers(folder, root, index, wanted)
    taken = smallest(_ROUNDS, tasks)

    rows = []
    if "bytes" in wanted:
        what = f"index, listing and hashes of {_COUNT:,} fixtures"
        rows.append(
            Row("bytes", what, taken["bytes"], "b3sum", taken.get("b3sum"), Goal("slower", 1.15)),
        )
    if "full" in wanted:
        what = f"everything about {_COUNT:,} fixtures"
        rows.append(Row("full", what, taken["full"], "b3sum", taken.get("b3sum")))
        peer = "crtx-llm 0.1.1, open"
        rows.append(Row("full", what, taken["full"], peer, taken.get("crtx"), Goal("slower", 1)))
    return rows


def _checked(root: Path, *, content: bool) -> object:
    report = check_store(DirectorySource(root), content=content)
    if not report.is_trusted or report.files_checked != _COUNT:
        raise RuntimeError(f"the store to measure on is not sound: {report.findings[:3]}")
    return report


def _peers(folder: Path, root: Path, index: Index, wanted: Collection[str]) -> dict[str, Callable[[], float]]:
    peers: dict[str, Callable[[], float]] = {}
    if b3sum := programs.b3sum():
        arguments = [b3sum, "--num-threads", "1", *(row.path for row in index.fixtures)]
        peers["b3sum"] = lambda: cpu_of_child(arguments, root)
    if "full" in wanted and (crtx := programs.crtx_open()):
        flat = folder / "flat"
        flat_copy(root, index, flat)
        peers["crtx"] = lambda: _crtx_seconds(crtx, flat)
    return peers


def _crtx_seconds(program: str, flat: Path) -> float:
    """The faster of two openings in a process of their own, whose start is not counted."""
    printed = subprocess.run([program, flat, "2", str(_COUNT)], capture_output=True, text=True, check=True)
    return min(map(int, printed.stdout.split())) / 1e9
