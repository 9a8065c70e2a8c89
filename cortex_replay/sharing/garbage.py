"""Objects that no index names any more: a plan, then its execution.

Nothing in a bucket says what is needed: git does. So whatever the index of a store names at any given commit
is kept, and what an index may look like does not matter: each digest that stands in an ``INDEX.toml``, or in
a shard beside one, keeps its object, in every store of the repository, old or new, merged or not. What is
younger than a grace period is kept, too, since a branch that names it may not be known here. Names that this
program does not give are left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cortex_replay.disk import Folder
from cortex_replay.errors import StoreIo
from cortex_replay.remote.bucket import Bucket, BucketError, Entry
from cortex_replay.sharing.run_rows import fetch_all
from cortex_replay.store.git.process import TooLarge
from cortex_replay.store.git.repository import Repository
from cortex_replay.store.paths import INDEX_NAME, escape
from cortex_replay.store.trust import MAX_INDEX_BYTES

__all__ = ["GarbagePlan", "bucket_time", "known_digests", "plan_garbage"]

_DIGEST: Final = re.compile(rb"[0-9a-f]{64}")
_OBJECT: Final = re.compile(r"b3/([0-9a-f]{2})/(\1[0-9a-f]{62})")
_RUN: Final = re.compile(r"runs/([0-9a-f]{32,64})/.+")
_CLOCK: Final = "clock"
_SHARDS: Final = "index/"
_EVERY_BRANCH: Final = "refs/heads/*:"


@dataclass(slots=True)
class GarbagePlan:
    """What would be deleted, and what is kept."""

    url: str
    commits: int
    """How many commits were looked at."""
    going: list[Entry] = field(default_factory=list)
    kept: int = 0
    """Objects that an index names."""
    young: int = 0
    """Objects that none names, but which are younger than the grace period."""
    unknown: int = 0
    """Names that are none of ours."""
    runs: list[str] = field(default_factory=list)
    """The folders of runs that go, since nothing in them is younger."""

    @property
    def going_bytes(self) -> int:
        return sum(entry.size for entry in self.going)

    def apply(self, bucket: Bucket) -> None:
        """Delete what goes.

        Raises:
            StoreIo: The bucket refuses; or this repository names nothing in it, so it may be another's.
        """
        if self.going and not self.kept:
            raise StoreIo(
                f"this repository names no object of {self.url}, so nothing was deleted; "
                "is it the bucket of another one?"
            )
        bucket.delete([entry.name for entry in self.going])


def plan_garbage(
    bucket: Bucket, named: set[str], commits: int, *, now: datetime, grace: timedelta
) -> GarbagePlan:
    """What of a bucket may go.

    Args:
        bucket: Where to look.
        named: The digests that indexes name.
        commits: Of how many commits these are, for a report.
        now: The present time; :func:`bucket_time` tells that of the bucket.
        grace: What is younger stays.
    """
    plan = GarbagePlan(bucket.url, commits)
    runs: dict[str, list[Entry]] = {}
    objects: list[tuple[str, Entry]] = []
    for entry in bucket.list(""):
        if match := _OBJECT.fullmatch(entry.name):
            objects.append((match[2], entry))
        elif match := _RUN.fullmatch(entry.name):
            runs.setdefault(match[1], []).append(entry)
        else:
            plan.unknown += 1
    # Clocks differ: what the bucket has written last is no older than it says.
    latest = max([now, *(entry.changed_at for _, entry in objects)])
    needed = set(named)
    for name, entries in sorted(runs.items()):
        if all(latest - entry.changed_at > grace for entry in entries):
            plan.runs.append(name)
            plan.going += entries
        else:  # what it has published, its collector will look for
            needed |= _digests_of_run(bucket, entries)
    for digest, entry in objects:
        if digest in needed:
            plan.kept += 1
        elif latest - entry.changed_at <= grace:
            plan.young += 1
        else:
            plan.going.append(entry)
    return plan


def _digests_of_run(bucket: Bucket, entries: Iterable[Entry]) -> set[str]:
    """What a run names, in batches of rows and in claims, whoever made them."""
    found: set[str] = set()
    for _, there in fetch_all(bucket, [entry.name for entry in entries]):
        if there is not None:
            found |= {digest.decode() for digest in _DIGEST.findall(there.data)}
    return found


def known_digests(root: Path, references: Sequence[str]) -> tuple[set[str], int]:
    """Every digest that an index names at one of these commits, or in the work tree; and how many commits
    that are.

    Args:
        root: A store of the repository.
        references: Branches, tags or commits; none for all that this clone knows.

    Raises:
        StoreIo: There is no repository, a reference is none, or this clone does not know all branches.
    """
    repository = Repository(root)
    commits = _named_commits(repository, references) if references else _all_commits(repository)
    blobs: set[str] = set()
    for commit in commits:
        listed = repository.run("ls-tree", "-r", "-z", commit)
        blobs |= set(_index_blobs(listed))
    staged = repository.run("ls-files", "--stage", "-z")
    blobs |= {head.split()[1] for head, path in _lines(staged) if _is_index(path)}
    found: set[str] = set()
    with repository.blobs() as reader:
        for name in sorted(blobs):
            data = reader.read(name, MAX_INDEX_BYTES)
            if data is None or isinstance(data, TooLarge):
                raise StoreIo(
                    f"git has an index here, {name}, but not its content, so what it names is not known; "
                    f"in a partial clone, run: git cat-file -e {name}"
                )
            found |= {digest.decode() for digest in _DIGEST.findall(data)}
    with Folder.at(repository.top) as top:
        for path in filter(_is_index, repository.files()):
            found |= _digests_in_file(top, path)
    return found, len(commits)


def _named_commits(repository: Repository, references: Sequence[str]) -> set[str]:
    return {repository.find_commit(reference) for reference in references}


def _all_commits(repository: Repository) -> set[str]:
    """What every ref names, those of other places and the stash as well, and ``HEAD``."""
    _refuse_partial_view(repository)
    tips = repository.run("rev-parse", "--all").decode().split()
    commits: set[str] = set()
    for name in ("HEAD", *dict.fromkeys(tips)):
        found = repository.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", accept=(0, 1))
        commits |= {found.decode().strip()} - {""}  # a tag may name something else, and HEAD nothing yet
    return commits


def _refuse_partial_view(repository: Repository) -> None:
    """Refuse where branches or tags may be unknown, as in the checkouts of many CI services.

    Raises:
        StoreIo: They may be; the message says what to do.
    """
    whole = "get them all (in GitHub Actions: fetch-depth: 0), or say with --ref what counts"
    if repository.run("rev-parse", "--is-shallow-repository").strip() == b"true":
        raise StoreIo(f"this clone is shallow, so it may lack branches, and what they name would go; {whole}")
    settings: dict[str, list[str]] = {}
    told = repository.run("config", "--get-regexp", "-z", r"^remote\..*\.(fetch|tagopt)$", accept=(0, 1))
    for line in filter(None, os.fsdecode(told).split("\0")):
        name, _, value = line.partition("\n")
        settings.setdefault(name, []).append(value)
    for name, values in settings.items():
        remote, _, setting = name.removeprefix("remote.").rpartition(".")
        lacks_branches = setting == "fetch" and not any(_EVERY_BRANCH in value for value in values)
        if lacks_branches or "--no-tags" in values:
            what = "branches" if lacks_branches else "tags"
            raise StoreIo(
                f"this clone does not fetch all {what} of {escape(remote)}, "
                f"and what they name would go; {whole}"
            )


def _index_blobs(listed: bytes) -> Iterator[str]:
    for head, path in _lines(listed):
        mode, kind, blob = head.split()
        if kind == "blob" and mode.startswith("100") and _is_index(path):
            yield blob


def _lines(listed: bytes) -> Iterator[tuple[str, str]]:
    for line in listed.decode(errors="surrogateescape").split("\0"):
        head, _, path = line.partition("\t")
        if path:
            yield head, path


def _is_index(path: str) -> bool:
    """Whether a file is the index of a store, or may be a shard of one."""
    folder, _, name = path.rpartition("/")
    return name == INDEX_NAME or (f"{folder}/".endswith(_SHARDS) and name.endswith(".toml"))


def _digests_in_file(top: Folder, path: str) -> set[str]:
    """What an index in the work tree names, committed or not."""
    folder, _, name = path.rpartition("/")
    try:
        with top.below(folder) as opened:
            data = opened.read(name, MAX_INDEX_BYTES)
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise StoreIo(f"{escape(path)} cannot be read: {error.strerror}") from None
    return {digest.decode() for digest in _DIGEST.findall(data)}


def bucket_time(bucket: Bucket) -> datetime:
    """What a bucket's own clock says, by an object that is put and deleted again."""
    name = f"{_CLOCK}/{os.urandom(16).hex()}"
    bucket.put_new(name, b"")
    try:
        times = [entry.changed_at for entry in bucket.list(_CLOCK) if entry.name == name]
        if not times:
            raise BucketError(f"{bucket.url} does not list what was just put, so nothing was deleted")
        return max(times)
    finally:
        bucket.delete([name])
