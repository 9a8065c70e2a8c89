"""What changed between two sides of a store, for the person who reviews it. :mod:`.sides` reads the files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.errors import Finding
from cortex_replay.mcp.questions import name_call, server_in
from cortex_replay.mcp.summaries import end_of_script
from cortex_replay.store.changes import Essence, essence_of, essence_of_exchange
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Fixture
from cortex_replay.store.index.index import FixtureRow, Index, PartRow, Row, ScopedRow, content_key
from cortex_replay.store.merge.merge import compare_indexes
from cortex_replay.store.pairing import pair_questions
from cortex_replay.store.paths import escape
from cortex_replay.store.trust import Complete, Untrusted, trust_content, trust_exchange, trust_fixture
from cortex_replay.types import LlmRequest, LlmRole

__all__ = ["Addition", "Change", "Contents", "Recording", "Review", "read_kept", "review_changes"]

Contents = Iterable[tuple[str, object]]
"""Files by path, and their bytes where they could be read."""

_LONGEST: Final = 16 * 1024
"""Of a text that is kept; whoever shows it makes it shorter still."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A row, and what its file says; nothing where the file could not be read or trusted."""

    row: Row
    model: str | None
    request: LlmRequest | None = None
    exchange: str = ""
    """What an exchange is about, which has no request of ours."""
    answer: str = ""
    """The first line of the answer."""
    asked: str = ""
    """The whole of the last message of the user."""
    tests: frozenset[str] = frozenset()
    """The tests that recorded it."""
    essence: Essence | None = None
    """What it says, whatever its file looks like."""
    said: Fixture | Exchange | None = field(default=None, repr=False)
    """All that its file says."""

    @property
    def meta(self) -> Mapping[str, JsonValue]:
        """What it says of where it comes from."""
        return (None if self.said is None else self.said.meta) or {}

    @property
    def owners(self) -> frozenset[str]:
        """The scope that it answers, or else who recorded it: a scope, or tests. None if that is unknown."""
        if isinstance(self.row, ScopedRow):
            return frozenset([self.row.scope])
        scope = self.meta.get("scope")
        return frozenset([scope]) if isinstance(scope, str) and scope else self.tests

    @property
    def turns(self) -> int:
        """How far its conversation had come."""
        return 0 if self.request is None else len(self.request.messages)


@dataclass(frozen=True, slots=True)
class Addition:
    """A recording that is new, and the one that it takes the place of, if that is gone."""

    recording: Recording
    replaces: Recording | None = None
    why: str = ""
    """What the two have in common."""


@dataclass(frozen=True, slots=True)
class Change:
    """The same question, recorded anew."""

    before: Recording
    after: Recording

    @property
    def is_same_answer(self) -> bool:
        """Whether only the file differs."""
        return self.before.essence is not None and self.before.essence == self.after.essence


@dataclass(frozen=True, slots=True)
class Review:
    """Everything that changed."""

    added: list[Addition] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)
    removed: list[Recording] = field(default_factory=list)
    """Those too that an addition replaces."""
    pinned: list[ScopedRow] = field(default_factory=list)
    """What scopes were given that others had recorded, and is their own now; no file is new."""
    added_parts: list[PartRow] = field(default_factory=list)
    """What requests share, and did not before."""
    removed_parts: list[PartRow] = field(default_factory=list)
    kept: list[Recording] = field(default_factory=list)
    """What is the same on both sides, where that was asked for."""
    findings: list[Finding] = field(default_factory=list)
    """Why files of either side are not trusted; their recordings say nothing."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed at all."""
        return not (
            self.added
            or self.changed
            or self.removed
            or self.pinned
            or self.added_parts
            or self.removed_parts
        )


def review_changes(
    before: Index,
    after: Index,
    old_files: Contents,
    new_files: Contents,
    complete_old: Complete | None = None,
    complete_new: Complete | None = None,
) -> Review:
    """What changed from one index to another, with what the files say.

    Args:
        before: The index of then.
        after: The index of now.
        old_files: The files of then, at least those that are not there any more.
        new_files: The files of now, at least those that were not there.
        complete_old: How a request of then is put together that does not stand in its file whole.
        complete_new: The same of now.
    """
    rows = compare_indexes(before, after)
    files = {row.path: row.blake3 for row in before.rows}
    pinned = [row for row in rows.added if isinstance(row, ScopedRow) and files.get(row.path) == row.blake3]
    known = set(pinned)
    came = [row for row in rows.added if not isinstance(row, PartRow) and row not in known]
    went = [row for row in rows.removed if not isinstance(row, PartRow)]
    findings: list[Finding] = []
    old = _read([*went, *(row for row, _ in rows.changed)], old_files, complete_old, findings)
    new = _read([*came, *(row for _, row in rows.changed)], new_files, complete_new, findings)
    added, removed = [new[row] for row in came], [old[row] for row in went]
    return Review(
        _additions(added, removed),
        [Change(old[one], new[other]) for one, other in rows.changed],
        removed,
        pinned,
        [row for row in rows.added if isinstance(row, PartRow)],
        [row for row in rows.removed if isinstance(row, PartRow)],
        findings=findings,
    )


def _additions(added: Sequence[Recording], removed: Sequence[Recording]) -> list[Addition]:
    pairs = pair_questions(added, removed)
    return [
        Addition(one, removed[pairs[at].old], pairs[at].why) if at in pairs else Addition(one)
        for at, one in enumerate(added)
    ]


def read_kept(rows: Sequence[Row], files: Contents) -> list[Recording]:
    """Recordings without their requests, which are not looked at: who made them, when, and what was answered.

    Args:
        rows: Of the index.
        files: Their files. What is not trusted is left out.
    """
    return [one for one in _read(rows, files, None, [], is_brief=True).values() if one.said is not None]


def _read(
    rows: Sequence[Row],
    files: Contents,
    complete: Complete | None,
    findings: list[Finding],
    *,
    is_brief: bool = False,
) -> dict[Row, Recording]:
    wanted: dict[str, list[Row]] = {}
    for row in rows:
        wanted.setdefault(row.path, []).append(row)
    found = {row: Recording(row, content_key(row)[0]) for row in rows}
    seen: set[str] = set()
    for path, data in files if wanted else ():
        if isinstance(data, Finding):
            findings.append(data)
        if not isinstance(data, bytes):
            continue
        seen.add(path)
        for row in wanted.get(path, ()):
            try:
                found[row] = _brief(row, data) if is_brief else _recording(row, data, complete)
            except Untrusted as error:  # the row has to do
                findings.append(error.finding)
    known = {finding.path for finding in findings}
    missing = (escape(path) for path in wanted if path not in seen)
    findings += [Finding("missing", path, "cannot be read") for path in missing if path not in known]
    return found


def _recording(row: Row, data: bytes, complete: Complete | None) -> Recording:
    if isinstance(row, FixtureRow) or (isinstance(row, ScopedRow) and row.is_fixture):
        return _of_fixture(row, trust_fixture(row, data, complete))
    return Recording(row, None) if isinstance(row, PartRow) else _of_exchange(row, trust_exchange(row, data))


def _brief(row: Row, data: bytes) -> Recording:
    if isinstance(row, FixtureRow) or (isinstance(row, ScopedRow) and row.is_fixture):
        fixture = trust_content(row, data)
        asked = _last_user_text(fixture.request)[:_LONGEST]
        return Recording(
            row, fixture.key.model, fixture.request, asked=asked, tests=_tests(fixture), said=fixture
        )
    return _recording(row, data, None)


def _of_fixture(row: Row, fixture: Fixture) -> Recording:
    first = fixture.answers[0]
    calls = ", ".join(f"calls {call.name}" for call in first.tool_calls)
    several = f" (and {len(fixture.answers) - 1} more)" if len(fixture.answers) > 1 else ""
    return Recording(
        row,
        fixture.key.model,
        fixture.request,
        answer=(_first_line(first.text) or calls) + several,
        asked=_last_user_text(fixture.request)[:_LONGEST],
        tests=_tests(fixture),
        essence=essence_of(fixture),
        said=fixture,
    )


def _tests(fixture: Fixture) -> frozenset[str]:
    tests = (fixture.meta or {}).get("tests")
    return frozenset(map(str, tests)) if isinstance(tests, list) else frozenset()


def _of_exchange(row: Row, exchange: Exchange) -> Recording:
    request = exchange.request or {}
    if server_in(request) is not None:
        return _of_call(row, exchange, request)
    question = f"{request.get('method')} {request.get('path')} of {request.get('upstream')}"
    if exchange.match is not None:
        question = f"an error as answer {exchange.n}"
    status = f"status {exchange.wire.get('status')}"
    return Recording(
        row,
        content_key(row)[0],
        exchange=question[:_LONGEST],
        answer=status,
        asked=question[:_LONGEST],
        essence=essence_of_exchange(exchange),
        said=exchange,
    )


def _of_call(row: Row, exchange: Exchange, request: dict[str, JsonValue]) -> Recording:
    """An MCP call: what was called with what, and what came of it."""
    body = request.get("body")
    arguments = body.get("arguments") if isinstance(body, dict) else None
    question = f"{name_call(request)} {compact(arguments)}" if arguments else name_call(request)
    several = f" (and {len(exchange.then)} more)" if exchange.then else ""
    return Recording(
        row,
        content_key(row)[0],
        exchange=question[:_LONGEST],
        answer=f"{end_of_script(exchange.wire)[:_LONGEST]}{several}",
        asked=question[:_LONGEST],
        essence=essence_of_exchange(exchange),
        said=exchange,
    )


def _last_user_text(request: LlmRequest | None) -> str:
    """The last message of the user that has text."""
    messages = () if request is None else reversed(request.messages)
    spoken = (message.content for message in messages if message.role is LlmRole.USER)
    return next((text for text in spoken if text.strip()), "")


def _first_line(text: str) -> str:
    return next((line.strip() for line in text[:_LONGEST].splitlines() if line.strip()), "")
