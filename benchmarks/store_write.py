"""[write]: adding answers and committing them once, against the least that has to be done.

That least is a temporary file, ``fsync`` and ``rename`` for each of the same files, by hand. On a
disk this is the physical limit, and the wall clock counts, because to ``fsync`` is to wait. In
memory ``fsync`` does nothing, and what is left over is the work of this project itself: making the
bytes of each fixture, and reading them back by the rules of trust before they are staged.

vcrpy writes the same interactions to one cassette. It waits for no disk and checks nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from benchmarks import vcrpy_peer
from benchmarks.data import disk_folder, is_in_memory, usual_fixtures
from benchmarks.measure import Times, say, smallest_times, times_of
from benchmarks.table import Goal, Row
from cortex_replay import Store
from cortex_replay.store.fixture import Fixture
from cortex_replay.store.paths import INDEX_NAME

__all__ = ["run"]

_COUNT = 10_000
_ROUNDS = 3
_BY_HAND = "write, fsync, rename"

Files = Sequence[tuple[str, bytes]]


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    fixtures = list(usual_fixtures(_COUNT))
    rows = []
    if is_in_memory(folder):
        rows += _measured("in memory", folder, fixtures, None)
    with disk_folder() as disk:
        if disk.stat().st_dev != folder.stat().st_dev or not rows:
            rows += _measured("on disk", disk, fixtures, Goal("slower", 2))
    return rows


def _measured(where: str, folder: Path, fixtures: Sequence[Fixture], goal: Goal | None) -> list[Row]:
    say(f"measuring the writing of {_COUNT:,} answers {where}")
    files = _files(folder / "model", fixtures)
    interactions = [
        vcrpy_peer.interaction(fixture.request, fixture.answers[0].text)
        for fixture in fixtures
        if fixture.request is not None
    ]
    taken = smallest_times(
        _ROUNDS,
        {
            "ours": lambda: _in_new_folder(folder, lambda root: _ours(root, fixtures)),
            "by hand": lambda: _in_new_folder(folder, lambda root: _by_hand(root, files)),
            "vcrpy": lambda: _in_new_folder(
                folder,
                lambda root: times_of(lambda: vcrpy_peer.write_cassette(root / "c.json", interactions)),
            ),
        },
    )
    ours, by_hand, vcrpy = taken["ours"], taken["by hand"], taken["vcrpy"]
    what = f"{_COUNT:,} answers, one commit, {where}"
    cassette = "vcrpy, one JSON cassette"
    return [
        Row("write", what, ours.wall, _BY_HAND, by_hand.wall, goal, clock="wall"),
        Row("write", what, ours.cpu, _BY_HAND, by_hand.cpu),
        Row("write", "  against vcrpy", ours.wall, cassette, vcrpy.wall, clock="wall"),
        Row("write", "  against vcrpy", ours.cpu, cassette, vcrpy.cpu),
    ]


def _files(root: Path, fixtures: Sequence[Fixture]) -> Files:
    """The files of such a store, by their paths; the index comes last, as in a commit."""
    root.mkdir()
    _add_and_commit(Store.create(root), fixtures)
    paths = [row.path for row in Store.open(root, verify="on-read").list()] + [INDEX_NAME]
    files = [(path, (root / path).read_bytes()) for path in paths]
    shutil.rmtree(root)
    return files


def _in_new_folder(folder: Path, measured: Callable[[Path], Times]) -> Times:
    root = folder / "new"
    root.mkdir()
    os.sync()  # nobody is to wait for what another has written, or removed
    try:
        return measured(root)
    finally:
        shutil.rmtree(root)


def _ours(root: Path, fixtures: Sequence[Fixture]) -> Times:
    store = Store.create(root)
    return times_of(lambda: _add_and_commit(store, fixtures))


def _add_and_commit(store: Store, fixtures: Sequence[Fixture]) -> None:
    for fixture in fixtures:
        store.add(fixture)
    if len(store.commit().added) != _COUNT:
        raise RuntimeError("not every answer was committed")


def _by_hand(root: Path, files: Files) -> Times:
    folders = {(root / path).parent for path, _ in files}
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    targets = [(os.fspath(root / path), data) for path, data in files]
    temporary = os.fspath(root / "temporary")
    return times_of(lambda: _write_all(temporary, targets, [*map(os.fspath, folders)]))


def _write_all(temporary: str, files: Files, folders: Sequence[str]) -> None:
    for path, data in files:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(descriptor, data)
        os.fsync(descriptor)
        os.close(descriptor)
        os.rename(temporary, path)  # noqa: PTH104 - a Path would cost the peer its making
    for folder in folders:
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
