"""Tells a fleet what this worker staged, in the background: the recordings, then the rows that name them.

Nothing is lost while the bucket cannot be reached: what could not be published is tried again with the next,
and at the end at the latest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Final, TypeVar

from cortex_replay.errors import StoreIo
from cortex_replay.remote.bucket import Bucket
from cortex_replay.remote.cache import object_name
from cortex_replay.remote.seals import Seal
from cortex_replay.sharing.published import (
    ENDED,
    ROWS,
    PublishedRow,
    render_rows,
    row_of,
)
from cortex_replay.store.changes import Add, Pin, Remove

__all__ = ["Publisher", "Session"]

_AT_ONCE: Final = 8
_MOST_WAITING: Final = 256
"""How many changes may wait; who stages more has to wait, too."""
_TRIES: Final = 3
"""How often to try what is still to be published before giving up."""
_A = TypeVar("_A")
Job = Callable[[], object]


@dataclass(slots=True)
class _Batch:
    """What is published together: all recordings, then all rows, then what was to come after them."""

    rows: list[tuple[PublishedRow, bytes]] = field(default_factory=list)
    jobs: list[tuple[Job, int]] = field(default_factory=list)
    """What to do, and how many answers are told of by that."""

    def __bool__(self) -> bool:
        return bool(self.rows or self.jobs)


class Publisher:
    """Publishes what one process stages: the witness of its store.

    Args:
        bucket: Where to.
        seal: Of the run.
        worker: What this process is called in the run.
    """

    def __init__(self, bucket: Bucket, seal: Seal, worker: str) -> None:
        self._bucket = bucket
        self._seal = seal
        self.worker = worker
        self._changed = threading.Condition()
        self._waiting = _Batch()
        self._current: _Batch | None = None
        """What is being published, or could not be."""
        self._problem: StoreIo | None = None
        self._sessions = 0
        self._places = count()
        self._batches = 0
        self._put: set[str] = set()
        self._thread: threading.Thread | None = None
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="cortex-replay publisher")
        self.published = 0
        """How many answers are in the bucket by now."""
        self.claims = 0
        """To how many claims an answer was left."""

    def open(self) -> Session:
        with self._changed:
            self._sessions += 1
            return Session(self.add, self._sessions, self._places)

    def add(self, row: PublishedRow, data: bytes = b"") -> None:
        """Publish a row, once its recording is there."""
        with self._changed:
            self._waiting.rows.append((row, data))
            self._wake()

    def then(self, job: Job, answers: int = 0) -> None:
        """Do something once all that was added before is published.

        Args:
            job: What to do.
            answers: How many answers are told of by that.
        """
        with self._changed:
            self._waiting.jobs.append((job, answers))
            self._wake()

    def wait_for_room(self) -> None:
        """Wait while much is to be published, unless nothing can be."""
        with self._changed:
            self._changed.wait_for(lambda: self._problem or len(self._waiting.rows) < _MOST_WAITING)

    def flush(self) -> None:
        """Wait until everything is published.

        Raises:
            StoreIo: It cannot be. It is kept, to be tried again.
        """
        with self._changed:
            if not self._waiting and self._current is None:
                return
            for _ in range(_TRIES):
                self._wake()
                self._changed.wait_for(lambda: self._problem or (not self._waiting and self._current is None))
                if self._problem is None:
                    break
            if self._problem is not None:
                batches = [self._waiting, self._current or _Batch()]
                answers = sum(row.is_answer for batch in batches for row, _ in batch.rows)
                answers += sum(told for batch in batches for _, told in batch.jobs)
                what = f"{answers} answer{'s' * (answers != 1)}" if answers else "what became of an answer"
                raise StoreIo(
                    f"the other workers of this run were not told of {what}: {self._problem.args[0]}. "
                    "The store on this machine has what was recorded here"
                )

    def end(self) -> None:
        """Say that this worker has told everything.

        Raises:
            StoreIo: It could not.
        """
        self.flush()
        name = f"{self._seal.folder}{ENDED}{self.worker}"
        self._bucket.put_new(name, self._seal.close(name, f"{self._batches} {self.claims}".encode()))

    def _wake(self) -> None:
        self._problem = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="cortex-replay fleet", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._problem is None and (self._waiting or self._current))
                if self._current is None:
                    self._current, self._waiting = self._waiting, _Batch()
                batch = self._current
            problem: StoreIo | None = None
            try:
                self._publish(batch)
            except StoreIo as error:
                problem = error
            except Exception as error:  # noqa: BLE001 - a thread that ends would leave who waits waiting
                problem = StoreIo(f"{type(error).__name__}: {error}")
            with self._changed:
                self._problem = problem
                if problem is None:
                    self._current = None
                self._changed.notify_all()

    def _publish(self, batch: _Batch) -> None:
        if rows := [row for row, _ in batch.rows]:
            self.put_objects(batch.rows)
            name = f"{self._seal.folder}{ROWS}{self.worker}-{self._batches:06}"
            self._put_once(name, render_rows(rows, name, self._seal))
            self._batches += 1
            self.published += sum(row.is_answer for row in rows)
            batch.rows = []
        while batch.jobs:
            self._map(lambda job: job[0](), batch.jobs[:_AT_ONCE])
            del batch.jobs[:_AT_ONCE]

    def put_objects(self, rows: list[tuple[PublishedRow, bytes]]) -> None:
        """Put what rows name.

        Raises:
            StoreIo: The bucket cannot be asked.
        """
        objects = {row.blake3: data for row, data in rows if row.is_answer}
        self._map(self._put_object, list(objects.items()))

    def _put_object(self, item: tuple[str, bytes]) -> None:
        digest, data = item
        if digest not in self._put:
            self._bucket.put_new(
                object_name(digest), data
            )  # one that is there has the same bytes, or is found out
            self._put.add(digest)

    def _put_once(self, name: str, data: bytes) -> None:
        if not self._bucket.put_new(name, data):
            there = self._bucket.get(name)  # of a try that was not confirmed
            if there is None or there.data != data:
                raise StoreIo(f"{self._bucket.url} has something else in the place of what this worker says")

    def _map(self, job: Callable[[_A], object], items: Iterable[_A]) -> None:
        items = list(items)
        if len(items) == 1:
            job(items[0])
            return
        try:
            futures = [self._pool.submit(job, item) for item in items]
        except RuntimeError:  # the interpreter ends
            for item in items:
                job(item)
            return
        for future in futures:
            future.result()


@dataclass(slots=True)
class Session:
    """The changes of one store or branch until its next commit."""

    add: Callable[[PublishedRow, bytes], None]
    """Gets each row, and its recording."""
    number: int
    places: Iterator[int]

    def stage(self, change: Add | Remove | Pin, data: bytes) -> None:
        row = row_of(self.number, change)
        if row is not None:
            self.add(row._replace(place=next(self.places)), data)

    def withdraw(self) -> None:
        self.add(PublishedRow.withdrawal(self.number), b"")
