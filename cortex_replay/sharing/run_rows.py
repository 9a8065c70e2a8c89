"""Everything that the workers of a run have told so far, as it is in the bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cortex_replay.remote import waiting
from cortex_replay.remote.bucket import Bucket, Stamped
from cortex_replay.remote.leases import answer_in
from cortex_replay.remote.seals import Seal
from cortex_replay.sharing.published import BEGUN, CLAIMS, ENDED, ROWS, Left, PublishedRow, parse_rows

__all__ = ["RunRows", "WorkerRow", "fetch_all", "read_run"]


_OF_CLAIMS: Final = -1
"""Stands for the number of a batch: rows that stand in claims."""


class WorkerRow(NamedTuple):
    """A row, and who told it."""

    worker: str
    row: PublishedRow


@dataclass(frozen=True, slots=True)
class RunRows:
    """What was told, and by whom."""

    rows: list[WorkerRow]
    """Of those who asked, then of the others; by worker, in the order of each; without what was withdrawn,
    or said again later."""
    workers: list[str]
    """Who has begun."""
    unfinished: list[str]
    """Who has not ended: they still run, or died."""
    strangers: list[str] = field(default_factory=list)
    """Objects that no worker of this run made; they do not count."""
    lacking: list[str] = field(default_factory=list)
    """Batches of rows that were told, and are gone."""
    withdrawn: int = 0
    """How many answers were withdrawn, of tests that failed."""
    names: list[str] = field(default_factory=list)
    """Every object of the run."""


def fetch_all(bucket: Bucket, names: Iterable[str]) -> Iterator[tuple[str, Stamped | None]]:
    """Read many objects, several at once, in any order.

    Raises:
        StoreIo: The bucket cannot be asked.
    """
    for name, found in waiting.many(names, bucket.fetch):
        if isinstance(found, Exception):
            raise found
        yield name, found


def read_run(bucket: Bucket, seal: Seal) -> RunRows:
    """Read what the workers of a run have told.

    Raises:
        StoreIo: The bucket cannot be asked.
    """
    folder = seal.folder
    names = sorted(entry.name for entry in bucket.list(folder))
    told = [name for name in names if name.removeprefix(folder).startswith((ROWS, BEGUN, ENDED, CLAIMS))]
    found = {name: there.data for name, there in fetch_all(bucket, told) if there is not None}
    ours = {name for name, data in found.items() if seal.open(name, data) is not None}
    strangers = [name for name in found if name not in ours]
    begun = {name.rpartition("/")[2] for name in ours if name.startswith(f"{folder}{BEGUN}")}
    ended = {
        name.rpartition("/")[2]: _counts(seal.open(name, found[name]) or b"")
        for name in ours
        if name.startswith(f"{folder}{ENDED}")
    }
    batches: dict[str, dict[int, list[PublishedRow]]] = {}
    for name in sorted(ours):
        if name.startswith(f"{folder}{ROWS}"):
            rows = parse_rows(found[name], name, seal)
            worker, _, number = name.rpartition("/")[2].rpartition("-")
            if rows is None:
                strangers.append(name)
                continue
            batches.setdefault(worker, {})[int(number)] = rows
    claims: dict[str, int] = {}
    for name in sorted(ours):
        if not name.startswith(f"{folder}{CLAIMS}") or (answer := answer_in(found[name], name, seal)) is None:
            continue
        left = Left.parse(answer)
        if left is None:
            strangers.append(name)
            continue
        claims[left.worker] = claims.get(left.worker, 0) + 1
        batches.setdefault(left.worker, {}).setdefault(_OF_CLAIMS, []).extend(left.rows)
    kept, withdrawn = _keep(batches)
    workers = sorted(begun | batches.keys() | ended.keys())
    return RunRows(
        kept,
        workers,
        [worker for worker in workers if worker not in ended],
        strangers,
        [*_gaps(batches, ended), *_lost_claims(claims, ended)],
        withdrawn,
        names,
    )


def _keep(batches: dict[str, dict[int, list[PublishedRow]]]) -> tuple[list[WorkerRow], int]:
    """The rows that count: of a session, the last word on each question; and the number of withdrawn ones.

    Who asked comes first: what is shared belongs to it, as on one machine.
    """
    asked: list[WorkerRow] = []
    others: list[WorkerRow] = []
    withdrawn = 0
    for worker, numbered in sorted(batches.items()):
        rows = sorted((row for batch in numbered.values() for row in batch), key=lambda row: row.place)
        places = {row.place for row in numbered.get(_OF_CLAIMS, ())}
        dropped = {row.session for row in rows if row.kind == "withdrawal"}
        last = {(row.session, row.scope, row.about): place for place, row in enumerate(rows) if row.is_answer}
        for place, row in enumerate(rows):
            if row.session in dropped or row.kind == "withdrawal":
                withdrawn += row.is_answer
            elif not row.is_answer or last[row.session, row.scope, row.about] == place:
                is_asked = row.place in places
                (asked if is_asked else others).append(WorkerRow(worker, row))
    return [*asked, *others], withdrawn


class _Counts(NamedTuple):
    """How much a worker has told, as it says at its end; it may have told more since then."""

    batches: int = 0
    claims: int = 0


def _counts(said: bytes) -> _Counts:
    try:
        batches, claims = map(int, said.split())
    except ValueError:  # of another version
        return _Counts()
    return _Counts(batches, claims)


def _gaps(batches: dict[str, dict[int, list[PublishedRow]]], ended: dict[str, _Counts]) -> Iterator[str]:
    for worker in sorted(batches.keys() | ended.keys()):
        numbers = batches.get(worker, {}).keys()
        told = max(ended.get(worker, _Counts()).batches, max(numbers, default=-1) + 1)
        yield from (f"{ROWS}{worker}-{number:06}" for number in range(told) if number not in numbers)


def _lost_claims(claims: dict[str, int], ended: dict[str, _Counts]) -> Iterator[str]:
    for worker, counts in sorted(ended.items()):
        lost = counts.claims - claims.get(worker, 0)
        if lost > 0:
            yield f"{CLAIMS}, {lost} of the worker {worker}"
