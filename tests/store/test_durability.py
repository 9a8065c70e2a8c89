"""Nothing is built on what a loss of power can take."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from cortex_replay import Answer, Store, StoreIo
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.lock import LockedStore, lock_store
from cortex_replay.store.reindex import apply_reindex, plan_reindex
from cortex_replay.store.trust import Layout
from tests.builder import StoreBuilder, ask, fixture_of
from tests.store.durable_view import DurableView


def add(store: Store, question: str, text: str = "x", scope: str = "") -> str:
    return store.add(fixture_of(ask(question), Answer(text)), scope=scope)


@pytest.fixture(params=[False, True], ids=["single", "sharded"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Two answers, in one index or in shards."""
    builder = StoreBuilder(tmp_path / "store", is_sharded=request.param)
    builder.add("one", "1")
    builder.add("two", "2")
    builder.write()
    return Store.open(builder.root)


@pytest.fixture
def view(store: Store, monkeypatch: pytest.MonkeyPatch) -> DurableView:
    return DurableView(store.root, monkeypatch)


def test_what_a_commit_adds_replaces_and_removes(store: Store, view: DurableView) -> None:
    add(store, "three")
    store.add_exchange(
        Exchange.failure(store.key(ask("three")), 1, {"status": 500, "headers": {}, "body": "no"})
    )
    store.replace(fixture_of(ask("one"), Answer("uno")))
    store.remove(*store.key(ask("two")))
    store.commit()

    assert view.instants == ["index", "close"]
    assert view.unsafe == []


def test_a_folder_that_a_commit_makes(store: Store, view: DurableView) -> None:
    """It is the last that the commit touches, so that nothing else makes it durable by the way."""
    store.add(fixture_of(ask("q", model="zz"), Answer("a")))
    store.commit()

    assert (store.root / "fixtures/zz").is_dir()
    assert view.unsafe == []


def test_what_a_conversation_is_written_as(store: Store, view: DurableView) -> None:
    """Short files are made at the commit, of answers that are staged whole."""
    said = [{"role": "user", "content": "a long beginning " * 200}]
    for turn in range(3):
        store.add(fixture_of(ask([*said]), Answer(f"{turn}")))
        said += [{"role": "assistant", "content": f"{turn}"}, {"role": "user", "content": "and then?"}]
    store.commit()

    assert view.instants == ["index", "close"]
    assert view.unsafe == []


def test_files_that_are_adopted(store: Store, view: DurableView) -> None:
    """Whoever put them there has promised nothing."""
    other = StoreBuilder(store.root)
    path = other.add("three", "3")
    (store.root / path).write_bytes(other.files[path])
    source = DirectorySource(store.root)
    plan = plan_reindex(source)
    assert [row.path for row in plan.adopted] == [path]

    apply_reindex(source, plan)

    assert view.instants == ["index", "close"]
    assert view.unsafe == []


def test_an_index_that_was_lost(store: Store, view: DurableView, tmp_path: Path) -> None:
    """Nobody vouches for any file then."""
    shutil.rmtree(store.root / "index", ignore_errors=True)
    (store.root / "INDEX.toml").unlink()
    for path in store.root.rglob("*.json"):
        copy = shutil.copy(path, tmp_path)
        shutil.move(copy, path)
    source = DirectorySource(store.root)

    apply_reindex(source, plan_reindex(source), accept_changed=True)

    assert view.instants == ["index", "close"]
    assert view.unsafe == []


def test_a_recovery_builds_on_nothing_that_its_writer_did_not_make_durable(
    store: Store, view: DurableView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer died when its index was in place, and the folder was not synced yet."""
    store.remove(*store.key(ask("two")))
    with monkeypatch.context() as patch:
        patch.setattr(LockedStore, "finish", refuse)
        store.commit()
    view.forget_names("", ".cortex-replay")
    assert view.instants == ["index"]

    with lock_store(DirectorySource(store.root), Layout.NESTED) as locked:
        locked.recover()

    assert view.instants == ["index", "close"]
    assert view.unsafe == []
    assert len(Store.open(store.root)) == 1


def test_a_sync_that_failed_is_final(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may have dropped the pages, and calls the next sync of that file a success."""
    path = add(store, "three")
    synced = failing(monkeypatch)
    with pytest.raises(StoreIo, match="the disk is gone"):
        store.commit()
    monkeypatch.undo()

    store.commit()

    assert (store.root / path).stat().st_ino not in synced, "it is another file"
    assert len(Store.open(store.root)) == 3


def test_an_answer_that_the_disk_lost_is_not_committed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    add(store, "three")
    failing(monkeypatch)
    with pytest.raises(StoreIo, match="the disk is gone"):
        store.commit()
    monkeypatch.undo()
    [staged] = store.root.glob(".cortex-replay/staging/*/*.add")
    staged.write_bytes(bytes(staged.stat().st_size))

    with pytest.raises(StoreIo, match="the disk lost a staged answer; record it again"):
        store.commit()

    assert len(Store.open(store.root)) == 2


def refuse(*_: object) -> None:
    raise OSError(errno.EIO, "the disk is gone")


def failing(patch: pytest.MonkeyPatch) -> set[int]:
    """The next syncs fail; gives the files that they were asked for."""
    asked: set[int] = set()

    def fail(descriptor: int) -> None:
        asked.add(os.fstat(descriptor).st_ino)
        refuse()

    patch.setattr(os, "fsync", fail)
    return asked


def test_the_view_sees_what_is_not_durable(
    store: Store, view: DurableView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the calls, everything new is unsafe: this test can fail."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    path = add(store, "three")
    store.remove(*store.key(ask("two")))
    store.commit()

    assert f"index: {path}" in view.unsafe
    assert any(line.startswith("close: ") for line in view.unsafe)
