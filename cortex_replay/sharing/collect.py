"""What the workers of a run recorded becomes one commit, as if this process had recorded it.

Every recording is fetched and held to the rules of trust. Where two workers have different answers to one
question of one scope, one of them goes into the store, and all are named; the others stay in the bucket.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from cortex_replay.errors import Finding
from cortex_replay.hashing import blake3_hex
from cortex_replay.remote.bucket import Bucket
from cortex_replay.remote.cache import object_name
from cortex_replay.remote.seals import Seal
from cortex_replay.sharing.published import PublishedRow
from cortex_replay.sharing.run_rows import RunRows, fetch_all, read_run
from cortex_replay.store import Store
from cortex_replay.store.changes import Add, Changes, Pin, Remove, new_exchange, new_fixture
from cortex_replay.store.exchange import parse_exchange
from cortex_replay.store.fixture_json import FixtureError, parse_fixture
from cortex_replay.store.index.index import ContentKey, content_key
from cortex_replay.store.trust import Layout, Untrusted
from cortex_replay.store.writer import CommitSummary

__all__ = ["Collection", "Conflict", "plan_collection"]

Place = tuple[str, ContentKey]
"""A scope, and what it asked."""


class Conflict(NamedTuple):
    """Several answers to one question of one scope."""

    scope: str
    about: ContentKey
    taken: str
    """The BLAKE3 of the answer that the store gets; empty if it keeps what it has."""
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Collection:
    """What a run has recorded, and what it comes to."""

    run: RunRows
    changes: list[tuple[Add | Remove | Pin, bytes]]
    plan: Changes
    conflicts: list[Conflict]
    findings: list[Finding] = field(default_factory=list)
    """What cannot be collected, and why."""

    @property
    def answers(self) -> int:
        """How many answers were checked and found good."""
        return sum(isinstance(change, Add) for change, _ in self.changes)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left in the bucket that the store lacks."""
        return not (self.conflicts or self.findings or self.run.unfinished)

    def apply(self, store: Store) -> CommitSummary:
        """Commit it.

        Raises:
            StoreIo: The disk refused. Nothing was changed.
        """
        for change, data in self.changes:
            store.stage(change, data)
        return store.commit()


def plan_collection(store: Store, bucket: Bucket, seal: Seal) -> Collection:
    """Fetch what a run has recorded, check it, and see what it comes to.

    Raises:
        StoreIo: The bucket cannot be asked.
        FixtureIntegrityFailed: The store is not what its index says.
    """
    run = read_run(bucket, seal)
    findings = [Finding("missing", name, "was published by a worker, and is gone") for name in run.lacking]
    data = _fetch(bucket, run, findings)
    changes: list[tuple[str, Add | Remove | Pin]] = []
    for worker, row in run.rows:
        change = _change(row, store.layout, data, findings)
        if change is not None:
            changes.append((worker, change))
    words = _words(changes)
    conflicts = [conflict for place, said in words.items() if (conflict := _conflict(place, said))]
    best = {place: _longest(said) for place, said in words.items()}
    wanted = [
        change for _, change in changes if not isinstance(change, Add) or best[_place(change)] is change
    ]
    plan = store.plan(wanted)
    conflicts += [Conflict(*_place(change), "", (change.row.blake3,)) for change in plan.dropped]
    recordings = [(change, data[change.row.blake3] if isinstance(change, Add) else b"") for change in wanted]
    return Collection(run, recordings, plan, conflicts, findings)


def _fetch(bucket: Bucket, run: RunRows, findings: list[Finding]) -> dict[str, bytes]:
    """The recordings by their BLAKE3, as far as the bucket has them."""
    digests = dict.fromkeys(row.blake3 for _, row in run.rows if row.is_answer)
    found: dict[str, bytes] = {}
    for name, there in fetch_all(bucket, map(object_name, digests)):
        digest = name.rpartition("/")[2]
        if there is None:
            findings.append(Finding("missing", name, "is not in the bucket, and a worker recorded it"))
        elif blake3_hex(there.data) != digest:
            findings.append(Finding("mismatch", name, "has other bytes in the bucket than its name says"))
        else:
            found[digest] = there.data
    return found


def _change(
    row: PublishedRow, layout: Layout, recordings: dict[str, bytes], findings: list[Finding]
) -> Add | Remove | Pin | None:
    if not row.is_answer:
        return row.change()
    data = recordings.get(row.blake3)
    if data is None:
        return None
    flags = {"overwrite": row.overwrite, "keep_existing": not row.overwrite, "is_exact": row.is_exact}
    try:
        if row.kind == "exchange":
            change = new_exchange(layout, parse_exchange(data), data, scope=row.scope, **flags)
        else:
            change = new_fixture(layout, parse_fixture(data).key, data, scope=row.scope, **flags)
    except Untrusted as error:
        found = error.finding
        findings.append(Finding(found.code, object_name(row.blake3), found.reason))
        return None
    except FixtureError as error:
        findings.append(Finding(error.code, object_name(row.blake3), str(error)))
        return None
    if content_key(change.row) != row.about:
        findings.append(
            Finding("key-mismatch", object_name(row.blake3), "is about something else than its row")
        )
        return None
    return change


def _words(changes: list[tuple[str, Add | Remove | Pin]]) -> dict[Place, dict[str, Add]]:
    """By what was asked, the last word of each worker."""
    words: dict[Place, dict[str, Add]] = {}
    for worker, change in changes:
        if isinstance(change, Add):
            said = words.setdefault(_place(change), {})
            before = said.get(worker)
            if before is None or change.overwrite or _goes_on(change, before):
                said[worker] = change
    return words


def _conflict(place: Place, said: dict[str, Add]) -> Conflict | None:
    best = _longest(said)
    others = {change.row.blake3 for change in said.values() if not _goes_on(best, change)}
    return Conflict(*place, best.row.blake3, tuple(sorted(others))) if others else None


def _longest(said: dict[str, Add]) -> Add:
    """The most answers; of equal numbers, those that most workers have."""
    changes = list(said.values())
    votes = Counter(change.said.essence for change in changes)
    return min(
        changes,
        key=lambda change: (-len(change.said.essence), -votes[change.said.essence], change.row.blake3),
    )


def _goes_on(change: Add, before: Add) -> bool:
    """Whether a change says all that another one does, and perhaps more."""
    return change.said.essence[: len(before.said.essence)] == before.said.essence


def _place(change: Add) -> Place:
    return change.scope, content_key(change.row)
