"""Making the index fit the files again: what could be done, as a value, and then doing it.

The index is the only thing that is trusted, so nothing is done in silence. New files are adopted,
moved ones followed, line ends that git changed are put back: none of that changes what a listed
answer says. A file with other bytes than its row, or one that takes another's key, is another
answer: that needs the word of a person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from cortex_replay.errors import Finding, FixtureIntegrityFailed, StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.progress import Progress
from cortex_replay.store import hints, trust
from cortex_replay.store.changes import said_by, said_by_exchange
from cortex_replay.store.check import read_listed
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import parse_exchange
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey
from cortex_replay.store.fixture_json import FixtureError, parse_fixture, parse_part
from cortex_replay.store.index.index import (
    ExchangeRow,
    FixtureRow,
    Index,
    IndexSyntaxError,
    PartRow,
    Row,
    RowKey,
    ScopedRow,
    content_key,
    continued_by,
    parse_index,
    row_key,
)
from cortex_replay.store.index.named_file import NamedFile
from cortex_replay.store.index.shard_reading import try_shards
from cortex_replay.store.journal import trust_journal
from cortex_replay.store.left_out import read_left_out
from cortex_replay.store.merge.merge import likely_originals, sides_of_conflict
from cortex_replay.store.paths import INDEX_NAME, NESTED_FOLDER, is_fixture_name, path_problem
from cortex_replay.store.requests.links import Links
from cortex_replay.store.trust import Layout, Untrusted
from cortex_replay.store.writer import StoreWriter

__all__ = ["ReindexPlan", "apply_reindex", "plan_reindex"]


_NO_ANSWERS: Final = (Answer(""),)


@dataclass(slots=True)
class ReindexPlan:
    """What rebuilding the index would do."""

    layout: Layout
    old_text: bytes | None
    """The index as it is now; ``None`` if there is none."""
    unreadable: str | None = None
    """Why the present index says nothing, if so: then every file counts as changed."""
    header: dict[str, str | int | bool] = field(default_factory=dict)
    listed: list[Row] = field(default_factory=list)
    """The rows that the present index has."""
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
        if (
            self.old_text is None
            or self.unreadable
            or self.changed
            or self.missing
            or self.mended
            or self.refused
        ):
            return False
        try:
            trust.trust_index(self.old_text)
        except Untrusted:
            return False
        return sorted(self.listed, key=str) == sorted(
            self.new_index(accept_changed=False, drop_missing=False).rows, key=str
        )


def plan_reindex(source: DirectorySource, progress: Progress | None = None) -> ReindexPlan:
    """Look at every file and say what the index should be."""
    data = source.read(INDEX_NAME, trust.MAX_INDEX_BYTES)
    plan = ReindexPlan(Layout.NESTED, data if isinstance(data, bytes) else None)
    index = _known_rows(source, plan, data)
    plan.listed = index.rows
    plan.layout = trust.layout_of(index, source.has_folder(NESTED_FOLDER))
    plan.header = index.header
    listing = source.list_files(plan.layout.folder)
    plan.refused += listing.findings
    schema = plan.layout.schema_path
    listed: dict[str, list[Row]] = {}
    for row in index.rows:
        if path_problem(row.path) is None and row.path != schema:
            listed.setdefault(row.path, []).append(row)
    # What a commit is moving is that commit's, and the next writer's, to bring to an end.
    moving = trust_journal(source.read_journal()).moving
    left_out = read_left_out(source)
    names = sorted(
        path
        for path in listing.files
        if path in listed
        or (is_fixture_name(path) and path != schema and path not in moving and path not in left_out)
    )
    files = _Files(source, plan, listed)
    for count, path in enumerate(names):
        if progress:
            progress(count, len(names))
        files.look_at(path)
    unlisted: list[tuple[Row, str]] = []
    for path in names:  # what one continues may stand in any of the others
        rows, found = _as_listed(listed.get(path, [])), files.row_of(path)
        if isinstance(found, Finding):
            plan.refused.append(found)
            plan.kept += rows  # they stay as they are: broken, and known to be
        elif not rows:
            unlisted.append((found, files.owner_of(path)))
        elif found.blake3 in {row.blake3 for row in listed[path]}:
            plan.kept += [_for_scope_of(row, found) for row in rows]
        else:
            plan.changed += [(row, _for_scope_of(row, found)) for row in rows]
    gone = [row for path in sorted(listed.keys() - listing.files) for row in listed[path]]
    if gone and source.elsewhere:
        lacking = source.elsewhere.lacking(gone)
        plan.kept += [row for row in gone if row.blake3 not in lacking]
        gone = [row for row in gone if row.blake3 in lacking]
    _place_unlisted(plan, unlisted, gone)
    _refuse_duplicate_keys(plan)
    return plan


def apply_reindex(
    source: DirectorySource, plan: ReindexPlan, *, accept_changed: bool = False, drop_missing: bool = False
) -> Index:
    """Write what the plan says, if the index is still the one it was made from.

    Raises:
        StoreIo: Another process committed meanwhile, or the disk refused.
    """
    index = plan.new_index(accept_changed=accept_changed, drop_missing=drop_missing)
    StoreWriter(source, plan.layout).put_index(index, plan.old_text, plan.mended)
    return index


def _known_rows(source: DirectorySource, plan: ReindexPlan, data: bytes | Finding) -> Index:
    if isinstance(data, Finding):
        if data.code != "missing":
            raise StoreIo(f"{INDEX_NAME} {data.reason}")
        return Index()
    try:
        # Line ends that git or an editor changed say nothing about what was trusted.
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
        _refuse_markers(INDEX_NAME, text)
        root = parse_index(text)
    except (UnicodeDecodeError, IndexSyntaxError) as error:
        plan.unreadable = str(error)
        return Index()
    return _join_shards(source, plan, root) if root.shards else root


def _refuse_markers(path: str, text: str) -> None:
    if sides_of_conflict(text) is not None:
        reason = "has unresolved conflict markers"
        raise FixtureIntegrityFailed([Finding("index-malformed", path, reason, hints.CONFLICT)])


def _join_shards(source: DirectorySource, plan: ReindexPlan, root: Index) -> Index:
    """The rows of the shards that are what the root says. Of the others nothing is known."""
    for shard in root.shards:
        present = source.read(shard.path, trust.MAX_INDEX_BYTES)
        _refuse_markers(shard.path, present.decode(errors="replace") if isinstance(present, bytes) else "")
    index, findings = try_shards(source, root)
    if findings:
        plan.unreadable = f"{findings[0].path}: {findings[0].reason}"
    return index


def _as_listed(rows: list[Row]) -> list[Row]:
    """The first of the rows that are no scope's, and one of each scope, in the order of the index."""
    by_scope = {row.scope if isinstance(row, ScopedRow) else "": row for row in reversed(rows)}
    return list(by_scope.values())[::-1]


def _for_scope_of(row: Row, now: Row) -> Row:
    """What a file deserves to be listed as, in the scope of a row."""
    if not isinstance(row, ScopedRow):
        return now
    return ScopedRow(*now[:2], *content_key(now), row.scope, continued_by(now))


def _place_unlisted(plan: ReindexPlan, unlisted: list[tuple[Row, str]], gone: list[Row]) -> None:
    """A file that is not listed is new, or a listed one that was moved, or another answer to its key.

    A new one under a key that is taken is its scope's, if it names one that has none.
    """
    by_digest: dict[str, list[Row]] = {}
    for lost in gone:
        by_digest.setdefault(lost.blake3, []).append(lost)
    by_key = {row_key(row): row for row in gone if any(row_key(row))}
    taken = {row_key(row) for row in plan.kept}
    for row, owner in unlisted:
        scoped = ScopedRow(*row[:2], *content_key(row), owner, continued_by(row))
        if before := by_digest.pop(row.blake3, None):
            plan.moved += [(lost.path, _for_scope_of(lost, row)) for lost in before]
            continue
        is_free = row_key(row) not in taken and row_key(row) not in by_key
        now = scoped if owner and not is_free and row_key(scoped) not in taken else row
        if (lost_row := by_key.get(row_key(now))) is not None:
            by_digest.pop(lost_row.blake3, None)
            plan.changed.append((lost_row, now))
        elif plan.unreadable is not None:
            plan.changed.append((None, now))
            taken.add(row_key(now))
        else:
            plan.adopted.append(now)
            taken |= {row_key(now)} if isinstance(now, ScopedRow) else set()
    plan.missing = [row for row in gone if row.blake3 in by_digest]


def _refuse_duplicate_keys(plan: ReindexPlan) -> None:
    """Of two files under one key and scope the one that is listed stays; of two new ones, none is chosen."""
    taken = {row_key(row): row.path for row in [*plan.kept, *(row for _, row in plan.moved)]}
    refused = [row for row in plan.kept if taken[row_key(row)] != row.path]
    rivals: dict[RowKey, list[Row]] = {}
    for row in plan.adopted:
        rivals.setdefault(row_key(row), []).append(row)
    for key, (first, *others) in rivals.items():
        if key not in taken and any(row.blake3 != first.blake3 for row in others):
            reason = f"has the key of {others[0].path}; delete the one that is not wanted"
            plan.refused.append(Finding("key-duplicate", first.path, reason))
            plan.adopted.remove(first)
        refused += others if taken.setdefault(key, first.path) == first.path else (first, *others)
    for row in refused:
        reason = f"has the key of {taken[row_key(row)]}; delete the one that is not wanted"
        plan.refused.append(Finding("key-duplicate", row.path, reason))
    plan.adopted = [row for row in plan.adopted if row not in refused]


class _Files:
    """What stands in the files of a store, whatever the index says of them.

    A class to know all of them before a request is put together: what it continues, and what it names, may be
    listed or not.
    """

    def __init__(self, source: DirectorySource, plan: ReindexPlan, listed: Mapping[str, list[Row]]) -> None:
        self._source = source
        self._plan = plan
        self._listed = listed
        self._found: dict[str, FixtureRow | ExchangeRow | PartRow | Finding] = {}
        """What was judged at once: most files."""
        self._short: dict[str, tuple[FixtureRow, Fixture]] = {}
        self._owners: dict[str, str] = {}
        self._parents: dict[FixtureKey, FixtureRow] = {}
        self._parts: dict[str, PartRow] = {}
        self._named: set[str] = set()
        """The parts that some fixture names."""
        self._links = Links(self._parents.get, self._parts.get, self._read)

    def look_at(self, path: str) -> None:
        """Read a file, and remember what it is."""
        data = self._source.read(path, trust.MAX_FIXTURE_BYTES)
        if isinstance(data, Finding):
            self._found[path] = data
            return
        digests = {row.blake3 for row in self._listed.get(path, [])}
        if digests and blake3_hex(data) not in digests:
            for mended in likely_originals(data):
                if blake3_hex(mended) in digests:
                    self._plan.mended[path] = data = mended
                    break
        self._take(path, data, digests)

    def _take(self, path: str, data: bytes, digests: set[str]) -> None:
        digest = blake3_hex(data)
        try:
            fixture = parse_fixture(data)
        except FixtureError as error:
            found = self._found[path] = _other_row(path, digest, data, error)
            if isinstance(found, PartRow):
                self._parts.setdefault(digest, found)
            elif isinstance(found, ExchangeRow):
                self._owners[path] = said_by_exchange(parse_exchange(data)).owner
            return
        link = fixture.link
        row = FixtureRow(path, digest, *fixture.key, None if link is None else link.continues)
        self._owners[path] = said_by(fixture).owner
        known = self._parents.get(fixture.key)
        # What is listed and unchanged counts before what is new, or was edited.
        if known is None or (digest in digests and not self._is_listed(known)):
            self._parents[fixture.key] = row
        if link is None:
            self._found[path] = _judge(row, fixture)
            return
        self._named |= set(link.parts.values())
        judged = _judge(row, fixture)
        if isinstance(judged, Finding):
            self._found[path] = judged
        else:  # its answers are fine, and not needed any more
            self._short[path] = row, replace(fixture, answers=_NO_ANSWERS)

    def row_of(self, path: str) -> FixtureRow | ExchangeRow | PartRow | Finding:
        """The row that a file deserves, or why it deserves none."""
        rows = self._listed.get(path, [])
        if path in self._short:
            return self._judge_short(*self._short[path])
        found = self._found[path]
        if isinstance(found, PartRow):
            return self._judge_part(found, rows)
        if isinstance(found, Finding) and not rows:
            return replace(found, hint=found.hint or hints.for_other_json(found.path))
        return found

    def _judge_short(self, row: FixtureRow, fixture: Fixture) -> FixtureRow | Finding:
        try:
            return _judge(row, self._links.complete(row, fixture))
        except Untrusted as error:
            finding = error.finding
        if finding.path != row.path:  # of what it continues, which has a finding of its own
            finding = Finding("link-broken", row.path, f"its request continues {finding.path}, see there")
        return replace(finding, hint=finding.hint or hints.for_broken_link(finding.code))

    def _judge_part(self, part: PartRow, rows: Sequence[Row]) -> PartRow | Finding:
        if rows and part.blake3 not in {row.blake3 for row in rows}:
            reason = "its bytes differ from the index, and recordings name it by those that are listed"
            return Finding("mismatch", part.path, reason, hints.PART)
        if not rows and part.blake3 not in self._named:
            return Finding("fixture-invalid", part.path, "no recording names this part", hints.UNUSED_PART)
        return part

    def owner_of(self, path: str) -> str:
        """The scope that says of itself that it recorded a file."""
        return self._owners.get(path, "")

    def _is_listed(self, row: FixtureRow) -> bool:
        return any(row.blake3 == one.blake3 for one in self._listed.get(row.path, []))

    def _read(self, file: NamedFile) -> bytes:
        mended = self._plan.mended.get(file.path)
        return read_listed(self._source, file) if mended is None else mended


def _judge(row: FixtureRow, fixture: Fixture) -> FixtureRow | Finding:
    """The row of a fixture, if it can be trusted, as far as its request is whole."""
    try:
        trust.trust_request(row, fixture)
        trust.trust_answers(row, fixture)
    except Untrusted as error:
        return error.finding
    return row


def _other_row(path: str, digest: str, data: bytes, error: FixtureError) -> ExchangeRow | PartRow | Finding:
    """The row of a file that is no fixture, if it is anything else."""
    with suppress(FixtureError):
        return ExchangeRow(path, digest, *parse_exchange(data).row_key)
    with suppress(FixtureError):
        parse_part(data)
        return PartRow(path, digest)
    return Finding(error.code, path, str(error))
