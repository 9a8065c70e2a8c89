"""A commit that was cut short, and an index that somebody put in place meanwhile."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cortex_replay import Answer, Store, StoreIo
from cortex_replay.store.index.shards import IndexFiles
from cortex_replay.store.lock import LockedStore
from cortex_replay.store.writer import StoreWriter
from tests.builder import StoreBuilder, ask, fixture_of
from tests.store.conversations import turns


@pytest.fixture(params=[False, True], ids=["single", "sharded"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    builder = StoreBuilder(tmp_path / "store", is_sharded=request.param)
    for question in ("one", "two"):
        builder.add(question, question)
    return builder.write()


def snapshot(root: Path) -> dict[str, bytes]:
    """The index and its shards."""
    files = [root / "INDEX.toml", *root.glob("index/*.toml")]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def check_out(root: Path, index: dict[str, bytes]) -> None:
    """As ``git checkout`` puts another version of the index in place."""
    for path in root.glob("index/*.toml"):
        path.unlink()
    for name, data in index.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(data)


def cut_short(root: Path, change: Callable[[Store], object], step: str) -> None:
    """A writer that dies at this step of its commit."""
    if (child := os.fork()) == 0:
        for owner in (LockedStore, StoreWriter):
            if hasattr(owner, step):
                setattr(owner, step, lambda *_, **__: os._exit(9))
        try:
            store = Store.open(root)
            change(store)
            store.commit()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def answers(root: Path) -> list[str]:
    store = Store.open(root)
    return sorted(store.get(*stored[:2]).answers[0].text for stored in store.list())


def write_something(root: Path) -> None:
    store = Store.open(root)
    store.add(fixture_of(ask("last"), Answer("last")))
    store.commit()


def remove(question: str) -> Callable[[Store], object]:
    return lambda store: store.remove(*store.key(ask(question)))


def add(question: str) -> Callable[[Store], object]:
    return lambda store: store.add(fixture_of(ask(question), Answer(question)))


def test_a_finished_commit_removes_what_it_dropped(root: Path) -> None:
    cut_short(root, remove("two"), "finish")
    assert len(list((root / "fixtures").rglob("*.json"))) == 2

    write_something(root)

    assert answers(root) == ["last", "one"]
    assert len(list((root / "fixtures").rglob("*.json"))) == 2


def test_finishing_deletes_nothing_that_the_present_index_names(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody checks out the index of before, between the commit and its end."""
    before = snapshot(root)
    put = LockedStore.put_index

    def put_and_lose(store: LockedStore, files: IndexFiles) -> None:
        put(store, files)
        check_out(root, before)

    monkeypatch.setattr(LockedStore, "put_index", put_and_lose)
    store = Store.open(root)
    remove("two")(store)
    store.commit()
    if (root / "index").exists():  # the shards of the commit are in the way, not the files
        check_out(root, before)

    assert answers(root) == ["one", "two"]


def test_another_index_came_while_a_removal_was_cut_short(root: Path) -> None:
    """Files that it names stay, though the commit was to remove them."""
    before = snapshot(root)
    cut_short(root, remove("two"), "finish")
    check_out(root, before)

    write_something(root)

    assert answers(root) == ["last", "one", "two"]


def test_another_index_came_that_names_what_a_commit_was_adding(root: Path, tmp_path: Path) -> None:
    """Undoing the commit leaves the file where it is: it is listed, whoever listed it."""
    shutil.copytree(root, other := tmp_path / "branch")
    store = Store.open(other)
    for question in ("three", "four"):
        add(question)(store)
    store.commit()

    cut_short(root, add("three"), "put_index")
    check_out(root, snapshot(other))
    shutil.copytree(other / "fixtures", root / "fixtures", dirs_exist_ok=True)
    write_something(root)

    assert answers(root) == ["four", "last", "one", "three", "two"]
    assert Store.open(root).abandoned().answers == 0


def test_what_a_commit_was_adding_goes_back_to_staging(root: Path) -> None:
    cut_short(root, add("three"), "put_index")

    write_something(root)

    assert answers(root) == ["last", "one", "two"]
    heir = Store.open(root)
    assert heir.abandoned().answers == 1
    heir.adopt_abandoned()
    heir.commit()
    assert answers(root) == ["last", "one", "three", "two"]


def test_answers_that_were_written_in_another_form_are_not_adopted_again(root: Path) -> None:
    """The whole ones wait in staging until the short ones are committed, and go with that commit."""

    def talk(store: Store) -> None:
        for turn in turns(3, system="You know a lot. " * 200):
            store.add(turn)

    cut_short(root, talk, "finish")
    assert list(root.glob(".cortex-replay/staging/*/*.add"))

    write_something(root)

    assert Store.open(root).abandoned().answers == 0
    assert len(Store.open(root)) == 6


def test_a_commit_that_fails_behind_its_index_is_taken_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index was in its place, and the disk refused to make that durable."""
    before = snapshot(root)
    put = LockedStore.put_index

    def put_and_fail(store: LockedStore, files: IndexFiles) -> None:
        put(store, files)
        raise OSError(errno.EIO, "the disk is gone")

    store = Store.open(root)
    add("three")(store)
    with monkeypatch.context() as patch:
        patch.setattr(LockedStore, "put_index", put_and_fail)
        with pytest.raises(StoreIo, match="the disk is gone"):
            store.commit()

    assert (root / "INDEX.toml").read_bytes() == before["INDEX.toml"]
    assert answers(root) == ["one", "two"]
    store.commit()
    assert answers(root) == ["one", "three", "two"]
