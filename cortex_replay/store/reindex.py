"""Making the index fit the files again: what could be done, as a value, and then doing it.

The index is the only thing that is trusted, so nothing is done in silence. New files are adopted,
moved ones followed, line ends that git changed are put back: none of that changes what a listed
answer says. A file with other bytes than its row, or one that takes another's key, is another
answer: that needs the word of a person.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cortex_replay.errors import Finding, FixtureIntegrityFailed, StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.store import hints, trust
from cortex_replay.store.changes import said_by, said_by_exchange
from cortex_replay.store.check import Progress
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import parse_exchange
from cortex_replay.store.fixture_json import FixtureError, parse_fixture
from cortex_replay.store.index import (
    ExchangeRow,
    FixtureRow,
    Index,
    IndexSyntaxError,
    Row,
    ScopedRow,
    content_key,
    parse_index,
)
from cortex_replay.store.journal import trust_journal
from cortex_replay.store.left_out import read_left_out
from cortex_replay.store.merge import likely_originals, sides_of_conflict
from cortex_replay.store.paths import INDEX_NAME, NESTED_FOLDER, is_fixture_name, path_problem
from cortex_replay.store.trust import Layout, Untrusted
from cortex_replay.store.writer import StoreWriter

__all__ = ["ReindexPlan", "apply_reindex", "plan_reindex"]


@dataclass(slots=True)
class ReindexPlan:
    """What rebuilding the index would do."""

    layout: Layout
    old_text: bytes | None
    """The index as it is now; ``None`` if there is none."""
    unreadable: str | None = None
    """Why the present index says nothing, if so: then every file counts as changed."""
    header: dict[str, str | int | bool] = field(default_factory=dict)
    kept: list[Row] = field(default_factory=list)
    adopted: list[Row] = field(default_factory=list)
    moved: list[tuple[str, Row]] = field(default_factory=list)
    changed: list[tuple[Row | None, Row]] = field(default_factory=list)
    """The row as it is, and as it would be."""
    missing: list[Row] = field(default_factory=list)
    mended: dict[str, bytes] = field(default_factory=dict)
    """Files whose line ends differ from what is listed, with the bytes that are listed."""
    refused: list[Finding] = field(default_factory=list)

    def new_index(self, *, accept_changed: bool, drop_missing: bool) -> Index:
        """The index that would be written."""
        rows = [*self.kept, *self.adopted, *(row for _, row in self.moved)]
        rows += (
            [after for _, after in self.changed]
            if accept_changed
            else [before for before, _ in self.changed if before is not None]
        )
        rows += [] if drop_missing else self.missing
        return Index.of(rows, self.header)

    def is_current(self) -> bool:
        """Whether the index has the rows that rebuilding it would give; one from before the grid is fine."""
        if self.old_text is None or self.changed or self.missing or self.mended or self.refused:
            return False
        try:
            present = trust.trust_index(self.old_text).rows
        except Untrusted:
            return False
        return sorted(present, key=str) == sorted(
            self.new_index(accept_changed=False, drop_missing=False).rows, key=str
        )


def plan_reindex(source: DirectorySource, progress: Progress | None = None) -> ReindexPlan:
    """Look at every file and say what the index should be."""
    data = source.read(INDEX_NAME, trust.MAX_INDEX_BYTES)
    plan = ReindexPlan(Layout.NESTED, data if isinstance(data, bytes) else None)
    index = _known_rows(plan, data)
    plan.layout = trust.layout_of(index, source.has_folder(NESTED_FOLDER))
    plan.header = index.header
    listing = source.list_files(plan.layout.folder)
    plan.refused += listing.findings
    schema = plan.layout.schema_path
    listed: dict[str, list[Row]] = {}
    for row in index.rows:
        if path_problem(row.path) is None and row.path != schema:
            listed.setdefault(row.path, []).append(row)
    unlisted: list[tuple[Row, str]] = []
    # What a commit is moving is that commit's, and the next writer's, to bring to an end.
    moving = trust_journal(source.read_journal()).moving
    left_out = read_left_out(source)
    names = sorted(
        path
        for path in listing.files
        if path in listed
        or (is_fixture_name(path) and path != schema and path not in moving and path not in left_out)
    )
    for count, path in enumerate(names):
        if progress:
            progress(count, len(names))
        if path in listed:
            _look_at_listed(source, plan, path, listed[path])
            continue
        data = source.read(path, trust.MAX_FIXTURE_BYTES)
        found = _row_of(data, path)
        if isinstance(found, Finding):
            plan.refused.append(replace(found, hint=found.hint or hints.for_other_json(found.path)))
        else:
            unlisted.append((found, _owner_in(found, data)))
    gone = [row for path in sorted(listed.keys() - listing.files) for row in listed[path]]
    _place_unlisted(plan, unlisted, gone)
    _refuse_duplicate_keys(plan)
    return plan


def apply_reindex(
    source: DirectorySource, plan: ReindexPlan, *, accept_changed: bool = False, drop_missing: bool = False
) -> Index:
    """Write what the plan says, if the index is still the one it was made from.

    Raises:
        StoreIo: Somebody committed in the meantime, or the disk refused.
    """
    index = plan.new_index(accept_changed=accept_changed, drop_missing=drop_missing)
    StoreWriter(source, plan.layout).put_index(index, plan.old_text, plan.mended)
    return index


def _known_rows(plan: ReindexPlan, data: bytes | Finding) -> Index:
    if isinstance(data, Finding):
        if data.code != "missing":
            raise StoreIo(f"{INDEX_NAME} {data.reason}")
        return Index()
    try:
        # Line ends that git or an editor changed say nothing about what was trusted.
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
        if sides_of_conflict(text) is not None:
            raise FixtureIntegrityFailed(
                [Finding("index-malformed", INDEX_NAME, "has unresolved conflict markers", hints.CONFLICT)]
            )
        return parse_index(text)
    except (UnicodeDecodeError, IndexSyntaxError) as error:
        plan.unreadable = str(error)
        return Index()


def _look_at_listed(source: DirectorySource, plan: ReindexPlan, path: str, rows: list[Row]) -> None:
    data = source.read(path, trust.MAX_FIXTURE_BYTES)
    digests = {row.blake3 for row in rows}
    if isinstance(data, bytes) and blake3_hex(data) not in digests:
        for mended in likely_originals(data):
            if blake3_hex(mended) in digests:
                plan.mended[path] = data = mended
                break
    now = _row_of(data, path)
    rows = _as_listed(rows)
    if isinstance(now, Finding):
        plan.refused.append(now)
        plan.kept += rows  # they stay as they are: broken, and known to be
    elif now.blake3 in digests:
        plan.kept += [_for_scope_of(row, now) for row in rows]
    else:
        plan.changed += [(row, _for_scope_of(row, now)) for row in rows]


def _as_listed(rows: list[Row]) -> list[Row]:
    """The first of the rows that are no scope's, and one of each scope, in the order of the index."""
    by_scope = {row.scope if isinstance(row, ScopedRow) else "": row for row in reversed(rows)}
    return list(by_scope.values())[::-1]


def _for_scope_of(row: Row, now: Row) -> Row:
    """What a file deserves to be listed as, in the scope of a row."""
    return ScopedRow(*now[:2], *content_key(now), row.scope) if isinstance(row, ScopedRow) else now


def _place_unlisted(plan: ReindexPlan, unlisted: list[tuple[Row, str]], gone: list[Row]) -> None:
    """A file that is not listed is new, or a listed one that was moved, or another answer to its key.

    A new one under a key that is taken is its scope's, if it names one that has none.
    """
    by_digest: dict[str, list[Row]] = {}
    for lost in gone:
        by_digest.setdefault(lost.blake3, []).append(lost)
    by_key = {row[2:]: row for row in gone if any(row[2:])}
    taken = {row[2:] for row in plan.kept}
    for row, owner in unlisted:
        scoped = ScopedRow(*row[:2], *content_key(row), owner)
        if before := by_digest.pop(row.blake3, None):
            plan.moved += [(lost.path, _for_scope_of(lost, row)) for lost in before]
            continue
        is_free = row[2:] not in taken and row[2:] not in by_key
        now = scoped if owner and not is_free and scoped[2:] not in taken else row
        if (lost_row := by_key.get(now[2:])) is not None:
            by_digest.pop(lost_row.blake3, None)
            plan.changed.append((lost_row, now))
        elif plan.unreadable is not None:
            plan.changed.append((None, now))
            taken.add(now[2:])
        else:
            plan.adopted.append(now)
            taken |= {now[2:]} if isinstance(now, ScopedRow) else set()
    plan.missing = [row for row in gone if row.blake3 in by_digest]


def _refuse_duplicate_keys(plan: ReindexPlan) -> None:
    """Of two files under one key and scope the one that is listed stays; of two new ones, none is chosen."""
    taken = {row[2:]: row.path for row in [*plan.kept, *(row for _, row in plan.moved)]}
    refused = [row for row in plan.kept if taken[row[2:]] != row.path]
    refused += [row for row in plan.adopted if taken.setdefault(row[2:], row.path) != row.path]
    for row in refused:
        reason = f"has the key of {taken[row[2:]]}; delete the one that is not wanted"
        plan.refused.append(Finding("key-duplicate", row.path, reason))
    plan.adopted = [row for row in plan.adopted if row not in refused]


def _owner_in(row: Row, data: bytes | Finding) -> str:
    """The scope that says of itself that it recorded a file."""
    if not isinstance(data, bytes):
        return ""
    if isinstance(row, FixtureRow):
        return said_by(parse_fixture(data)).owner
    return said_by_exchange(parse_exchange(data)).owner


def _row_of(data: bytes | Finding, path: str) -> FixtureRow | ExchangeRow | Finding:
    """The row that a file deserves, or why it deserves none."""
    if isinstance(data, Finding):
        return data
    digest = blake3_hex(data)
    try:
        return FixtureRow(path, digest, *trust.trust_fixture(FixtureRow(path, digest), data).key)
    except Untrusted as error:
        finding = error.finding
    try:
        exchange = parse_exchange(data)
    except FixtureError:
        return finding
    return ExchangeRow(path, digest, *exchange.row_key)
