"""Files that rows name and that are not in the work tree: they are in a cache of the user's, or in a bucket.

Which bucket is a setting of the store. Nothing is asked, and no engine is loaded, before a file is missing.
What comes back has the hash of its row, or it is a finding that says where it was sought and why in vain. A
row whose hash is none names nothing: it would become a path in the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, TypeGuard

from cortex_replay.errors import Finding
from cortex_replay.hashing import are_digests, is_digest
from cortex_replay.progress import fetch_bar
from cortex_replay.remote import Problem, Remote, remote_for
from cortex_replay.remote.objects import BucketError
from cortex_replay.store.cached_files import read_cached
from cortex_replay.store.index.named_file import File, NamedFile
from cortex_replay.store.paths import escape

__all__ = ["Elsewhere", "is_missing"]

_NO_HASH: Final = Problem("the hash that it is to be found by is none", is_absent=True)
_MOST_NAMED: Final = 3
"""How many files an error about many names."""


def is_missing(read: bytes | Finding) -> TypeGuard[Finding]:
    """Whether a file is not there; anything else in its place is no reason to look elsewhere."""
    return isinstance(read, Finding) and read.code == "missing"


class Elsewhere:
    """The remote of one store. False if it has none."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._is_vain = False
        """Whether nothing that is fetched stays: there is no cache that can be written."""

    @cached_property
    def remote(self) -> Remote | None:
        """The remote; it is looked up once, when it is first needed."""
        return remote_for(self._root)

    def __bool__(self) -> bool:
        return self.remote is not None

    @property
    def _opened(self) -> Remote:
        if self.remote is None:
            raise LookupError("the store has no remote")  # who asks has looked
        return self.remote

    def prepare(self, files: Iterable[NamedFile]) -> None:
        """Have all that it takes to fetch files, if one of them is not in the cache."""
        if self._opened.uncached(_digests(files)):
            self._opened.prepare()

    def get(self, file: NamedFile) -> bytes | Finding:
        """A file that is not here; a finding, if it cannot be had."""
        return _judge(file, self._opened.get(file.blake3) if is_digest(file.blake3) else _NO_HASH)

    def get_cached(self, file: NamedFile) -> bytes | None:
        """A file that is not here, if it is in the cache."""
        return self._opened.cached(file.blake3) if is_digest(file.blake3) else None

    def is_cached(self, file: NamedFile) -> bool:
        """Whether a file that is not here is in the cache; its bytes are not looked at."""
        return is_digest(file.blake3) and not self._opened.uncached([file.blake3])

    def get_many(self, files: Iterable[File]) -> Iterator[tuple[File, bytes | Finding]]:
        """Many files that are not here, fetched together, in any order."""
        yield from ((file, _judge(file, found)) for file, found in self._get_many(files))

    def get_all(self, files: Iterable[File]) -> Iterator[tuple[File, bytes | Finding]]:
        """As :meth:`get_many`, where all are needed: a bucket that cannot be asked is one error at the end,
        and not a finding for each file.

        Raises:
            BucketError: It cannot be asked.
        """
        lost: list[tuple[File, Problem]] = []
        for file, found in self._get_many(files):
            if isinstance(found, Problem) and found.is_outage:
                lost.append((file, found))
            else:
                yield file, _judge(file, found)
        if lost:
            raise _outage([file for file, _ in lost], lost[-1][1])

    def _get_many(self, files: Iterable[File]) -> Iterator[tuple[File, bytes | Problem]]:
        by_digest: dict[str, list[File]] = {}
        for file in files:
            if is_digest(file.blake3):
                by_digest.setdefault(file.blake3, []).append(file)
            else:
                yield file, _NO_HASH
        with fetch_bar() as progress:
            for digest, found in self._opened.fetch(list(by_digest), progress):
                yield from ((file, found) for file in by_digest[digest])

    def complete(
        self, read: Iterable[tuple[File, bytes | Finding]]
    ) -> Iterator[tuple[File, bytes | Finding]]:
        """What was read here; what is missing here is fetched, together, at the end."""
        missing: list[File] = []
        for found in read:
            file, data = found
            if is_missing(data) and self:
                missing.append(file)
            else:
                yield found
        if missing:
            yield from self.get_many(missing)

    def read_many(self, files: Sequence[File]) -> Iterator[tuple[File, bytes | Finding]]:
        """As :meth:`get_all`, but what is in the cache has not been hashed yet: who finds other bytes asks
        for that file again, by :meth:`get`.

        Raises:
            BucketError: The bucket cannot be asked.
        """
        if not are_digests([file.blake3 for file in files]):
            yield from self.get_all(files)
            return
        lacking: list[File] = []
        for file, data in zip(files, read_cached(self._opened.cache, files), strict=True):
            if data is None:
                lacking.append(file)
            else:
                yield file, data
        if lacking:
            yield from self.get_all(lacking)

    def fetch(self, files: Iterable[NamedFile]) -> None:
        """Have files in the cache, so that each can be read without another look at the bucket. What cannot
        be had is found out when it is read."""
        if self._is_vain:
            return
        if lacking := self._opened.uncached(_digests(files)):
            with fetch_bar() as progress:
                fetched = self._opened.fetch(lacking, progress)
                had = {digest for digest, found in fetched if isinstance(found, bytes)}
            self._is_vain = bool(had) and self._opened.uncached(had) == had

    def lacking(self, files: Iterable[NamedFile]) -> set[str]:
        """The hashes of those files that are neither in the cache nor in the bucket.

        Raises:
            StoreIo: The bucket cannot be asked.
        """
        files = list(files)
        wanted = self._opened.uncached(_digests(files))
        has = self._opened.has_many(wanted) if wanted else set()
        return wanted - has | {file.blake3 for file in files} - _digests(files)


def _digests(files: Iterable[NamedFile]) -> set[str]:
    return {file.blake3 for file in files if is_digest(file.blake3)}


def _judge(file: NamedFile, found: bytes | Problem) -> bytes | Finding:
    if isinstance(found, bytes):
        return found
    code = "mismatch" if found.is_wrong else "missing"
    return Finding(code, escape(file.path), f"is not in the work tree, and {found.reason}", found.hint)


def _outage(files: Sequence[NamedFile], problem: Problem) -> BucketError:
    """One error for all files that a bucket was not there for."""
    named = ", ".join(escape(path) for path in sorted(file.path for file in files)[:_MOST_NAMED])
    more = f" and {len(files) - _MOST_NAMED:,} more" if len(files) > _MOST_NAMED else ""
    count = f"{len(files):,} files are" if len(files) > 1 else "a file is"
    hint = f"; {problem.hint}" if problem.hint else ""
    return BucketError(f"{count} not in the work tree, and {problem.reason} (for {named}{more}){hint}")
