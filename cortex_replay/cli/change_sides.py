"""Two sides of a store, as a user names them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

import click

from cortex_replay.errors import Finding
from cortex_replay.progress import Progress
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.git.repository import Repository, find_merge_base
from cortex_replay.store.opening import is_about_index
from cortex_replay.store.review import Review
from cortex_replay.store.sides import CommitSide, NoSide, Side, SourceSide, review_sides

__all__ = ["Sides", "review_between"]

_HEAD: Final = "HEAD"
_WORKING_TREE: Final = "the working tree"


class Sides(NamedTuple):
    """What is compared."""

    base: str
    """A commit."""
    name: str
    """What a person calls it."""
    head: str | None
    """Another one; ``None`` stands for the working tree."""

    @classmethod
    def of(cls, root: Path, base: str, head: str | None) -> Self:
        """From the arguments: two commits, or git's spelling of both in one."""
        if ".." not in base:
            return cls(base, base, head)
        if head is not None:
            raise click.UsageError(f"{base} names both sides already")
        is_fork = "..." in base
        old, _, new = (part or _HEAD for part in base.partition("..." if is_fork else ".."))
        if is_fork:
            return cls(find_merge_base(root, old, new), f"{new} left {old}", new)
        return cls(old, old, new)

    @property
    def head_name(self) -> str:
        """What a person calls the side of now."""
        return self.head or _WORKING_TREE


def review_between(
    root: Path, sides: Sides, progress: Progress | None = None
) -> tuple[Review, list[Finding], bool]:
    """What changed, why a side cannot be trusted, and whether there was no store before."""
    findings: list[Finding] = []
    with ExitStack() as open_sides:
        before: Side
        after: Side
        if sides.base == _HEAD and not Repository(root).has_head:  # the first commit is yet to come
            before = NoSide()
        else:
            before = open_sides.enter_context(CommitSide(root, sides.base))
        if sides.head is None:
            source = DirectorySource(root)
            checked = check_store(source, progress=progress)
            findings += checked.findings
            after = SourceSide(checked.index, source)
        else:
            after = open_sides.enter_context(CommitSide(root, sides.head))
        is_known = not any(map(is_about_index, findings))  # else everything would seem to be gone
        review = review_sides(before, after, with_kept=True) if is_known else Review()
        is_new = not before.index.rows and bool(after.index.rows)
    known = {(finding.code, finding.path) for finding in findings}
    findings += [one for one in review.findings if (one.code, one.path) not in known]
    return review, findings, is_new
