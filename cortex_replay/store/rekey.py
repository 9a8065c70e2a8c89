"""Computing keys anew from stored requests, after a change of what the key is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.hashing import blake3_hex
from cortex_replay.store import trust
from cortex_replay.store.changes import (
    Essence,
    Remove,
    essence_of,
    essence_of_exchange,
    new_exchange,
    new_fixture,
)
from cortex_replay.store.check import Progress, check_store, read_exchange
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange, render_exchange
from cortex_replay.store.fixture import Fixture, FixtureKey
from cortex_replay.store.fixture_json import FixtureError, parse_fixture, render_fixture
from cortex_replay.store.index import ExchangeRow, FixtureRow, ScopedRow
from cortex_replay.store.state import translate_errors
from cortex_replay.store.trust import Layout
from cortex_replay.store.writer import StoreWriter

__all__ = ["ExchangeChange", "KeyChange", "RekeyPlan", "Renewal", "plan_rekey"]


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


@dataclass(frozen=True, slots=True)
class ExchangeChange:
    """One call that is recorded as it is, and moves to another key."""

    path: str
    old: str
    exchange: Exchange
    """As it will be written."""
    scope: str = ""


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
        """Write the fixtures under their new keys, in one commit."""
        writer = StoreWriter(source, self.layout)
        try:
            for item in self.moving:
                writer.stage(Remove((*item.old, None, None), item.scope))
            for call in self.exchanges:
                writer.stage(Remove((None, None, None, call.old), call.scope))
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
    """
    report = check_store(source, progress=progress)
    ours = {"request-mismatch", "mismatch"} if accept_changed else {"request-mismatch"}
    faults = [finding for finding in report.findings if finding.code not in ours]
    if faults:
        raise FixtureIntegrityFailed(faults)
    plan = RekeyPlan(report.layout)
    taken: dict[tuple[str, FixtureKey], tuple[str, Fixture]] = {}
    befores: dict[tuple[str, FixtureKey], Fixture] = {}
    rows: list[FixtureRow | ScopedRow] = [*report.index.fixtures]
    rows += [row for row in report.index.scoped if row.is_fixture]
    contents = source.read_many([row.path for row in rows], trust.MAX_FIXTURE_BYTES)
    for row, (path, data) in zip(rows, contents, strict=True):
        scope = row.scope if isinstance(row, ScopedRow) else ""
        fixture = _parse(path, data)
        old = FixtureKey(row.model, row.prompt_hash) if row.model and row.prompt_hash else fixture.key
        is_known = fixture.request is not None and not fixture.is_request_redacted
        was = replace(fixture, key=old)
        if is_known:
            fixture = renew.fixture(was)
        new = fixture.key
        other = taken.setdefault((scope, new), (path, fixture))
        if essence_of(other[1]) != essence_of(fixture):
            plan.colliding.append((other[0], path))
        elif other[0] != path:
            calls = [(one.meta or {}).get("call") for one in (other[1], fixture)]
            plan.joining.append((other[0], path, calls[0] is not None and calls[0] == calls[1]))
        if not is_known:
            plan.without_request.append(path)
        elif fixture == was and isinstance(data, bytes) and blake3_hex(data) == row.blake3:
            plan.unchanged += 1
        else:
            plan.moving.append(KeyChange(path, old, fixture, scope))
            befores[scope, old] = was
    others: list[ExchangeRow | ScopedRow] = [*report.index.exchanges, *report.index.scoped]
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
        item = moved.get((scope, FixtureKey(row.model or "", row.prompt_hash or "")))
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
            plan.exchanges.append(ExchangeChange(row.path, row.key or "", now, scope))


def _parse(path: str, data: bytes | Finding) -> Fixture:
    if isinstance(data, Finding):
        raise FixtureIntegrityFailed([data])
    try:
        return parse_fixture(data)
    except FixtureError as error:
        raise FixtureIntegrityFailed([Finding(error.code, path, str(error))]) from None
