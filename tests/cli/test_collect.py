"""``cortex-replay collect``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortex_replay import Fixture, Store
from cortex_replay.remote.cache import object_name
from tests.builder import ask
from tests.cli.commands import run
from tests.engine.counting import DIE, texts
from tests.fleets import RUN, MemoryBucket, enter_fleet
from tests.sharing.test_collect import Machine


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryBucket:
    bucket = enter_fleet(monkeypatch)
    monkeypatch.delenv("CORTEX_REPLAY_RUN")
    return bucket


def record(name: str, root: Path, bucket: MemoryBucket, answer: str = "Four.", *, ends: bool = True) -> None:
    """Let a worker record one answer for all, and one of its own."""
    machine = Machine(name, root / name, bucket)
    machine.record(DIE, answer)
    machine.record(ask(f"Only {name}?"), "Yes.")
    (machine.end if ends else machine.publisher.flush)()


def test_what_workers_recorded_is_added(
    tmp_path: Path, bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name of the run, as an argument or in the environment; once."""
    record("one", tmp_path, bucket)
    record("two", tmp_path, bucket)
    store = tmp_path / "all"

    plan = run("collect", RUN, "--store", store, "--dry-run")
    assert plan.exit_code == 0, plan.output
    assert plan.stdout.count("add   fixtures/") == 3
    assert "4 answers of 2 workers" not in plan.stderr  # one of them twice
    assert "3 answers of 2 workers from s3://team/agents: 3 files would be new" in plan.stderr
    assert not store.exists()

    done = run("collect", RUN, "--store", store)
    assert (done.exit_code, done.stdout) == (0, plan.stdout)
    assert len(Store.open(store)) == 3
    assert RUN not in done.output

    monkeypatch.setenv("CORTEX_REPLAY_RUN", RUN)
    again = run("collect", "--store", store, "--json", "--delete")
    assert json.loads(again.stdout) == {
        "dry_run": False,
        "workers": 2,
        "unfinished_workers": 0,
        "answers": 3,
        "added": [],
        "removed": [],
        "conflicts": [],
        "findings": [],
        "strangers": [],
        "withdrawn": 0,
        "deleted": True,
    }
    assert not list(bucket.list("runs/"))
    assert bucket.get(object_name(Store.open(store).list()[0].blake3)) is not None, (
        "objects are for push and gc"
    )


def test_a_conflict_is_named_and_nothing_is_deleted(tmp_path: Path, bucket: MemoryBucket) -> None:
    record("one", tmp_path, bucket, "Four.")
    record("two", tmp_path, bucket, "Two.")
    done = run("collect", RUN, "--store", tmp_path / "all", "--delete")

    assert done.exit_code == 4
    assert "conflict  " in done.stdout
    assert " is taken, not " in done.stdout
    assert "the run stays in the bucket" in done.stderr
    assert bucket.names("rows/")
    said = json.loads(run("collect", RUN, "--store", tmp_path / "all", "--json").stdout)
    (conflict,) = said["conflicts"]
    key = Store.open(tmp_path / "all").key(DIE)
    assert (conflict["model"], conflict["prompt_hash"], conflict["scope"]) == (*key, "")
    assert len({conflict["taken"], *conflict["others"]}) == 2


def test_the_store_keeps_what_it_has(tmp_path: Path, bucket: MemoryBucket) -> None:
    store = Store.create(tmp_path / "all")
    store.add(Fixture.of(DIE, "Old."))
    store.commit()
    record("one", tmp_path, bucket)
    done = run("collect", RUN, "--store", tmp_path / "all")

    assert done.exit_code == 4
    assert "the store has another answer than" in done.stdout
    assert texts(tmp_path / "all") == ["Old."]


def test_workers_that_still_run_are_told_of(tmp_path: Path, bucket: MemoryBucket) -> None:
    record("one", tmp_path, bucket)
    record("two", tmp_path, bucket, ends=False)
    done = run("collect", RUN, "--store", tmp_path / "all", "--delete")

    assert done.exit_code == 0
    assert "1 worker has not ended: it still runs, or died" in done.stderr
    assert len(Store.open(tmp_path / "all")) == 3
    assert bucket.names("rows/")


def test_what_the_bucket_has_lost_is_named(tmp_path: Path, bucket: MemoryBucket) -> None:
    record("one", tmp_path, bucket)
    lost = next(entry.name for entry in bucket.list("b3/"))
    bucket.delete([lost])
    done = run("collect", RUN, "--store", tmp_path / "all")

    assert done.exit_code == 5
    assert f"{lost}: is not in the bucket" in done.stdout
    assert "[missing]" in done.stdout
    assert len(Store.open(tmp_path / "all")) == 1


def test_strangers_are_told_of(tmp_path: Path, bucket: MemoryBucket) -> None:
    record("one", tmp_path, bucket)
    name = bucket.names("rows/")[0].replace("one", "mallory")
    bucket.put_new(name, b"0" * 64 + b'\n{"rows": []}')
    done = run("collect", RUN, "--store", tmp_path / "all")

    assert done.exit_code == 0
    assert "1 object in the run's folder that no worker of it made" in done.stderr


def test_there_is_nothing_to_collect(
    tmp_path: Path, bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run of that name, no name, no remote; and no store is made for it."""
    wrong = run("collect", "the name of another run", "--store", tmp_path / "all")
    assert wrong.exit_code == 1
    assert "no such run" in wrong.stderr
    unnamed = run("collect", "--store", tmp_path / "all")
    assert unnamed.exit_code == 2
    assert "CORTEX_REPLAY_RUN" in unnamed.stderr
    bucket.is_gone.append(True)
    gone = run("collect", RUN, "--store", tmp_path / "all")
    assert gone.exit_code == 1
    assert "cannot be asked" in gone.stderr
    monkeypatch.delenv("CORTEX_REPLAY_REMOTE")
    bare = run("collect", RUN, "--store", tmp_path / "all")
    assert bare.exit_code == 1
    assert "[tool.cortex-replay.remote]" in bare.stderr
    assert not (tmp_path / "all").exists()
