"""Requests that do not stand in their file whole: what they continue, and what they share.

A conversation is stored once (`docs/adr/0016-a-conversation-is-stored-once.md`). A fixture may say which
recorded request its own continues, by that request's prompt hash, and hold the new messages only; and it may
name a *part*, a file with a system text or with tools that many fixtures share, by its BLAKE3. Here a request
is put together again. Every file on the way is held to the rules as if it were served itself: its bytes are
those of its row, and its request hashes to its key.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from cortex_replay.errors import Finding, InvalidRequest
from cortex_replay.store.fixture import Fixture, FixtureKey, RequestLink
from cortex_replay.store.index.index import FixtureRow, Index, PartRow, Row, ScopedRow, continued_by
from cortex_replay.store.index.named_file import NamedFile
from cortex_replay.store.index.rows import parents_in
from cortex_replay.store.trust import Untrusted, trust_content, trust_part, trust_prompt_hash
from cortex_replay.types import LlmMessage, LlmRequest
from cortex_replay.types.prompt_hasher import PromptHasher

__all__ = ["FileRow", "Links", "sort_by_links"]

FileRow = FixtureRow | ScopedRow
"""A row of a fixture."""

_MOST_KNOWN: Final = 1024
"""How many requests are remembered, each with all that it continues. Reading parents before children needs
the last one only."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class _Known:
    """A request that was put together and checked, as a step from the one that it continues."""

    start: LlmRequest
    """That of the file at the beginning, which continues no other."""
    before: _Known | None
    messages: tuple[LlmMessage, ...]
    """Those that it adds."""
    hasher: PromptHasher
    is_redacted: bool = False

    def request(self, last: tuple[_Known, LlmRequest] | None) -> LlmRequest:
        """The request, whole; ``last`` is another one that may be on the way, and its request."""
        near, whole = last or (None, self.start)
        steps: list[tuple[LlmMessage, ...]] = []
        step = self
        while step.before is not None and step is not near:
            steps.append(step.messages)
            step = step.before
        begin = whole if step is near else self.start
        return begin.continue_with(tuple(chain.from_iterable(reversed(steps)))) if steps else begin


class _Step(NamedTuple):
    """A file on the way back to the beginning."""

    row: FileRow
    key: FixtureKey
    messages: tuple[LlmMessage, ...]


class Links:
    """Puts the requests of a store together. A class to remember those that others continue."""

    def __init__(
        self,
        find: Callable[[FixtureKey], FileRow | None],
        find_part: Callable[[str], PartRow | None],
        read: Callable[[NamedFile], bytes],
    ) -> None:
        """Know where to look.

        Args:
            find: The row of a key: the shared one, else that of any scope.
            find_part: The row of a part, by its hash.
            read: The bytes of the file of a row; raises :class:`Untrusted` if there are none.
        """
        self._find = find
        self._find_part = find_part
        self._read = read
        self._known: WeakValueDictionary[str, _Known] = WeakValueDictionary()
        """By the hash of the file, those that are remembered, and all that they continue."""
        self._recent: OrderedDict[str, _Known] = OrderedDict()
        self._last: tuple[_Known, LlmRequest] | None = None
        """What was put together last. A replay mostly goes on from there."""
        self._parts: dict[str, Mapping[str, Any]] = {}
        self._broken: dict[str, Finding] = {}
        """By the hash of the file, what a check found: else each of a long chain would be gone back over."""

    @classmethod
    def of(cls, index: Index, read: Callable[[NamedFile], bytes]) -> Links:
        """Those of an index that is in memory as a whole."""
        files = chain(index.fixtures, index.scoped)
        rows = parents_in(index) if any(map(attrgetter("continues"), files)) else {}
        parts = {row.blake3: row for row in index.parts}
        return cls(rows.get, parts.get, read)

    def complete(self, row: FileRow, fixture: Fixture) -> Fixture:
        """A fixture with its whole request, which is what its key says (T8).

        Raises:
            Untrusted: What it names is not there, or not as the index says; or the request is another one.
        """
        if fixture.link is None:
            return fixture
        known = self._know(row, fixture, [])
        request = known.request(self._last)
        self._last = known, request
        return replace(fixture, request=request, link=None)

    def check(self, row: FileRow, fixture: Fixture) -> Fixture:
        """The fixture as it is, once its request was held to the same rules as by :meth:`complete`.

        For who looks at a store once: what is broken stays so.

        Raises:
            Untrusted: As there.
        """
        if fixture.link is not None:
            steps: list[_Step] = []
            try:
                self._know(row, fixture, steps)
            except Untrusted as error:
                self._broken |= dict.fromkeys((step.row.blake3 for step in steps), error.finding)
                raise
        return fixture

    def _know(self, row: FileRow, fixture: Fixture, steps: list[_Step]) -> _Known:
        """Go back to a request that is whole or known, then forward again.

        Args:
            row: Of the fixture.
            fixture: Whose request is wanted.
            steps: Empty; holds afterwards what is not known.
        """
        seen: set[str] = set()
        known = self._recall(row)
        while known is None:
            link = fixture.link
            if row.blake3 in self._broken:
                raise Untrusted(self._broken[row.blake3])
            if link is None or link.continues is None:
                known = self._begin(row, fixture)
                break
            if fixture.is_request_redacted:
                raise _refusal(row, "a secret was cut out of its request, so it cannot continue another")
            if row.blake3 in seen:
                raise _refusal(row, "its request continues itself")
            seen.add(row.blake3)
            steps.append(_Step(row, fixture.key, link.messages))
            row = self._parent(row, FixtureKey(fixture.key.model, link.continues))
            known = self._recall(row)
            if known is None:
                fixture = trust_content(row, self._read(row))
        if known is None or (steps and known.is_redacted):
            raise _refusal(steps[-1].row, f"its request continues {row.path}, which has none to check")
        while steps:
            known = self._go_on(steps[-1], known)
            steps.pop()
        return known

    def _begin(self, row: FileRow, fixture: Fixture) -> _Known | None:
        """The request of a fixture that continues no other, if it has one."""
        request = fixture.request if fixture.link is None else self._join(row, fixture.key, fixture.link)
        if request is None:
            return None
        hasher = request.hasher()
        for message in request.messages:
            hasher.add(message)
        if not fixture.is_request_redacted:
            trust_prompt_hash(row, fixture.key, hasher.prompt_hash())
        return self._remember(row, _Known(request, None, (), hasher, fixture.is_request_redacted))

    def _go_on(self, step: _Step, before: _Known) -> _Known:
        hasher = before.hasher.copy()
        for message in step.messages:
            hasher.add(message)
        trust_prompt_hash(step.row, step.key, hasher.prompt_hash())
        return self._remember(step.row, _Known(before.start, before, step.messages, hasher))

    def _recall(self, row: FileRow) -> _Known | None:
        known = self._known.get(row.blake3)
        return None if known is None else self._remember(row, known)

    def _remember(self, row: FileRow, known: _Known) -> _Known:
        self._known[row.blake3] = self._recent[row.blake3] = known
        self._recent.move_to_end(row.blake3)
        if len(self._recent) > _MOST_KNOWN:
            self._recent.popitem(last=False)
        return known

    def _parent(self, child: FileRow, key: FixtureKey) -> FileRow:
        row = self._find(key)
        if row is None:
            raise _refusal(child, f"its request continues {key.prompt_hash[:16]}, which is not recorded")
        return row

    def _join(self, row: FileRow, key: FixtureKey, link: RequestLink) -> LlmRequest:
        shared = {name: self._part(row, name, digest) for name, digest in link.parts.items()}
        try:
            return LlmRequest.from_dict({"model": key.model, **link.own, **shared})
        except InvalidRequest as error:
            raise _refusal(row, f"its request is none: {error.field}: {error.reason}") from None

    def _part(self, row: FileRow, name: str, digest: str) -> Any:
        if digest not in self._parts:
            part = self._find_part(digest)
            if part is None:
                raise _refusal(row, f"its {name} is in a part {digest[:16]} that is not listed")
            self._parts[digest] = trust_part(part, self._read(part))
        found = self._parts[digest]
        if name not in found:
            raise _refusal(row, f"its {name} is in a part {digest[:16]} that has none")
        return found[name]


def sort_by_links(rows: Iterable[Row]) -> list[Row]:
    """The rows by path, but what continues another behind it: so each file needs to be read once.

    Those that continue nothing that is listed, or each other in a circle, come last.
    """
    ordered = sorted(rows, key=itemgetter(0))
    if set(map(continued_by, ordered)) <= {None}:
        return ordered
    waiting: defaultdict[tuple[str | None, str], list[Row]] = defaultdict(list)
    begin: list[Row] = []
    for row in ordered:
        parent = continued_by(row)
        if parent is None or not isinstance(row, FixtureRow | ScopedRow):
            begin.append(row)
        else:
            waiting[row.model, parent].append(row)
    done: list[Row] = []
    stack = begin[::-1]
    while stack:
        row = stack.pop()
        done.append(row)
        if isinstance(row, FixtureRow | ScopedRow) and row.prompt_hash is not None:
            stack += reversed(waiting.pop((row.model, row.prompt_hash), []))
    return [*done, *chain.from_iterable(waiting.values())]


def _refusal(row: FileRow, reason: str) -> Untrusted:
    return Untrusted(Finding("link-broken", row.path, reason))
