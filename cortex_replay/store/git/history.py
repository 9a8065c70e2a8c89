"""What git still has of the files of a store: the two ends of a merge, and what was there before.

A merge can lose a file that a recording needs, or leave a version that no branch has. Its bytes are still in
git, and the digest that the index lists says which ones they are.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cortex_replay.errors import StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.store.git.process import Blobs
from cortex_replay.store.git.repository import Repository
from cortex_replay.store.index.index import ShardRow
from cortex_replay.store.paths import INDEX_NAME, UNPRINTABLE, path_problem
from cortex_replay.store.trust import MAX_FIXTURE_BYTES, MAX_INDEX_BYTES

__all__ = ["History", "open_history"]

_ENDS: Final = (
    "HEAD",
    "HEAD^1",
    "HEAD^2",
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REBASE_HEAD",
    "REVERT_HEAD",
    "ORIG_HEAD",
    "FETCH_HEAD",
)
"""Commits that a merge, a rebase or a cherry-pick brings together."""
_STAGES: Final = (":0:", ":2:", ":3:")
_MERGED: Final = re.compile(r"GITHEAD_([0-9a-f]{40,64})")
"""How ``git merge`` tells its drivers what it merges; no reference may name it yet."""
_MOST_COMMITS: Final = 10_000
"""How far back a file is looked for, among the commits that changed it."""
_MOST_VERSIONS: Final = 1000


class History:
    """What git has of the files of one store; nothing, where there is no git."""

    def __init__(self, repository: Repository | None, blobs: Blobs | None) -> None:
        self._repository = repository
        self._blobs = blobs
        self._ends = [*_merged_commits(), *_ENDS]
        self._past: dict[str, list[str]] = {}

    def stages(self, path: str) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Base, ours and theirs of a file in conflict; those that are there."""
        base, ours, theirs = (self._read_at(f":{stage}:", path) for stage in (1, 2, 3))
        return base, ours, theirs

    def versions(self, path: str) -> Iterator[bytes]:
        """The contents that git has for a file: staged, at the ends of a merge, then the latest first."""
        yield from self.recent(path)
        yield from self._far(path)

    def find(self, path: str, digest: str) -> bytes | None:
        """The version of a file that has a digest."""
        return self.find_many({path: {digest}}).get((path, digest))

    def find_many(self, wanted: Mapping[str, Collection[str]]) -> dict[tuple[str, str], bytes]:
        """The versions of files that have these digests, as far as git has them."""
        found: dict[tuple[str, str], bytes] = {}
        lacking: dict[str, set[str]] = {}
        for path, digests in wanted.items():
            if rest := _collect(self.recent(path), path, digests, found):
                lacking[path] = rest
        self._look_back(lacking)
        for path, digests in lacking.items():
            _collect(self._far(path), path, digests, found)
        return found

    def find_shards(self, shards: Iterable[ShardRow]) -> dict[ShardRow, bytes]:
        """The bytes of shards, as far as git has them."""
        by_path: defaultdict[str, dict[str, ShardRow]] = defaultdict(dict)
        for shard in shards:
            by_path[shard.path][shard.blake3] = shard
        return {by_path[path][digest]: data for (path, digest), data in self.find_many(by_path).items()}

    def recent(self, path: str) -> Iterator[bytes]:
        """The contents of a file that are staged, or at the ends of a merge."""
        for place in (*_STAGES, *(f"{end}:" for end in self._ends)):
            data = self._read_at(place, path)
            if data is not None:
                yield data

    def _far(self, path: str) -> Iterator[bytes]:
        self._look_back([path])
        for blob in self._past.get(path, ())[:_MOST_VERSIONS]:
            data = self._read(blob, path)
            if data is not None:
                yield data

    def _look_back(self, paths: Iterable[str]) -> None:
        """Let git list the versions of files in all commits that it knows, by a reflog alone too."""
        asked = [path for path in paths if path not in self._past and path_problem(path) is None]
        if self._repository is None or not asked:
            return
        self._past.update({path: [] for path in asked})
        prefix = self._repository.prefix
        given = "".join(f"{line}\n" for line in ("--", *(f"{prefix}{path}" for path in asked)))
        listed = self._repository.run(
            "rev-list",
            *("--objects", "--full-history", "--missing=allow-any", f"--max-count={_MOST_COMMITS}"),
            *("--all", "--reflog", *self._commits(), "--stdin"),
            given=given.encode(errors="surrogateescape"),
        )
        for line in listed.splitlines():
            blob, _, name = line.partition(b" ")
            versions = self._past.get(os.fsdecode(name).removeprefix(prefix))
            if versions is not None:
                versions.append(blob.decode())

    def _commits(self) -> list[str]:
        """Those of the ends that no reference names."""
        if self._repository is None:
            return []
        names = [*_merged_commits(), "FETCH_HEAD"]
        known = (
            self._repository.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", accept=(0, 1))
            for name in names
        )
        return [commit.decode().strip() for commit in known if commit.strip()]

    def _read_at(self, place: str, path: str) -> bytes | None:
        return self._read(f"{place}{self._repository.prefix if self._repository else ''}{path}", path)

    def _read(self, name: str, path: str) -> bytes | None:
        if self._blobs is None or path_problem(path) is not None:  # a line feed would end the question
            return None
        limit = MAX_INDEX_BYTES if path == INDEX_NAME else MAX_FIXTURE_BYTES
        data = self._blobs.read(name, limit)
        return data if isinstance(data, bytes) else None


def _collect(
    versions: Iterator[bytes], path: str, digests: Collection[str], found: dict[tuple[str, str], bytes]
) -> set[str]:
    """Note the versions with these digests; the digests that none has."""
    lacking = set(digests)
    while lacking and (data := next(versions, None)) is not None:
        digest = blake3_hex(data)
        if digest in lacking:
            found[path, digest] = data
            lacking.discard(digest)
    return lacking


def _merged_commits() -> list[str]:
    return [found[1] for name in os.environ if (found := _MERGED.fullmatch(name))]


@contextmanager
def open_history(root: Path) -> Iterator[History]:
    """What git has of the store at ``root``."""
    try:
        repository = Repository(root)
    except StoreIo:
        yield History(None, None)
        return
    if UNPRINTABLE.search(repository.prefix):  # a line feed would be the end of a question to git
        yield History(None, None)
        return
    with repository.blobs() as blobs:
        yield History(repository, blobs)
