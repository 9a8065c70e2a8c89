"""What a commit would do: a value, made from the present index and the wanted changes. No I/O.

Answers belong to scopes (`docs/adr/0012-answers-belong-to-scopes.md`). What a scope has under a key is a
*sequence*: a fixture and the failures between its answers, or an opaque exchange. What one scope changes
under one key is put together first. Then the sequence gets its place:

* where nothing is shared yet, it becomes the shared one, and the scope is its owner;
* where it says what the shared one says, no file comes: the rows of the scope name the shared files;
* where it says something else, it takes the place of the shared one only if the scope owns that. Other scopes
  keep what they have: their rows still name the old files, and a former owner gets rows that do.

A file goes with the last row that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from cortex_replay.errors import FixtureConflict
from cortex_replay.store.changes import Add, Changes, Essence, Pin, Remove, Said, StoreChanged
from cortex_replay.store.fixture import FixtureKey
from cortex_replay.store.index.index import (
    ExchangeRow,
    FixtureRow,
    Index,
    PartRow,
    Row,
    RowKey,
    ScopedRow,
    content_key,
    continued_by,
    row_key,
    rows_by_key,
)
from cortex_replay.store.trust import Layout

__all__ = ["plan_changes"]

_Sequence = dict[str | None, Row]
"""The rows of one scope under one key, by the number of a failure; the fixture, or the exchange, has none."""


class _Subject(NamedTuple):
    """What a sequence is about."""

    model: str | None
    prompt_hash: str | None
    key: str | None


def plan_changes(
    index: Index,
    wanted: Iterable[Add | Remove | Pin],
    read: Callable[[Row], Said],
    layout: Layout = Layout.NESTED,
) -> Changes:
    """What ``wanted`` comes to, one after the other, on top of ``index``.

    Args:
        index: What is committed now, by whomever. Every row has its key.
        wanted: The changes in the order they were asked for.
        read: What the trusted file of a committed row says; asked only where a key is taken.
        layout: Where the files stand.

    Raises:
        FixtureConflict: A key has another answer already, and the change does not overwrite.
        StoreChanged: There is something else than what was to be removed.
    """
    planner = _Planner(index, read)
    for change in wanted:
        planner.take(change)
    return planner.finish(layout)


class _Planner:
    """A class to hold what the rows and the changes come to while they are gone through."""

    def __init__(self, index: Index, read: Callable[[Row], Said]) -> None:
        self._index = index
        self._read = read
        self._before: dict[RowKey, Row] = rows_by_key(index)
        self._after = dict(self._before)
        self._files = {row.path: row for row in index.rows}
        self._members: dict[_Subject, dict[str, _Sequence]] = {}
        """By what they are about, the rows of each scope; under "" the shared exchanges."""
        for row in index.exchanges:
            self._list(row)
        for scoped in index.scoped:
            self._list(scoped)
        self._open: dict[tuple[str, _Subject], _Sequence] = {}
        self._exact: set[tuple[str, _Subject]] = set()
        self._added: dict[str, Add] = {}
        self._dropped: list[Add] = []
        self._said: dict[str, Said] = {}

    def take(self, change: Add | Remove | Pin) -> None:
        """Apply one change to the sequence of its scope."""
        if isinstance(change, Pin):
            self._pin(change)
            return
        if isinstance(change, Remove):
            model, prompt_hash, n, key = change.key
            sequence = self._sequence(change.scope, _Subject(model, prompt_hash, key))
            if change.files and change.files != {row.blake3 for row in sequence.values()}:
                raise StoreChanged
            if n is None:
                sequence.clear()
            else:
                sequence.pop(n, None)
            return
        subject, n = _place_of(change.row)
        self._add(self._sequence(change.scope, subject), n, change)
        if change.is_exact:
            self._exact.add((change.scope, subject))

    def _add(self, sequence: _Sequence, n: str | None, change: Add) -> None:
        row = sequence.get(n)
        if row is not None:
            is_committed = row.path not in self._added
            there, said = self._essence(row, change.is_exact), _essence_in(change.said, change.is_exact)
            # Whatever times, ids and usage say, a committed file stays untouched. Of what is only staged, the
            # last word counts: it may know more.
            if _is_known(change, said, there) and (is_committed or there != said):
                return
            if not change.overwrite and said[: len(there)] != there:
                if not change.keep_existing:
                    raise FixtureConflict(
                        change.row.model or "", change.row.prompt_hash or change.row[-1] or ""
                    )
                self._dropped.append(change)
                return
        sequence[n], self._added[change.row.path] = change.row, change

    def _pin(self, change: Pin) -> None:
        subject, _ = _place_of(change.rows[0])
        place = change.scope, subject
        sequence = self._given(change, subject)
        if sequence and place not in self._open and not self._own(*place):
            self._open[place] = sequence

    def _given(self, change: Pin, subject: _Subject) -> _Sequence:
        """What a scope was given, as it is listed now, which also says what it continues.

        A file that was written in another form meanwhile has another path and hash: what is shared counts.
        """
        if all(_is_listed(row, self._files.get(row.path)) for row in change.rows):
            return {_place_of(row)[1]: self._files[row.path] for row in change.rows}
        shared = {n: row for n, row in self._shared(subject).items() if row_key(row) in self._before}
        return shared if shared.keys() == {_place_of(row)[1] for row in change.rows} else {}

    def _sequence(self, scope: str, subject: _Subject) -> _Sequence:
        """What a scope has under a key, to be changed; nothing where it only gets what others have."""
        place = scope, subject
        if place not in self._open:
            self._open[place] = dict(self._own(scope, subject))
        return self._open[place]

    def _own(self, scope: str, subject: _Subject) -> Mapping[str | None, Row]:
        if scope and (own := self._members.get(subject, {}).get(scope)):
            return own
        shared = self._shared(subject)
        return shared if not scope or self._owner(shared) == scope else {}

    def _shared(self, subject: _Subject) -> _Sequence:
        found = dict(self._members.get(subject, {}).get("", {}))
        if (fixture := self._after.get((subject.model, subject.prompt_hash))) is not None:
            found[None] = fixture
        return found

    def _owner(self, sequence: Mapping[str | None, Row]) -> str:
        """Who recorded a sequence: who recorded its answers, else its first failure."""
        if not sequence:
            return ""
        first = min(sequence, key=lambda n: (n is not None, n or ""))
        return self._say(sequence[first]).owner

    def finish(self, layout: Layout) -> Changes:
        """The plan, once all changes were taken."""
        for (scope, subject), sequence in self._open.items():
            self._place(scope, subject, sequence)
        if layout is Layout.FLAT:
            self._clear_top()
        listed = {row.path for row in self._after.values()}
        new = listed - self._files.keys()
        gone = {row.path: row for row in self._before.values() if row.path not in listed}
        return Changes(
            Index.of(self._after.values(), self._index.header),
            [change for path, change in self._added.items() if path in new],
            list(gone.values()),
            self._dropped,
            is_empty=self._after == self._before,
            keys=frozenset(
                FixtureKey(subject.model, subject.prompt_hash)
                for _, subject in self._open
                if subject.model is not None and subject.prompt_hash is not None
            ),
        )

    def _clear_top(self) -> None:
        """Drop rows of scopes that alone name a file at the top: ``crtx-llm`` wants those to be shared."""
        shared = {row.path for row in self._after.values() if isinstance(row, FixtureRow)}
        self._after = {
            key: row
            for key, row in self._after.items()
            if not isinstance(row, ScopedRow) or "/" in row.path or row.path in shared
        }

    def _place(self, scope: str, subject: _Subject, sequence: _Sequence) -> None:
        shared = self._shared(subject)
        owner = self._owner(shared) if scope or sequence else ""
        is_exact = (scope, subject) in self._exact
        if scope:
            self._unlist(scope, subject)
            if shared and owner != scope:
                self._place_apart(scope, subject, sequence, is_exact)
                return
        if self._is_same(sequence, shared, is_exact):
            return
        is_taken = bool(owner and sequence) and owner not in (scope, self._owner(sequence))
        if is_taken and not self._members.get(subject, {}).get(owner):
            self._list_all(owner, shared)
        self._unlist("", subject)
        self._list_all("", sequence)
        self._join(subject, sequence)

    def _join(self, subject: _Subject, shared: _Sequence) -> None:
        """Let the scopes that say what is shared now name its files, where they had files of their own."""
        own = {scope: dict(rows) for scope, rows in self._members.get(subject, {}).items() if scope}
        for scope, rows in own.items():
            if shared and self._is_same(rows, shared, is_exact=True):
                self._unlist(scope, subject)
                self._list_all(scope, shared)

    def _place_apart(self, scope: str, subject: _Subject, sequence: _Sequence, is_exact: bool) -> None:
        """Give a scope rows of its own, to files that are there where one says the same."""
        others = [rows for other, rows in self._members.get(subject, {}).items() if other not in ("", scope)]
        same = (
            known for known in (self._shared(subject), *others) if self._is_same(sequence, known, is_exact)
        )
        self._list_all(scope, dict(next(same, sequence)))

    def _is_same(self, one: _Sequence, other: _Sequence, is_exact: bool) -> bool:
        return one.keys() == other.keys() and all(
            row.blake3 == other[n].blake3 or self._essence(row, is_exact) == self._essence(other[n], is_exact)
            for n, row in one.items()
        )

    def _list_all(self, scope: str, sequence: _Sequence) -> None:
        for row in sequence.values():
            about, continues = content_key(row), continued_by(row)
            listed: Row
            if scope:
                listed = ScopedRow(*row[:2], *about, scope, continues)
            elif about[2] is None and about[3] is None:
                listed = FixtureRow(*row[:2], *about[:2], continues)
            else:
                listed = ExchangeRow(*row[:2], *about)
            self._after[row_key(listed)] = listed
            self._list(listed)

    def _list(self, row: Row) -> None:
        if isinstance(row, FixtureRow | PartRow):
            return  # its key alone finds it
        scope = row.scope if isinstance(row, ScopedRow) else ""
        subject, n = _place_of(row)
        self._members.setdefault(subject, {}).setdefault(scope, {})[n] = row

    def _unlist(self, scope: str, subject: _Subject) -> None:
        for row in self._members.get(subject, {}).pop(scope, {}).values():
            del self._after[row_key(row)]
        if not scope:
            self._after.pop((subject.model, subject.prompt_hash), None)

    def _essence(self, row: Row, is_exact: bool) -> Essence:
        return _essence_in(self._say(row), is_exact)

    def _say(self, row: Row) -> Said:
        if row.path in self._added:
            return self._added[row.path].said
        if row.path not in self._said:
            self._said[row.path] = self._read(row)
        return self._said[row.path]


def _place_of(row: Row) -> tuple[_Subject, str | None]:
    model, prompt_hash, n, key = content_key(row)
    return _Subject(model, prompt_hash, key), n


def _is_listed(row: Row, listed: Row | None) -> bool:
    return listed is not None and (listed.blake3, content_key(listed)) == (row.blake3, content_key(row))


def _essence_in(said: Said, is_exact: bool) -> Essence:
    return said.exact if is_exact else said.essence


def _is_known(change: Add, said: Essence, there: Essence) -> bool:
    """Whether what is there says all that the change does; an overwriting one wants nothing beside it."""
    return there == said or (not change.overwrite and there[: len(said)] == said)
