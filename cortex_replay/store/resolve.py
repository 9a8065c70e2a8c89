"""Resolving a merge conflict in an index: what could be done, as a value, and then doing it.

Rows are merged by key, as the merge driver does it, from the three versions that git keeps of a file in
conflict, or else from the markers. Git also merges the files of answers, by name and by likeness, and may
leave two answers in one file, or bring back what one side removed. So each listed file gets the bytes that
its row names, from git if need be. A file is only removed if git can bring it back, or if the user chose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from cortex_replay.errors import Finding, FixtureIntegrityFailed, InvalidRequest, StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.store import hints, trust
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.files import is_fixture_path
from cortex_replay.store.git import Repository
from cortex_replay.store.git_process import Blobs
from cortex_replay.store.index import Index, IndexSyntaxError, Row
from cortex_replay.store.merge import Conflict, likely_originals, merge_indexes, read_sides
from cortex_replay.store.paths import INDEX_NAME, NESTED_FOLDER, UNPRINTABLE
from cortex_replay.store.trust import Layout, Untrusted
from cortex_replay.store.writer import StoreWriter

__all__ = ["Choice", "Resolution", "Side", "apply_resolution", "plan_resolution"]

Side = Literal["ours", "theirs"]
_PLACES: Final = (
    ":0:",
    ":2:",
    ":3:",
    "HEAD:",
    "HEAD^1:",
    "HEAD^2:",
    "MERGE_HEAD:",
    "CHERRY_PICK_HEAD:",
    "REBASE_HEAD:",
    "REVERT_HEAD:",
)
"""Where git may have a file that a side of the conflict lists."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A question that the two sides answer differently; ``None`` is a removal."""

    kept: Row | None
    dropped: Row | None


@dataclass(slots=True)
class Resolution:
    """What resolving a conflict would do."""

    index: Index
    old_text: bytes
    layout: Layout
    choices: list[Choice] = field(default_factory=list)
    restored: dict[str, bytes] = field(default_factory=dict)
    """Listed files that have other bytes now, or are gone, with the bytes that are listed."""
    removed: list[str] = field(default_factory=list)
    """Files that no row names any more."""


def plan_resolution(
    source: DirectorySource, side: Side | None = None, take: Collection[str] = ()
) -> Resolution | None:
    """Say how the conflict in the index would be resolved; ``None`` if there is none.

    Args:
        source: The store.
        side: Whose answer to keep where one question has two.
        take: The paths of answers to keep, whatever ``side`` says.

    Raises:
        StoreIo: The index cannot be read, or somebody has to choose, since git could not bring back
            what is dropped.
        FixtureIntegrityFailed: A side is no index, or names files that none may name.
        InvalidRequest: ``take`` names a file that is not one of two answers.
    """
    data = source.read(INDEX_NAME, trust.MAX_INDEX_BYTES)
    if isinstance(data, Finding):
        raise StoreIo(f"{INDEX_NAME} {data.reason}")
    with _open_history(source) as history:
        staged = history.sides()
        sides = staged or _marked_sides(data)
        if sides is None:
            return _plan_restoration(source, history, data)
        merged, conflicts = merge_indexes(*sides)
        present = _present_rows(data)
        if present is not None and not _is_resolvable(present, sides, merged, conflicts):
            return None  # somebody has resolved it by hand, or recorded since
        unknown = set(take) - {row.path for one in conflicts for row in (one.ours, one.theirs) if row}
        if unknown:
            raise InvalidRequest("take", f"{min(unknown)} is not one of two answers to a question")
        if conflicts and staged is None and side is None and not take:
            raise StoreIo(
                f"{len(conflicts)} of the questions in {INDEX_NAME} have two answers, and only the markers "
                "tell: say which to keep, with --ours, --theirs or --take PATH"
            )
        choices = [_choose(one, side, take, present or set()) for one in conflicts]
        rows = [*merged.rows, *(choice.kept for choice in choices if choice.kept)]
        index = Index.of(rows, merged.header)
        layout = trust.layout_of(index, source.has_folder(NESTED_FOLDER))
        if findings := trust.trust_rows(index, layout):
            raise FixtureIntegrityFailed(findings)
        plan = Resolution(index, data, layout, choices)
        _plan_files(
            plan, source, history, [row for one in sides for row in one.rows], side is not None or bool(take)
        )
    return plan


def _plan_restoration(source: DirectorySource, history: _History, data: bytes) -> Resolution | None:
    """Bring back files that rows name and a merge removed.

    One branch recorded an answer anew, another gave the old one to a scope: git sees no conflict there.
    """
    try:
        index = trust.trust_index(data)
    except Untrusted:
        return None
    layout = trust.layout_of(index, source.has_folder(NESTED_FOLDER))
    listing = source.list_files(layout.folder)
    if all(row.path in listing.files for row in index.rows) or trust.trust_rows(index, layout):
        return None
    plan = Resolution(index, data, layout)
    _plan_files(plan, source, history, [], is_chosen=False)
    return plan if plan.restored else None


def apply_resolution(source: DirectorySource, plan: Resolution) -> None:
    """Write what the plan says, if the index is still the one it was made from.

    Raises:
        StoreIo: The index is another one by now, or the disk refused.
    """
    StoreWriter(source, plan.layout).put_index(plan.index, plan.old_text, plan.restored, plan.removed)


_Sides = tuple[Index, Index, Index]


def _marked_sides(data: bytes) -> _Sides | None:
    try:
        # Line ends that git or an editor changed say nothing about what was trusted.
        return read_sides(data.decode("utf-8-sig").replace("\r\n", "\n"))
    except (UnicodeDecodeError, IndexSyntaxError) as error:
        reason = f"has conflict markers, but a side of them is no index: {error}"
        raise FixtureIntegrityFailed(
            [Finding("index-malformed", INDEX_NAME, reason, hints.RESTORE)]
        ) from None


def _present_rows(data: bytes) -> set[Row] | None:
    """The rows of an index without markers."""
    try:
        return set(trust.trust_index(data).rows)
    except Untrusted:
        return None


def _is_resolvable(present: set[Row], sides: _Sides, merged: Index, conflicts: list[Conflict]) -> bool:
    """Whether an index without markers is what git left there, or what we made of it before."""
    if any(present == set(side.rows) for side in sides[1:]):
        return True
    contested = {row for one in conflicts for row in (one.ours, one.theirs)}
    return set(merged.rows) <= present and present - set(merged.rows) <= contested


def _choose(conflict: Conflict, side: Side | None, take: Collection[str], present: set[Row]) -> Choice:
    ours, theirs = conflict.ours, conflict.theirs
    if theirs is not None and theirs.path in take:
        is_ours = False
    elif ours is not None and ours.path in take:
        is_ours = True
    elif side is not None:
        is_ours = side == "ours"
    elif theirs in present and ours not in present:
        is_ours = False  # as it was chosen before
    else:
        is_ours = ours is not None  # an answer rather than none
    return Choice(ours, theirs) if is_ours else Choice(theirs, ours)


def _plan_files(
    plan: Resolution, source: DirectorySource, history: _History, known: list[Row], is_chosen: bool
) -> None:
    """Which files are to be written, and which to go."""
    listed = {row.path: row.blake3 for row in plan.index.rows}
    for path, data in source.read_many(sorted(listed), trust.MAX_FIXTURE_BYTES):
        if isinstance(data, bytes) and blake3_hex(data) == listed[path]:
            continue
        if not is_fixture_path(path, plan.layout) or (isinstance(data, Finding) and data.code != "missing"):
            continue  # a link, or a name that no writer gives: for a person to look at
        originals = likely_originals(data) if isinstance(data, bytes) else ()
        for original in (*originals, *history.versions(path)):
            if blake3_hex(original) == listed[path]:
                plan.restored[path] = original
                break
    chosen = {choice.dropped.path for choice in plan.choices if choice.dropped and is_chosen}
    for row in {row.path: row for row in known if row.path not in listed}.values():
        if not is_fixture_path(row.path, plan.layout):
            continue
        present = source.read(row.path, trust.MAX_FIXTURE_BYTES)
        digests = {blake3_hex(data) for data in history.versions(row.path)}
        # What somebody has changed since stays, and is reported.
        is_known = isinstance(present, bytes) and blake3_hex(present) in digests | {row.blake3}
        if is_known and (row.blake3 in digests or row.path in chosen):
            plan.removed.append(row.path)


class _History:
    """What git knows of the files of a store; nothing, where there is no git."""

    def __init__(self, blobs: Blobs | None, prefix: str) -> None:
        self._blobs = blobs
        self._prefix = prefix

    def sides(self) -> _Sides | None:
        """Base, ours and theirs of the index, if git could not merge it.

        Raises:
            FixtureIntegrityFailed: One of them is no index.
        """
        texts = [self._read(f":{stage}:", INDEX_NAME, trust.MAX_INDEX_BYTES) for stage in (1, 2, 3)]
        if texts[1:] == [None, None]:
            return None
        try:
            base, ours, theirs = (trust.trust_index(text or b"") for text in texts)
        except Untrusted as error:
            raise FixtureIntegrityFailed([error.finding]) from None
        return base, ours, theirs

    def versions(self, path: str) -> Iterator[bytes]:
        """The contents that git has for a file of the store."""
        for place in _PLACES:
            data = self._read(place, path, trust.MAX_FIXTURE_BYTES)
            if data is not None:
                yield data

    def _read(self, place: str, path: str, max_bytes: int) -> bytes | None:
        if self._blobs is None:
            return None
        data = self._blobs.read(f"{place}{self._prefix}{path}", max_bytes)
        return data if isinstance(data, bytes) else None


@contextmanager
def _open_history(source: DirectorySource) -> Iterator[_History]:
    try:
        repository = Repository(source.root)
    except StoreIo:
        yield _History(None, "")
        return
    if UNPRINTABLE.search(repository.prefix):  # a line feed would be the end of a question to git
        yield _History(None, "")
        return
    with repository.blobs() as blobs:
        yield _History(blobs, repository.prefix)
