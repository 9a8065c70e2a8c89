"""Computing keys anew from stored requests, after a change of what the key is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol, TypeVar

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import Finding, FixtureConflict, FixtureIntegrityFailed
from cortex_replay.hashing import blake3_hex
from cortex_replay.progress import Progress
from cortex_replay.store import trust
from cortex_replay.store.changes import (
    Essence,
    Remove,
    StoreChanged,
    essence_of,
    essence_of_exchange,
    new_exchange,
    new_fixture,
)
from cortex_replay.store.check import check_store, look_until_stable, read_exchange
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange, render_exchange
from cortex_replay.store.fixture import Fixture, FixtureKey
from cortex_replay.store.fixture_json import FixtureError, parse_fixture, parse_part, render_fixture
from cortex_replay.store.index.index import ExchangeRow, FixtureRow, Index, PartRow, ScopedRow
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.store.requests.assembly import Assembly
from cortex_replay.store.requests.unused_parts import drop_unused_parts
from cortex_replay.store.state import translate_errors
from cortex_replay.store.trust import Layout, Untrusted
from cortex_replay.store.writer import StoreWriter

__all__ = ["ExchangeChange", "KeyChange", "RekeyPlan", "Renewal", "apply_rekey", "plan_rekey"]


_T = TypeVar("_T")
_MOST_PLANS: Final = 20


class Renewal(Protocol):
    """What is stored for a recording, by the rules of today; it need not know how stores are laid out."""

    def fixture(self, fixture: Fixture) -> Fixture:
        """The same recording as it is stored now, under its key of now."""

    def failure(self, failure: Exchange, fixture: Fixture) -> Exchange:
        """A failure of a recording, as it is stored now.

        Args:
            failure: As it is stored.
            fixture: The recording, as it is stored: what was asked.
        """

    def exchange(self, exchange: Exchange) -> Exchange:
        """A call that is recorded as it is, as it is stored now, under its key of now."""


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One fixture that moves to another key."""

    path: str
    old: FixtureKey
    fixture: Fixture
    """As it will be written."""
    scope: str = ""
    """Whose it is, where it is not shared."""
    files: frozenset[str] = frozenset()
    """The hashes of what goes: the listed file, and those of its failures."""


@dataclass(frozen=True, slots=True)
class ExchangeChange:
    """One call that is recorded as it is, and moves to another key."""

    path: str
    old: str
    exchange: Exchange
    """As it will be written."""
    scope: str = ""
    files: frozenset[str] = frozenset()
    """The hash of the listed file, which goes."""


@dataclass(slots=True)
class RekeyPlan:
    """Which fixtures get another key, which keep theirs, and which cannot be told."""

    layout: Layout
    moving: list[KeyChange] = field(default_factory=list)
    unchanged: int = 0
    without_request: list[str] = field(default_factory=list)
    """The fixture does not hold its request, or a secret was cut out of it."""
    colliding: list[tuple[str, str]] = field(default_factory=list)
    """Two files whose requests have one key now, with different answers."""
    joining: list[tuple[str, str, bool]] = field(default_factory=list)
    """Two files whose requests have one key now, and whose answers are the same; and whether they are known
    to be one call of their scope, recorded twice."""
    failures: list[tuple[str, Exchange]] = field(default_factory=list)
    """Those of the keys that move, under their new ones, each with its scope."""
    exchanges: list[ExchangeChange] = field(default_factory=list)
    """Calls that are recorded as they are, and move to another key."""

    def apply(self, source: DirectorySource) -> None:
        """Write the fixtures under their new keys, in one commit.

        Raises:
            FixtureConflict: Another process recorded something else under one of the new keys.
            StoreChanged: Another process changed one of the recordings that move; see :func:`apply_rekey`.
        """
        writer = StoreWriter(source, self.layout)
        try:
            for item in self.moving:
                writer.stage(Remove((*item.old, None, None), item.scope, files=item.files))
            for call in self.exchanges:
                writer.stage(Remove((None, None, None, call.old), call.scope, files=call.files))
            with translate_errors():
                for item in self.moving:
                    data = render_fixture(item.fixture)
                    key, scope = item.fixture.key, item.scope
                    writer.stage(new_fixture(self.layout, key, data, scope=scope, is_exact=True), data)
                calls = [(call.scope, call.exchange) for call in self.exchanges]
                for scope, exchange in (*self.failures, *calls):
                    data = render_exchange(exchange)
                    writer.stage(new_exchange(self.layout, exchange, data, scope=scope, is_exact=True), data)
            writer.commit()
            with suppress(StoreChanged):  # they are dropped next time; the keys have changed
                drop_unused_parts(source, self.layout)
        except BaseException:
            writer.discard()  # it can be planned again; nobody should adopt half of it
            raise


def plan_rekey(
    source: DirectorySource,
    renew: Renewal,
    *,
    accept_changed: bool = False,
    progress: Progress | None = None,
) -> RekeyPlan:
    """Compare every stored request's key with the key it stands under.

    Args:
        source: Where the store is.
        renew: What is stored for a recording now.
        accept_changed: Whether files whose bytes are not the listed ones may be taken as they are.
        progress: Called now and then with the number of files checked so far, and of all.

    Raises:
        FixtureIntegrityFailed: The store has other faults than keys that do not fit their requests.
        StoreIo: Writers never paused long enough for one look.
    """
    return look_until_stable(source, lambda _: _plan_once(source, renew, accept_changed, progress))


def apply_rekey(source: DirectorySource, plan: RekeyPlan, plan_again: Callable[[], RekeyPlan]) -> RekeyPlan:
    """Make a plan come true, and give the one that did.

    Where another process changed what moves since it was planned, its answers count: it is planned again.

    Args:
        source: Where the store is.
        plan: What is to be done.
        plan_again: Makes the plan anew.

    Returns:
        What was done; or a plan with collisions, of which nothing was done.

    Raises:
        StoreChanged: Others changed it each time.
    """
    for _ in range(_MOST_PLANS):
        if plan.colliding:
            return plan
        try:
            plan.apply(source)
        except (StoreChanged, FixtureConflict):
            plan = plan_again()
        else:
            return plan
    raise StoreChanged


def _plan_once(
    source: DirectorySource, renew: Renewal, accept_changed: bool, progress: Progress | None
) -> RekeyPlan:
    report = check_store(source, progress=progress)
    ours = {"request-mismatch", "mismatch"} if accept_changed else {"request-mismatch"}
    faults = [finding for finding in report.findings if finding.code not in ours]
    if faults:
        raise FixtureIntegrityFailed(faults)
    plan = RekeyPlan(report.layout)
    taken: dict[tuple[str, FixtureKey], tuple[str, Fixture]] = {}
    befores: dict[tuple[str, FixtureKey], Fixture] = {}
    others: list[ExchangeRow | ScopedRow] = [*report.index.exchanges, *report.index.scoped]
    failures: dict[tuple[str, FixtureKey], list[str]] = {}
    for one in others:
        if one.n is not None:
            place = one.scope if isinstance(one, ScopedRow) else "", _key_of(one)
            failures.setdefault(place, []).append(one.blake3)
    rows: list[FixtureRow | ScopedRow] = [*report.index.fixtures]
    rows += [row for row in report.index.scoped if row.is_fixture]
    for row, stored, is_as_listed in _whole_fixtures(source, report.index, rows):
        path, scope = row.path, row.scope if isinstance(row, ScopedRow) else ""
        old = _listed_key(row, stored)
        is_known = stored.request is not None and not stored.is_request_redacted
        was = replace(stored, key=old)
        fixture = renew.fixture(was) if is_known else stored
        new = fixture.key
        other = taken.setdefault((scope, new), (path, fixture))
        if essence_of(other[1]) != essence_of(fixture):
            plan.colliding.append((other[0], path))
        elif other[0] != path:
            calls = [(one.meta or {}).get("call") for one in (other[1], fixture)]
            plan.joining.append((other[0], path, calls[0] is not None and calls[0] == calls[1]))
        if not is_known:
            plan.without_request.append(path)
        elif fixture == was and is_as_listed:
            plan.unchanged += 1
        else:
            files = frozenset([row.blake3, *failures.get((scope, old), ())])
            plan.moving.append(KeyChange(path, old, fixture, scope, files))
            befores[scope, old] = was
    _move_failures(plan, source, others, renew, befores)
    _move_exchanges(plan, source, [row for row in others if row.key is not None], renew)
    return plan


def _move_failures(
    plan: RekeyPlan,
    source: DirectorySource,
    rows: Sequence[ExchangeRow | ScopedRow],
    renew: Renewal,
    befores: Mapping[tuple[str, FixtureKey], Fixture],
) -> None:
    moved = {(item.scope, item.old): item for item in plan.moving}
    taken: dict[tuple[str | None, ...], tuple[str, Essence]] = {}
    for row in rows:
        scope = row.scope if isinstance(row, ScopedRow) else ""
        item = moved.get((scope, _key_of(row)))
        if item is not None and row.n is not None:
            failure = renew.failure(read_exchange(source, row), befores[scope, item.old])
            failure = replace(failure, match=item.fixture.key)
            place = (scope, *failure.row_key)
            path, essence = taken.setdefault(place, (row.path, essence_of_exchange(failure)))
            if essence != essence_of_exchange(failure):
                plan.colliding.append((path, row.path))
            plan.failures.append((scope, failure))


def _move_exchanges(
    plan: RekeyPlan, source: DirectorySource, rows: Sequence[ExchangeRow | ScopedRow], renew: Renewal
) -> None:
    taken: dict[tuple[str, str | None], tuple[str, Essence]] = {}
    for row in rows:
        scope = row.scope if isinstance(row, ScopedRow) else ""
        was = read_exchange(source, row)
        now = renew.exchange(was)
        path, essence = taken.setdefault((scope, now.key), (row.path, essence_of_exchange(now)))
        if essence != essence_of_exchange(now):
            plan.colliding.append((path, row.path))
        elif path != row.path:
            plan.joining.append((path, row.path, False))
        if now != was:
            files = frozenset([row.blake3])
            plan.exchanges.append(ExchangeChange(row.path, row.key or "", now, scope, files))


def _whole_fixtures(
    source: DirectorySource, index: Index, rows: Sequence[FixtureRow | ScopedRow]
) -> Iterator[tuple[FixtureRow | ScopedRow, Fixture, bool]]:
    """Every fixture as its file is now, with its whole request, and whether it has the bytes of its row."""
    parts = {row.blake3: row for row in index.parts}
    assembly = Assembly(partial(_read_part, source, parts))
    read: list[tuple[FixtureRow | ScopedRow, Fixture, bool]] = []
    for row, data in source.read_many(rows, trust.MAX_FIXTURE_BYTES):
        fixture = _parse(row.path, data, parse_fixture)
        scope = row.scope if isinstance(row, ScopedRow) else ""
        assembly.add(row.path, fixture, scope, _listed_key(row, fixture))
        read.append((row, fixture, isinstance(data, bytes) and blake3_hex(data) == row.blake3))
    for row, fixture, is_as_listed in read:
        try:
            request = assembly.request(row.path, fixture)
        except Untrusted as error:
            raise FixtureIntegrityFailed([error.finding]) from None
        yield row, replace(fixture, request=request, link=None), is_as_listed


def _key_of(row: ExchangeRow | ScopedRow) -> FixtureKey:
    return FixtureKey(row.model or "", row.prompt_hash or "")


def _listed_key(row: FixtureRow | ScopedRow, fixture: Fixture) -> FixtureKey:
    return FixtureKey(row.model, row.prompt_hash) if row.model and row.prompt_hash else fixture.key


def _read_part(source: DirectorySource, parts: Mapping[str, PartRow], digest: str) -> Mapping[str, JsonValue]:
    if digest not in parts:
        raise Untrusted(Finding("link-broken", INDEX_NAME, f"a part {digest[:16]} is not listed"))
    part = parts[digest]
    return _parse(part.path, source.read_listed(part, trust.MAX_FIXTURE_BYTES), parse_part)


def _parse(path: str, data: bytes | Finding, parse: Callable[[bytes], _T]) -> _T:
    if isinstance(data, Finding):
        raise FixtureIntegrityFailed([data])
    try:
        return parse(data)
    except FixtureError as error:
        raise FixtureIntegrityFailed([Finding(error.code, path, str(error))]) from None
