"""Objects go only if no index names them, anywhere, and they are old."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from cortex_replay.errors import StoreIo
from cortex_replay.remote.bucket import Bucket
from cortex_replay.remote.objects import Entry
from cortex_replay.sharing.garbage import GarbagePlan, bucket_time, known_digests, plan_garbage
from cortex_replay.sharing.push import plan_push
from cortex_replay.sharing.shared_store import SharedStore
from tests.sharing.team import Team

IDENTITY = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main"]
NOW = datetime.now(UTC)
GRACE = timedelta(days=14)


def git(team: Team, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *IDENTITY, *arguments], cwd=team.project, capture_output=True, text=True, check=True
    )
    return done.stdout


def commit(team: Team, text: str) -> None:
    git(team, "add", "-A")
    git(team, "commit", "-q", "-m", text)


def make_old(team: Team) -> None:
    long_ago = (NOW - timedelta(days=30)).timestamp()
    for path in team.bucket.rglob("*"):
        os.utime(path, (long_ago, long_ago))


def plan(team: Team, *references: str, now: datetime = NOW) -> GarbagePlan:
    named, commits = known_digests(team.store, references)
    return plan_garbage(Bucket.open(f"file://{team.bucket}"), named, commits, now=now, grace=GRACE)


@pytest.fixture(scope="module")
def first_history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """Recordings that a tag, a branch, HEAD, the staging area and the work tree name, one each."""
    working = b""
    with pytest.MonkeyPatch.context() as patch:
        team = Team.make(tmp_path_factory.mktemp("history"), patch)
        git(team, "init", "-q")
        for step in ("tag", "branch", "head", "staged", "working", "unnamed"):
            index = team.store / "INDEX.toml"
            if index.exists():
                index.unlink()
                team.lose_files()
            team.record(f"Of the {step}?")
            plan_push(SharedStore.open(team.store)).apply()
            if step in ("tag", "branch", "head", "staged"):
                git(team, "add", "-A")
            if step in ("tag", "branch", "head"):
                git(team, "commit", "-q", "-m", step)
            if step == "tag":
                git(team, "tag", "-a", "v1", "-m", "v1")
            elif step == "branch":
                git(team, "update-ref", "refs/remotes/origin/far", "HEAD")
            elif step == "working":
                working = index.read_bytes()
        index.write_bytes(working)
        yield team


@pytest.fixture
def history(first_history: Team, team: Team) -> Team:
    for name in ("project", "bucket"):
        shutil.copytree(first_history.place / name, team.place / name, dirs_exist_ok=True)
    team.configure()
    make_old(team)
    return team


def test_what_any_index_names_stays_and_the_rest_goes(history: Team) -> None:
    found = plan(history)

    assert (found.kept, found.young, len(found.going)) == (5, 0, 1)
    assert len(history.objects()) == 6, "a plan deletes nothing"
    found.apply(Bucket.open(f"file://{history.bucket}"))
    assert len(history.objects()) == 5
    assert all(b"unnamed" not in path.read_bytes() for path in history.objects())


def test_named_refs_are_all_that_counts_besides_the_work_tree(history: Team) -> None:
    found = plan(history, "v1")

    assert found.kept == 3, "the tag, the staging area and the work tree"
    assert found.commits == 1
    with pytest.raises(StoreIo, match="no commit nothing"):
        plan(history, "nothing")
    with pytest.raises(StoreIo, match="no commit"):
        plan(history, "--all")


def test_a_bucket_of_another_repository_is_left_alone(history: Team) -> None:
    found = plan_garbage(Bucket.open(f"file://{history.bucket}"), set(), 1, now=NOW, grace=GRACE)

    with pytest.raises(StoreIo, match="bucket of another"):
        found.apply(Bucket.open(f"file://{history.bucket}"))
    assert len(history.objects()) == 6


def test_what_is_young_stays(history: Team) -> None:
    assert len(plan(history, now=NOW - timedelta(days=20)).going) == 0
    young = next(path for path in history.objects() if b"unnamed" in path.read_bytes())
    young.touch()

    found = plan(history)

    assert (found.young, found.going) == (1, [])


def test_a_clock_that_is_late_deletes_no_more(history: Team) -> None:
    """Ages are told by the bucket's newest object where that is later than our clock."""
    newest = NOW + timedelta(days=400)
    os.utime(history.objects()[0], (newest.timestamp(), newest.timestamp()))

    assert len(plan(history, now=NOW).going) <= 1


def test_the_bucket_tells_its_time_and_keeps_no_trace_of_it(team: Team) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)

    assert bucket_time(Bucket.open(f"file://{team.bucket}")) > before
    assert not [path for path in team.bucket.rglob("*") if "clock/" in path.as_posix() and path.is_file()]


def test_names_that_are_none_of_ours_stay(history: Team) -> None:
    for name in ("notes.txt", "b3/aa/bb", "b3/00/" + "f" * 64, "runs/x"):
        path = history.bucket / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"mine")
    make_old(history)

    found = plan(history)

    assert len(found.going) == 1
    assert found.unknown >= 4


@pytest.mark.parametrize("kind", ["rows", "claims"])
def test_what_a_living_run_has_published_stays_and_an_old_run_goes(history: Team, kind: str) -> None:
    """It stands in batches, and in the claims of those who asked."""
    unnamed = next(path for path in history.objects() if b"unnamed" in path.read_bytes())
    living, dead = history.bucket / f"runs/{'a' * 64}/{kind}/1", history.bucket / f"runs/{'b' * 64}/{kind}/1"
    for path in (living, dead):
        path.parent.mkdir(parents=True)
        path.write_text(f'{{"blake3": "{unnamed.name}"}}')
    make_old(history)

    assert len(plan(history).going) == 3
    living.touch()
    found = plan(history)
    assert [entry.name for entry in found.going] == [f"runs/{'b' * 64}/{kind}/1"]


def test_the_stash_counts(history: Team) -> None:
    """You come back to it, and what it names was pushed long ago."""
    unnamed = next(path for path in history.objects() if b"unnamed" in path.read_bytes())
    index = history.store / "INDEX.toml"
    working = index.read_bytes()
    index.write_text(f'[[fixture]]\npath = "fixtures/a.json"\nblake3 = "{unnamed.name}"\n')
    commit(history, "on no branch")
    loose = git(history, "rev-parse", "HEAD").strip()
    git(history, "reset", "-q", "--hard", "HEAD~1")
    index.write_bytes(working)
    assert unnamed.name in str(plan(history).going)

    git(history, "update-ref", "refs/stash", loose)
    assert unnamed.name not in str(plan(history).going)


def test_a_bucket_that_does_not_list_what_was_put_is_not_asked_for_its_time(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bucket, "list", lambda self, prefix: iter(()))

    with pytest.raises(StoreIo, match="does not list what was just put"):
        bucket_time(Bucket.open(f"file://{team.bucket}"))


def test_shards_and_other_stores_of_the_repository_count(history: Team) -> None:
    unnamed = next(path for path in history.objects() if b"unnamed" in path.read_bytes())
    shard = history.project / "elsewhere/index/3f.toml"
    shard.parent.mkdir(parents=True)
    shard.write_text(f'[[fixture]]\npath = "fixtures/a.json"\nblake3 = "{unnamed.name}"\n')

    assert plan(history).going == []
    commit(history, "another store, with shards")
    shard.unlink()
    assert unnamed.name not in str(plan(history).going)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("remote.origin.fetch", "+refs/heads/main:refs/remotes/origin/main"),
        ("remote.origin.tagOpt", "--no-tags"),
    ],
)
def test_a_clone_that_does_not_know_all_branches_is_refused(history: Team, setting: str, value: str) -> None:
    git(history, "config", setting, value)

    with pytest.raises(StoreIo, match="--ref"):
        plan(history)
    assert plan(history, "HEAD").kept


def test_a_shallow_clone_is_refused(history: Team, tmp_path: Path) -> None:
    (history.project / ".git/shallow").write_text(git(history, "rev-parse", "HEAD"))

    with pytest.raises(StoreIo, match="shallow"):
        plan(history)


class FakeBucket:
    """Objects with the times that a test gives them; nothing is in them."""

    url = "a bucket"

    def __init__(self, ages: dict[str, timedelta]) -> None:
        self.entries = [Entry(name, 1, NOW - age) for name, age in ages.items()]

    def list(self, prefix: str) -> list[Entry]:
        return self.entries


def going(ages: dict[str, timedelta], patch: pytest.MonkeyPatch) -> list[str]:
    patch.setattr("cortex_replay.sharing.garbage.fetch_all", lambda bucket, names: [])
    bucket = cast("Bucket", FakeBucket(ages))
    found = plan_garbage(bucket, set(), 1, now=NOW, grace=timedelta(days=1))
    return [entry.name for entry in found.going]


def test_grace_is_over_only_behind_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    name, day = f"b3/aa/{'a' * 64}", timedelta(days=1)

    assert going({name: day}, monkeypatch) == []
    assert going({name: day + timedelta(microseconds=1)}, monkeypatch) == [name]


def test_a_run_goes_when_all_of_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    old, young = (f"runs/{'a' * 64}/rows/{number}" for number in (1, 2))
    ages = {old: timedelta(days=9), young: timedelta(hours=1)}

    assert going(ages, monkeypatch) == []
    assert going(ages | {young: timedelta(days=2)}, monkeypatch) == [old, young]
