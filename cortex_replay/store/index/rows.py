"""The rows of an index, by what they are looked up by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from operator import attrgetter, itemgetter
from typing import NamedTuple, cast

from cortex_replay.store.fixture import FixtureKey
from cortex_replay.store.index.index import ExchangeRow, FixtureRow, Index, PartRow, ScopedRow

__all__ = ["Own", "Place", "Rows", "parents_in"]


class Own(NamedTuple):
    """What a scope has of its own under one key."""

    fixture: ScopedRow | None
    """The row of its fixture, or of its opaque exchange."""
    failures: list[ScopedRow]


Place = tuple[str, str | None, str | None]
"""A scope, and a key in it: that of a fixture, or ``None`` and that of an opaque exchange."""


class Rows:
    """All that a reader asks of an index. Every row has its key here."""

    def __init__(self, index: Index, fixtures: Mapping[FixtureKey, FixtureRow] | None = None) -> None:
        """Take the rows of an index.

        Args:
            index: The index.
            fixtures: Its shared fixtures by key, where the index itself does not tell the keys.
        """
        self._fixtures = dict(fixtures) if fixtures else _fixtures_by_key(index)
        self._failures = _failures_by_key(index)
        self._opaque = {row.key: row for row in index.exchanges if row.key is not None}
        self._own = _own_by_place(index)
        self._parts = {row.blake3: row for row in index.parts}
        self.scopes = frozenset(row.scope for row in index.scoped)
        """The scopes that have answers of their own."""

    def __len__(self) -> int:
        return len(self._fixtures)

    def fixture(self, key: FixtureKey) -> FixtureRow | None:
        """The shared fixture of a key."""
        return self._fixtures.get(key)

    def failures(self, key: FixtureKey) -> list[ExchangeRow]:
        """The shared failures of a key."""
        return self._failures.get(key, [])

    def opaque(self, key: str) -> ExchangeRow | None:
        """The shared exchange of a key."""
        return self._opaque.get(key)

    def own(self, key: FixtureKey, scope: str) -> Own | None:
        """What a scope has of its own under a key."""
        return self._own.get((scope, *key)) if scope in self.scopes else None

    def own_opaque(self, key: str, scope: str) -> ScopedRow | None:
        """The exchange that a scope has of its own under a key."""
        own = self._own.get((scope, None, key)) if scope in self.scopes else None
        return None if own is None else own.fixture

    def parent(self, key: FixtureKey) -> FixtureRow | ScopedRow | None:
        """A row of a key whose request others may continue: the shared one, else that of any scope."""
        shared = self._fixtures.get(key)
        return self._of_scopes.get(key) if shared is None else shared

    @cached_property
    def _of_scopes(self) -> dict[tuple[str | None, ...], ScopedRow]:
        """By key, the fixture of the first scope that has one."""
        return _by_key(own.fixture for own in self._own.values() if own.fixture is not None)

    def part(self, digest: str) -> PartRow | None:
        """The part with a hash."""
        return self._parts.get(digest)

    def fixtures(self, model: str | None = None) -> Iterator[tuple[FixtureKey, FixtureRow]]:
        """Every shared fixture and its key; those of a model first, if one is named."""
        if model is None:
            yield from self._fixtures.items()
            return
        yield from (one for one in self._fixtures.items() if one[0][0] == model)
        yield from (one for one in self._fixtures.items() if one[0][0] != model)

    def opaques(self) -> Iterator[tuple[str, ExchangeRow]]:
        """Every shared exchange and its key."""
        yield from self._opaque.items()

    def owns(self) -> Iterator[tuple[Place, Own]]:
        """What scopes have of their own: the scope, and the two halves of a key, or ``None`` and that of an
        exchange."""
        yield from self._own.items()

    def all_failures(self) -> Iterator[ExchangeRow]:
        """Every shared failure."""
        return chain.from_iterable(self._failures.values())

    def count_failures(self) -> int:
        """How many shared failures there are."""
        return sum(map(len, self._failures.values()))

    def count_own(self) -> int:
        """How many sequences are those of single scopes."""
        return len(self._own)


def parents_in(index: Index) -> dict[tuple[str | None, ...], FixtureRow | ScopedRow]:
    """By key, the row whose request others may continue: the shared one, else that of the first scope."""
    found: dict[tuple[str | None, ...], FixtureRow | ScopedRow] = {**_by_key(index.scoped)}
    found.update(zip(map(itemgetter(2, 3), index.fixtures), index.fixtures, strict=True))
    return found


def _by_key(rows: Iterable[ScopedRow]) -> dict[tuple[str | None, ...], ScopedRow]:
    fixtures = sorted((row for row in rows if row.is_fixture), key=attrgetter("scope"), reverse=True)
    return {row[2:4]: row for row in fixtures}


def _own_by_place(index: Index) -> dict[Place, Own]:
    own: dict[Place, Own] = {}
    for row in index.scoped:
        place: Place = (
            (row.scope, row.model, row.prompt_hash) if row.key is None else (row.scope, None, row.key)
        )
        if row.n is None:
            own[place] = Own(row, own[place].failures if place in own else [])
        else:
            own.setdefault(place, Own(None, [])).failures.append(row)
    return own


def _failures_by_key(index: Index) -> dict[tuple[str | None, ...], list[ExchangeRow]]:
    failures: dict[tuple[str | None, ...], list[ExchangeRow]] = {}
    for row in index.exchanges:
        if row.n is not None:
            failures.setdefault((row.model, row.prompt_hash), []).append(row)
    return failures


def _fixtures_by_key(index: Index) -> dict[FixtureKey, FixtureRow]:
    """A plain pair finds what a :class:`FixtureKey` would."""
    pairs = cast("Iterable[FixtureKey]", map(itemgetter(2, 3), index.fixtures))
    return dict(zip(pairs, index.fixtures, strict=True))
