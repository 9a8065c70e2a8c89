"""One pass over a store: every rule of :mod:`cortex_replay.store.trust`, every finding."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Final, TypeVar

from cortex_replay.errors import Finding, FixtureIntegrityFailed, StoreIo
from cortex_replay.gc_pause import pause_gc
from cortex_replay.hashing import blake3_hex
from cortex_replay.progress import Progress
from cortex_replay.remote.objects import BucketError
from cortex_replay.store import hints, trust
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Fixture, FixtureKey
from cortex_replay.store.fixture_json import FixtureError, parse_fixture
from cortex_replay.store.index.index import (
    ExchangeRow,
    FixtureRow,
    Index,
    PartRow,
    Row,
    ScopedRow,
    continued_by,
)
from cortex_replay.store.index.named_file import NamedFile
from cortex_replay.store.index.shard_reading import try_shards
from cortex_replay.store.journal import Journal, trust_journal
from cortex_replay.store.left_out import read_left_out
from cortex_replay.store.paths import INDEX_NAME, NESTED_FOLDER, SHARDS_FOLDER, escape, path_problem
from cortex_replay.store.requests.links import Links, sort_by_links
from cortex_replay.store.source import Source
from cortex_replay.store.trust import Complete, Layout, Untrusted

__all__ = [
    "CheckReport",
    "Moment",
    "Note",
    "check_listing",
    "check_opening",
    "check_place_of_new",
    "check_store",
    "confirm",
    "forget",
    "look_until_stable",
    "read_exchange",
    "read_file",
    "read_fixture",
    "read_listed",
]

_T = TypeVar("_T")

Note = Callable[[str, Fixture | Exchange], None]
"""Gets each trusted recording with its path."""
_Glance = Callable[[FixtureRow | ScopedRow, bytes], FixtureKey | None]
_PROGRESS_STEP: Final = 256
_MOST_REREAD: Final = 1000
_MOST_LOOKS: Final = 200
_LONGEST_PAUSE_S: Final = 0.1
_FEWEST_FOR_GLANCE: Final = 300
"""From how many fixtures on a glance at each saves more time than it takes to load what it needs."""


@dataclass(slots=True)
class CheckReport:
    """What a check found. Trusted means: no findings."""

    index: Index = field(default_factory=Index)
    layout: Layout = Layout.NESTED
    journal: Journal = field(default_factory=Journal)
    elsewhere: frozenset[str] = frozenset()
    """The paths of listed files that are not here, where they may be had elsewhere."""
    files_checked: int = 0
    bytes_checked: int = 0
    redacted_requests: list[str] = field(default_factory=list)
    """Fixtures whose request cannot be checked, because a secret was cut out of it."""
    kept: dict[FixtureKey, FixtureRow] = field(default_factory=dict)
    """The row of each shared fixture, where the check was asked to keep what it read."""
    contents: dict[str, bytes] = field(default_factory=dict)
    """The trusted bytes of each fixture and each part by its path, likewise."""
    root: bytes = field(default=b"", repr=False)
    """``INDEX.toml`` as it was judged."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_trusted(self) -> bool:
        return not self.findings

    @property
    def has_keys(self) -> bool:
        """Whether every row carries its key, so that the index alone can answer a lookup."""
        # Half a key is a finding of its own, so one half tells.
        return None not in map(itemgetter(3), self.index.fixtures) and all(
            row.prompt_hash is not None or row.key is not None for row in self.index.exchanges
        )


def forget(path: str, recording: Fixture | Exchange) -> None:
    """For checks whose caller wants to know no more than that all is well."""


Moment = tuple[bytes | Finding, bytes]
"""What tells a reader whether a writer was at work: the index and the journal, as bytes."""


def _moment_of(source: Source) -> Moment:
    return source.read(INDEX_NAME, trust.MAX_INDEX_BYTES), source.read_journal()


def look_until_stable(source: Source, look: Callable[[Moment], _T]) -> _T:
    """What a look gives during which nobody committed. Readers take no lock.

    Raises:
        FixtureIntegrityFailed: The look found a fault that no writer accounts for.
        StoreIo: Writers never paused long enough for one look.
    """
    for attempt in range(_MOST_LOOKS):
        before = _moment_of(source)
        fault: FixtureIntegrityFailed | None = None
        try:
            found = look(before)
        except FixtureIntegrityFailed as error:  # a file that was listed may be gone by now, and rightly so
            fault = error
        if _moment_of(source) == before:
            if fault is not None:
                raise fault
            return found
        time.sleep(min(0.001 * 2**attempt, _LONGEST_PAUSE_S))
    raise StoreIo(f"the store changed during each of {_MOST_LOOKS} attempts to read it")


@pause_gc()
def check_opening(source: Source) -> CheckReport:
    """What can be told before anything is asked: of an index with shards, the root alone."""
    return look_until_stable(source, lambda moment: _look_at_listing(source, moment, is_lazy=True))


@pause_gc()
def check_listing(source: Source) -> CheckReport:
    """The index, and that it lists what is there; no file but the index is opened."""
    return look_until_stable(source, lambda moment: _look_at_listing(source, moment))


@pause_gc()
def check_store(
    source: Source,
    *,
    content: bool = True,
    keep: bool = False,
    progress: Progress | None = None,
    note: Note = forget,
) -> CheckReport:
    """Everything: the index, the listing, and every listed file.

    Args:
        source: Where the store is.
        content: Whether to read what the files say too, or only that their bytes are the listed ones.
        keep: Whether to keep each trusted fixture's bytes in the report.
        progress: Called now and then with the number of files checked so far, and of all.
        note: Gets each trusted recording with its path, if its content is read; perhaps more than once.
    """
    return look_until_stable(
        source,
        lambda moment: _look_at_everything(
            source, moment, content=content, keep=keep, progress=progress, note=note
        ),
    )


def _look_at_listing(source: Source, moment: Moment, *, is_lazy: bool = False) -> CheckReport:
    data, journal = moment
    report = CheckReport(journal=trust_journal(journal))
    if isinstance(data, Finding):
        report.findings.append(replace(data, code="index-unreadable", hint=data.hint or hints.NO_INDEX))
        return report
    try:
        report.index, report.root = trust.trust_index(data), data
    except Untrusted as error:
        report.findings.append(error.finding)
        return report
    report.layout = trust.layout_of(report.index, source.has_folder(NESTED_FOLDER))
    if report.index.shards and is_lazy:
        return report
    if report.index.shards:
        report.index, findings = try_shards(source, report.index)
        report.findings += findings
        report.findings += _find_strays(source, report)
    report.findings += trust.trust_rows(report.index, report.layout)
    _compare_listing(source, report)
    return report


def _find_strays(source: Source, report: CheckReport) -> list[Finding]:
    """What stands among the shards and is none: T4 for the folder of the shards."""
    listing = source.list_files(SHARDS_FOLDER)
    shards = {shard.path for shard in report.index.shards}
    return listing.findings + [
        Finding("unlisted", escape(path), f"is not listed in {INDEX_NAME}", hints.STRAY_SHARD)
        for path in sorted(listing.files - shards - report.journal.moving)
    ]


def check_place_of_new(source: Source) -> CheckReport:
    """What stands where a new store is to be, and would have to be listed in it."""
    report = CheckReport()
    if source.has_folder(NESTED_FOLDER):
        report.layout = trust.layout_of(report.index, has_nested_folder=True)
        _compare_listing(source, report)
    return report


def _compare_listing(source: Source, report: CheckReport) -> None:
    listing = source.list_files(report.layout.folder)
    special = {finding.path for finding in listing.findings}
    report.findings += listing.findings
    listed = set(map(itemgetter(0), report.index.rows))
    if listed == listing.files:
        return  # as nearly always
    gone = listed - listing.files
    if gone and source.elsewhere:  # then a file is missing if it cannot be had there, either
        report.elsewhere = frozenset(gone)
        listing.files |= gone
    differences = trust.compare_listing(report.index, report.layout, listing.files, report.journal.moving)
    if any(finding.code == "unlisted" for finding in differences):
        left_out = read_left_out(source)
        differences = [one for one in differences if one.code != "unlisted" or one.path not in left_out]
    report.findings += [finding for finding in differences if finding.path not in special]


def _look_at_everything(
    source: Source,
    moment: Moment,
    *,
    content: bool,
    keep: bool,
    progress: Progress | None,
    note: Note,
) -> CheckReport:
    report = _look_at_listing(source, moment)
    has_keys = report.has_keys
    keys: list[tuple[str, FixtureKey]] = []
    reported = {finding.path for finding in report.findings}
    # Rows that name one file say the same of it, or there is a finding: it is read once. The shared row comes
    # first, and stays.
    by_path = {row.path: row for row in reversed(report.index.rows)}
    rows = sort_by_links(by_path.values())
    if any(finding.code == "path-unsafe" for finding in report.findings):
        rows = [row for row in rows if path_problem(row.path) is None]
    examination = _Examination(source, report, content=content, keep=keep, note=note)
    contents = _bear_outage(_contents(source, report, rows), report)
    for count, (row, data) in enumerate(contents, start=1):
        if progress and count % _PROGRESS_STEP == 0:
            progress(count, len(rows))
        try:
            key = examination.examine(row, data)
            if key is not None and not has_keys:
                keys.append((row.path, key))
        except Untrusted as error:
            # It may be that of the file that this one continues, which others continue, too.
            if error.finding.path not in reported:
                reported.add(error.finding.path)
                report.findings.append(error.finding)
    if report.elsewhere:  # what was fetched came as it came
        report.findings.sort(key=lambda finding: finding.path)
        report.kept = dict(sorted(report.kept.items(), key=lambda item: item[1].path))
        report.redacted_requests.sort()
    report.files_checked = len(rows)
    report.findings += trust.duplicate_keys(keys)
    _hint_at_rerecords(source, report)
    return report


def _contents(source: Source, report: CheckReport, rows: list[Row]) -> Iterator[tuple[Row, bytes | Finding]]:
    """The bytes of all files; those that are not here are fetched at once."""
    if not report.elsewhere:
        return source.read_many(rows, trust.MAX_FIXTURE_BYTES)
    away = [row for row in rows if row.path in report.elsewhere]
    if report.index.parts or any(map(continued_by, rows)):  # a request that is put together needs others
        source.elsewhere.fetch(away)
    here = [row for row in rows if row.path not in report.elsewhere]
    return chain(source.read_many(here, trust.MAX_FIXTURE_BYTES), source.elsewhere.read_many(away))


def _bear_outage(
    contents: Iterator[tuple[Row, bytes | Finding]], report: CheckReport
) -> Iterator[tuple[Row, bytes | Finding]]:
    """All that there is, also where a bucket cannot be asked for the rest: what is wrong for certain counts
    for more than what could not be seen."""
    try:
        yield from contents
    except BucketError as error:
        if all(finding.code == "missing" for finding in report.findings):
            raise
        report.findings.append(Finding("missing", report.layout.folder, str(error)))


class _Examination:
    """Checks listed files, one after the other, and notes in a report what they are."""

    def __init__(self, source: Source, report: CheckReport, *, content: bool, keep: bool, note: Note) -> None:
        self._source = source
        self._report = report
        self._reads_content = content
        self._keeps = keep
        self._note = note
        self._complete = Links.of(report.index, partial(read_listed, source)).check
        self._glance: _Glance | None = None
        """Tells the key of a sound fixture without making a value of it, which a note would want to see."""
        if content and note is forget and len(report.index.fixtures) >= _FEWEST_FOR_GLANCE:
            from cortex_replay.store.glance import plain_key  # noqa: PLC0415 - a replay does without

            self._glance = plain_key

    def examine(self, row: Row, read: bytes | Finding) -> FixtureKey | None:
        """Check one file; the key, if its content was read and is that of a shared fixture.

        Raises:
            Untrusted: A rule is broken.
        """
        if isinstance(read, Finding):
            raise Untrusted(read)
        self._report.bytes_checked += len(read)
        # Most bytes are the expected ones, and are not asked about in a longer way.
        data = read if blake3_hex(read) == row.blake3 else confirm(self._source, row, read)
        if not self._reads_content:
            return None
        if isinstance(row, FixtureRow) or (isinstance(row, ScopedRow) and row.is_fixture):
            return self._examine_fixture(row, data)
        if isinstance(row, PartRow):
            trust.judge_part(row, data)
            if self._keeps:
                self._report.contents[row.path] = data
        else:
            self._note(row.path, trust.judge_exchange(row, data))
        return None

    def _examine_fixture(self, row: FixtureRow | ScopedRow, data: bytes) -> FixtureKey | None:
        key = self._glance(row, data) if self._glance else None
        if key is None:
            fixture = trust.judge_fixture(row, data, self._complete)
            key = fixture.key
            self._note(row.path, fixture)
            if fixture.is_request_redacted:
                self._report.redacted_requests.append(row.path)
        if self._keeps:
            self._report.contents[row.path] = data
            if isinstance(row, FixtureRow):
                self._report.kept[key] = row
        return key if isinstance(row, FixtureRow) else None


def read_fixture(
    source: Source, row: FixtureRow | ScopedRow, complete: Complete | None = None
) -> tuple[Fixture, bytes]:
    """Read, check and parse the one file of a row, and complete its request.

    Raises:
        Untrusted: It is not what the index vouches for.
    """
    data = read_listed(source, row)
    return trust.trust_fixture(row, data, complete), data


def read_exchange(source: Source, row: ExchangeRow | ScopedRow) -> Exchange:
    """Read, check and parse the one file of a row that is no fixture's.

    Raises:
        Untrusted: It is not what the index vouches for.
    """
    return trust.trust_exchange(row, read_listed(source, row))


def read_file(source: Source, path: str, max_bytes: int = trust.MAX_FIXTURE_BYTES) -> bytes:
    """The bytes of one file, unchecked.

    Raises:
        Untrusted: It is not there, or cannot be read.
    """
    return _bytes_of(source.read(path, max_bytes))


def read_listed(source: Source, file: NamedFile) -> bytes:
    """The bytes of a file that a row names, from wherever they can be had, unchecked.

    Raises:
        Untrusted: They cannot be had.
    """
    return _bytes_of(source.read_listed(file, trust.MAX_FIXTURE_BYTES))


def _bytes_of(read: bytes | Finding) -> bytes:
    if isinstance(read, Finding):
        raise Untrusted(read)
    return read


def confirm(source: Source, row: Row, data: bytes) -> bytes:
    """The bytes of a file that are those of its row (T5).

    Only a difference of bytes is looked at twice: the first look may have been a short read.

    Raises:
        Untrusted: They are others.
    """
    try:
        trust.check_bytes(row, data)
    except Untrusted as error:
        if error.finding.code != "mismatch":
            raise
        data = read_listed(source, row)
        trust.check_bytes(row, data)
    return data


def _hint_at_rerecords(source: Source, report: CheckReport) -> None:
    """Pair a missing file with an unlisted one of the same key: the index is older than both."""
    gone = {finding.path for finding in report.findings if finding.code == "missing"}
    unlisted = [finding.path for finding in report.findings if finding.code == "unlisted"]
    if not gone or not unlisted:
        return
    missing = {
        FixtureKey(row.model, row.prompt_hash): row.path
        for row in report.index.fixtures
        if row.path in gone and row.model is not None and row.prompt_hash is not None
    }
    paired: set[str] = set()
    for path in unlisted[:_MOST_REREAD]:
        data = source.read(path, hints.MOST_BYTES)
        key = _key_of(data) if isinstance(data, bytes) else None
        if key is not None and key in missing:
            paired |= {path, missing[key]}
    report.findings = [replace(f, hint=hints.STALE_INDEX) if f.path in paired else f for f in report.findings]


def _key_of(data: bytes) -> FixtureKey | None:
    try:
        return parse_fixture(data).key
    except FixtureError:
        return None
