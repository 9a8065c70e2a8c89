"""Real refusals of a real kernel: no descriptors left, no space left, a read-only file system."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from cortex_replay import ReplayAdapter, Store, StoreIo
from cortex_replay.cli.main import main
from cortex_replay.errors import LlmError
from cortex_replay.store import trust
from tests.sampling import IS_TORTURE, chance
from tests.torture.doomed import Run, Say
from tests.torture.plans import (
    BASE,
    Op,
    after,
    assert_tidy,
    fixture,
    make_store,
    perform,
    sound_answers,
    temporaries,
)
from tests.torture.shim import Counter, Killer, hooked, in_child

STEP: Final = 1 if IS_TORTURE else 4
"""Between the limits that are tried."""
NEW: Final = [Op("add", "a new", "5" * 3000), Op("replace", "a one", "uno"), Op("remove", "b one")]


@contextmanager
def tmpfs(point: Path, size: str) -> Iterator[Path]:
    """A small file system of our own."""
    point.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(point)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", str(point)], check=True)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with tmpfs(tmp_path / "small", "1m") as point:
        yield point


def go_on(store: Store, todo: list[Op]) -> str | None:
    """Do what is left to do; gives the words of a refusal."""
    try:
        while todo:
            perform(store, todo[0])
            todo.pop(0)
        store.commit()
    except StoreIo as error:
        return str(error)
    return None


def fill(point: Path, free_pages: int) -> Path:
    """A file that leaves just so much space."""
    filler = point / "filler"
    status = os.statvfs(point)
    filler.write_bytes(bytes((status.f_bavail - free_pages) * status.f_frsize))
    return filler


def commit_with_few_descriptors(root: Path, limit: int, say: Say) -> None:
    """In a process of its own: refused or not, and after that with as many as it wants."""
    store = Store.open(root)
    before = len(list(Path("/proc/self/fd").iterdir()))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    todo = list(NEW)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        refusal = go_on(store, todo)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if refusal is not None:
        assert "Too many open files" in refusal
        assert sound_answers(root) == BASE
        assert not temporaries(root)
        assert go_on(store, todo) is None
    assert sound_answers(root) == after(BASE, NEW)
    assert_tidy(root)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    say(refusal or "done")


def test_out_of_descriptors(tmp_path: Path) -> None:
    """From none up to enough: the limit is named, nothing leaks, and then it works."""
    said: list[str] = []
    limit = 3 + chance("descriptors").randrange(STEP)
    while said[-2:] != ["done", "done"]:
        root = make_store(tmp_path / f"{limit}")
        said += in_child(partial(commit_with_few_descriptors, root, limit)).said
        limit += STEP if said[-1] != "done" else 1

    assert len(said) > (5 if IS_TORTURE else 3)


def test_a_disk_that_fills_up_while_recording(small: Path) -> None:
    """The reason is named, what was staged before stays staged, and goes in once there is space."""
    store = Store.open(make_store(small / "store"))
    reserve = small / "reserve"  # a commit writes what continues another in a second form
    reserve.write_bytes(bytes(os.statvfs(small).f_bavail * os.statvfs(small).f_frsize * 5 // 8))
    wanted = [Op("add", f"a large {i}", "x" * 50_000) for i in range(100)]
    todo = list(wanted)
    assert "No space left on device" in (go_on(store, todo) or "")
    staged = wanted[: -len(todo)]
    assert sound_answers(store.root) == BASE
    filler = fill(small, 0)
    with pytest.raises(StoreIo, match="No space left on device"):
        store.commit()
    assert sound_answers(store.root) == BASE
    assert not temporaries(store.root)
    filler.unlink()
    reserve.unlink()
    store.commit()

    assert len(staged) > 5
    assert sound_answers(store.root) == after(BASE, staged)
    assert_tidy(store.root)


@pytest.mark.parametrize("free_pages", range(12))
def test_a_disk_with_hardly_any_space(small: Path, free_pages: int) -> None:
    """Wherever it runs out: all of it or nothing, and all of it once there is space."""
    store = Store.open(make_store(small / "store"))
    filler = fill(small, free_pages)
    todo = list(NEW)
    refusal = go_on(store, todo)
    if refusal is not None:
        assert "No space left on device" in refusal
        assert sound_answers(store.root) == BASE
        assert not temporaries(store.root)
        filler.unlink()
        assert go_on(store, todo) is None

    assert (free_pages > 0) or refusal
    assert sound_answers(store.root) == after(BASE, NEW)
    assert_tidy(store.root)


def test_an_index_that_no_reader_would_take_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store can get too large for its readers; the commit that would do it is refused."""
    store = Store.open(make_store(tmp_path / "store"))
    monkeypatch.setattr(trust, "MAX_INDEX_BYTES", (store.root / "INDEX.toml").stat().st_size + 1000)
    for i in range(20):
        store.add(fixture(f"a many {i}", "5"))
    with pytest.raises(LlmError):
        store.commit()

    assert sound_answers(store.root) == BASE


def everything(root: Path) -> dict[Path, tuple[int, ...]]:
    """All that is there and when it was changed."""
    stats = {path: path.lstat() for path in [root, *root.rglob("*")]}
    return {path: (s.st_ino, s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for path, s in stats.items()}


def read_all(root: Path) -> None:
    """Open, verify and replay, as a user does."""
    assert sound_answers(root) == BASE
    adapter = ReplayAdapter(root)
    for question, text in BASE.items():
        request = fixture(question, text).request
        assert request is not None
        assert adapter.sync.complete(request).text == text
    assert CliRunner().invoke(main, ["verify", "--store", str(root), "--strict"]).exit_code == 0
    Store.open(root).abandoned()


@pytest.mark.parametrize("kind", ["fresh", "written to", "cut short"])
def test_a_read_only_file_system(tmp_path: Path, kind: str) -> None:
    """Recording says so; verifying and replaying work, whatever state the last writer left it in."""
    prepared = make_store(tmp_path / "prepared", is_fresh=kind == "fresh")
    if kind == "cut short":
        in_child(partial(Run("", [NEW]), prepared, Killer(2, "after", frozenset(["replace"]))))
    with tmpfs(tmp_path / "disk", "4m") as disk:
        root = shutil.copytree(prepared, disk / "store")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        before = everything(disk)
        store = Store.open(root)
        with pytest.raises(StoreIo, match="Read-only file system"):
            store.add(fixture("a new", "5"))
        store.remove(*fixture("a one", "1").key)
        with pytest.raises(StoreIo, match="Read-only file system"):
            store.commit()
        with pytest.raises(StoreIo, match="Read-only file system"):
            Store.create(disk / "other")
        read_all(root)

        assert everything(disk) == before


@pytest.mark.parametrize("kind", ["fresh", "written to", "cut short"])
def test_reading_writes_nothing_where_it_could(tmp_path: Path, kind: str) -> None:
    """No call that could change something is even made; a lock is only asked for."""
    root = make_store(tmp_path / "store", is_fresh=kind == "fresh")
    if kind == "cut short":
        in_child(partial(Run("", [NEW]), root, Killer(2, "after", frozenset(["replace"]))))
    before = everything(root)
    counter = Counter()
    with hooked(counter):
        read_all(root)

    assert set(counter.changed) <= {"flock"}
    assert everything(root) == before
