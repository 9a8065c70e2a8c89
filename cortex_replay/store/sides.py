"""Two sides of a store, and what changed from one to the other: commits, and the working tree."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

from cortex_replay.disk import Closing
from cortex_replay.errors import Finding
from cortex_replay.store.check import read_listed
from cortex_replay.store.git.repository import StoreAtCommit
from cortex_replay.store.index.index import Index, PartRow, Row
from cortex_replay.store.index.named_file import NamedFile, one_per_file
from cortex_replay.store.merge.merge import compare_indexes
from cortex_replay.store.paths import path_problem
from cortex_replay.store.requests.links import Links
from cortex_replay.store.review import Contents, Review, read_kept, review_changes
from cortex_replay.store.source import Source
from cortex_replay.store.trust import MAX_FIXTURE_BYTES, Complete

__all__ = ["CommitSide", "NoSide", "Side", "SourceSide", "review_sides"]


class Side(Protocol):
    """One state of a store."""

    @property
    def index(self) -> Index: ...

    def contents(self, rows: Collection[Row]) -> Contents:
        """The files of some rows; what cannot be read is left out, or there is a finding in its place."""

    @property
    def complete(self) -> Complete | None:
        """How a request is put together that does not stand in its file whole; ``None`` if there is none."""


class CommitSide(Closing):
    """A store in a commit; to be closed.

    Raises:
        StoreIo: There is no such commit, no repository, or what the commit has is no index.
    """

    def __init__(self, root: Path, reference: str) -> None:
        self._then = StoreAtCommit(root, reference)
        self.index = self._then.index()
        """Empty if the store was not there."""

    def contents(self, rows: Collection[Row]) -> Contents:
        return self._then.read_many(one_per_file(rows))

    @property
    def complete(self) -> Complete:
        return Links.of(self.index, self._then.read).complete

    def close(self) -> None:
        self._then.close()


class NoSide:
    """A store that is not there."""

    def __init__(self) -> None:
        self.index = Index()

    def contents(self, rows: Collection[Row]) -> Contents:  # noqa: ARG002 - as every side has it
        return ()

    @property
    def complete(self) -> None:
        return None


class SourceSide:
    """A store in the working tree, or what git has staged of it."""

    def __init__(self, index: Index, source: Source) -> None:
        """Take what it has.

        Args:
            index: As it was checked: what stands in the working tree counts only where this vouches for it.
            source: Where the files are.
        """
        self.index = index
        self._source = source

    def contents(self, rows: Collection[Row]) -> Iterator[tuple[str, bytes | Finding]]:
        named: list[NamedFile] = [row for row in one_per_file(rows) if path_problem(row.path) is None]
        return ((row.path, data) for row, data in self._source.read_many(named, MAX_FIXTURE_BYTES))

    @property
    def complete(self) -> Complete:
        return Links.of(self.index, partial(read_listed, self._source)).complete


def review_sides(before: Side, after: Side, *, with_kept: bool = False) -> Review:
    """What changed from one side to the other.

    Args:
        before: The state of then.
        after: The state of now.
        with_kept: Whether what stayed the same is wanted, too. Where nothing changed it is not read.
    """
    rows = compare_indexes(before.index, after.index)
    gone = [*rows.removed, *(old for old, _ in rows.changed)]
    come = [*rows.added, *(new for _, new in rows.changed)]
    review = review_changes(
        before.index,
        after.index,
        before.contents(gone),
        after.contents(come),
        before.complete,
        after.complete,
    )
    if with_kept and not review.is_empty:
        changed = {*gone, *come}
        kept = [row for row in after.index.rows if row not in changed and not isinstance(row, PartRow)]
        review.kept.extend(read_kept(kept, after.contents(kept)))
    return review
