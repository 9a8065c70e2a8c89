"""Resolving a merge conflict in an index: what could be done, as a value, and then doing it.

Rows are merged by key, as the merge driver does it, from the three versions that git keeps of a file in
conflict, or else from the markers. Git also merges the files of answers, by name and by likeness, and may
leave two answers in one file, or bring back what one side removed. So each listed file gets the bytes that
its row names, from git if need be. A file is only removed if git can bring it back, or if the user chose.

Where git saw no conflict, one side may still have removed what the other needs: the file of an answer that a
scope was given, a request that another continues, a part. Rows and files of these come back from git.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from cortex_replay.errors import Finding, FixtureIntegrityFailed, InvalidRequest, StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.store import trust
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.files import is_fixture_path
from cortex_replay.store.git.history import History, open_history
from cortex_replay.store.index.index import Index, Row
from cortex_replay.store.index.named_file import one_per_file
from cortex_replay.store.index.shard_reading import read_index
from cortex_replay.store.merge.lost_rows import lost_rows, named_parts
from cortex_replay.store.merge.merge import Conflict, likely_originals, merge_indexes, with_parents
from cortex_replay.store.merge.sides import Sides, has_shards, marked_sides, staged_sides
from cortex_replay.store.paths import INDEX_NAME, NESTED_FOLDER
from cortex_replay.store.trust import Layout, Untrusted
from cortex_replay.store.writer import StoreWriter

__all__ = ["Choice", "Resolution", "Side", "apply_resolution", "plan_resolution"]

Side = Literal["ours", "theirs"]


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
    is_sharded: bool | None = None
    """Whether the index has shards from now on; ``None`` if the merge does not say."""


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
    with open_history(source.root) as history:
        staged = staged_sides(source, history)
        sides = staged or marked_sides(source, history, data)
        if sides is None:
            return _plan_restoration(source, history, data)
        merged, conflicts = merge_indexes(*sides, named_parts(history))
        present = _present_rows(source)
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
        index = Index.of(with_parents(rows, (), *sides[1:]), merged.header)
        layout = trust.layout_of(index, source.has_folder(NESTED_FOLDER))
        if findings := trust.trust_rows(index, layout):
            raise FixtureIntegrityFailed(findings)
        plan = Resolution(index, data, layout, choices, is_sharded=has_shards(*sides))
        _plan_files(
            plan, source, history, [row for one in sides for row in one.rows], side is not None or bool(take)
        )
    return plan


def _plan_restoration(source: DirectorySource, history: History, data: bytes) -> Resolution | None:
    """Bring back what rows name and a merge removed, where git saw no conflict."""
    report = check_store(source)
    if report.is_trusted or any(finding.path == INDEX_NAME for finding in report.findings):
        return None
    index = Index.of([*report.index.rows, *lost_rows(report, source, history)], report.index.header)
    if trust.trust_rows(index, report.layout):
        return None
    plan = Resolution(index, data, report.layout)
    _plan_files(plan, source, history, [], is_chosen=False)
    return plan if plan.restored or len(index.rows) > len(report.index.rows) else None


def apply_resolution(source: DirectorySource, plan: Resolution) -> None:
    """Write what the plan says, if the index is still the one it was made from.

    Raises:
        StoreIo: The index is another one by now, or the disk refused.
    """
    writer = StoreWriter(source, plan.layout)
    writer.put_index(plan.index, plan.old_text, plan.restored, plan.removed, is_sharded=plan.is_sharded)


def _present_rows(source: DirectorySource) -> set[Row] | None:
    """The rows of an index without markers."""
    try:
        return set(read_index(source)[0].rows)
    except Untrusted:
        return None


def _is_resolvable(present: set[Row], sides: Sides, merged: Index, conflicts: list[Conflict]) -> bool:
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
    plan: Resolution, source: DirectorySource, history: History, known: list[Row], is_chosen: bool
) -> None:
    """Which files are to be written, and which to go."""
    listed = {row.path: row.blake3 for row in plan.index.rows}
    wanted: dict[str, set[str]] = {}
    for row, data in source.read_near(one_per_file(plan.index.rows), trust.MAX_FIXTURE_BYTES):
        path = row.path
        if isinstance(data, bytes) and blake3_hex(data) == listed[path]:
            continue
        if not is_fixture_path(path, plan.layout) or (isinstance(data, Finding) and data.code != "missing"):
            continue  # a link, or a name that no writer gives: for a person to look at
        originals = likely_originals(data) if isinstance(data, bytes) else ()
        original = next((one for one in originals if blake3_hex(one) == listed[path]), None)
        if original is not None:
            plan.restored[path] = original
        else:
            wanted[path] = {listed[path]}
    plan.restored |= {path: data for (path, _), data in history.find_many(wanted).items()}
    chosen = {choice.dropped.path for choice in plan.choices if choice.dropped and is_chosen}
    for row in {row.path: row for row in known if row.path not in listed}.values():
        if not is_fixture_path(row.path, plan.layout):
            continue
        present = source.read(row.path, trust.MAX_FIXTURE_BYTES)
        digests = {blake3_hex(data) for data in history.recent(row.path)}
        # What somebody has changed since stays, and is reported.
        is_known = isinstance(present, bytes) and blake3_hex(present) in digests | {row.blake3}
        if is_known and (row.blake3 in digests or row.path in chosen):
            plan.removed.append(row.path)
