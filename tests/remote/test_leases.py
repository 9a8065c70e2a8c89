"""Leases: whatever the order of the steps of many, one answer counts."""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from obstore.store import MemoryStore

from cortex_replay.hashing import blake3_hex
from cortex_replay.remote.bucket import Bucket, Stamped
from cortex_replay.remote.leases import Contender, Get, Lease, Operation, PutNew, PutOver, drive
from cortex_replay.remote.seals import Seal

SEAL = Seal.of("a name that only the workers know")
NAME = SEAL.name("claims", "m", "hash", "1")
LEASE_S = 10.0


class Objects:
    """A bucket whose versions are what S3 makes them: a hash of the content."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def do(self, operation: Operation) -> Any:
        there = self.data.get(operation.name)
        match operation:
            case Get():
                return None if there is None else Stamped(there, blake3_hex(there))
            case PutNew(name, data) if there is None:
                self.data[name] = data
                return True
            case PutOver(name, data, version) if there is not None and blake3_hex(there) == version:
                self.data[name] = data
                return True
        return False


@dataclass
class Worker:
    """One that needs an answer, and asks if it holds the claim; each step is one operation, or waiting."""

    number: int
    beats: int
    skew: float
    fails: bool = False
    now: float = 0.0
    calls: int = 0
    has_published: bool = False
    was_late: bool = False
    got: bytes | None = None
    """What it read of another."""
    is_over: bool = False
    is_dead: bool = False
    wanted: Operation | None = None
    steps: Generator[Operation | None, Any, None] = field(init=False)

    def __post_init__(self) -> None:
        self.steps = self._work()
        self.wanted = next(self.steps)

    def step(self, objects: Objects, *, is_unconfirmed: bool = False) -> None:
        result = None if self.wanted is None else objects.do(self.wanted)
        if is_unconfirmed and not isinstance(self.wanted, Get):
            result = False  # it was done, the answer was lost, and the client's second try was refused
        try:
            self.wanted = self.steps.send(result)
        except StopIteration:
            self.is_over = True

    def _work(self) -> Generator[Operation | None, Any, None]:
        contender = Contender(NAME, SEAL, LEASE_S, lambda: self.now + self.skew)
        while True:
            outcome = yield from contender.look()
            if isinstance(outcome, bytes):
                self.got = outcome
                return
            if outcome is None:
                yield None
                continue
            self.calls += 1
            for _ in range(self.beats):
                yield None
                yield from outcome.renew()
            if self.fails and self.calls == 1:
                yield from outcome.release()
                contender = Contender(NAME, SEAL, LEASE_S, lambda: self.now + self.skew)
                continue
            self.has_published = yield from outcome.finish(f"answer of {self.number}".encode())
            self.was_late = not self.has_published
            return


skews = st.floats(-1e9, 1e9)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_in_any_order_one_answer_counts(data: st.DataObject) -> None:
    """Workers are slow, die, and lose replies at any step; time jumps: no two answers are ever left."""
    count = data.draw(st.integers(2, 4))
    workers = [Worker(n, data.draw(st.integers(0, 3)), data.draw(skews)) for n in range(count)]
    objects = Objects()
    choices = data.draw(
        st.lists(
            st.tuples(
                st.integers(0, count - 1), st.sampled_from(["step"] * 8 + ["jump", "die", "unconfirmed"])
            ),
            max_size=120,
        )
    )
    for number, what in choices:
        worker = workers[number]
        if what == "jump":
            for other in workers:
                other.now += LEASE_S
        elif what == "die":
            worker.is_dead = True
        elif not worker.is_over and not worker.is_dead:
            worker.step(objects, is_unconfirmed=what == "unconfirmed")

    published = [worker for worker in workers if worker.has_published]
    assert len(published) <= 1
    assert {worker.got for worker in workers if worker.got is not None} <= {
        f"answer of {worker.number}".encode() for worker in workers if worker.calls
    }
    assert len({worker.got for worker in workers if worker.got is not None}) <= 1
    if published and any(worker.got for worker in workers):
        assert {f"answer of {published[0].number}".encode()} == {w.got for w in workers if w.got is not None}


def work_in_rounds(workers: list[Worker], objects: Objects, order: random.Random) -> None:
    """Each living worker makes a step a second, in any order, until all are done."""
    for _ in range(400):
        living = [worker for worker in workers if not worker.is_over and not worker.is_dead]
        if not living:
            return
        for worker in order.sample(living, len(living)):
            worker.step(objects, is_unconfirmed=order.random() < 0.1)
        for worker in workers:
            worker.now += 1.0
    pytest.fail("they wait without end")


@pytest.mark.parametrize("seed", range(25))
def test_who_is_not_late_asks_alone(seed: int) -> None:
    order = random.Random(seed)
    workers = [Worker(n, order.randrange(12), order.uniform(-1e9, 1e9)) for n in range(5)]

    work_in_rounds(workers, Objects(), order)

    assert sum(worker.calls for worker in workers) == 1
    assert sum(worker.has_published for worker in workers) == 1
    assert len({worker.got for worker in workers if worker.got}) == 1


@pytest.mark.parametrize("seed", range(25))
def test_another_takes_over_from_the_dead(seed: int) -> None:
    """Once, and within a lease or little more of the last sign of life."""
    order = random.Random(seed)
    workers = [Worker(n, 6, order.uniform(-1e9, 1e9)) for n in range(4)]
    objects = Objects()
    while not any(worker.calls for worker in workers):
        order.choice(workers).step(objects)
    dead = next(worker for worker in workers if worker.calls)
    for _ in range(order.randrange(6)):
        dead.step(objects)
    dead.is_dead = True
    begun = [worker for worker in workers if worker is not dead]

    asked_at = None
    for _ in range(100):
        work = [worker for worker in begun if not worker.is_over]
        for worker in order.sample(work, len(work)):
            worker.step(objects)
        if asked_at is None and any(worker.calls for worker in begun):
            asked_at = begun[0].now
        for worker in begun:
            worker.now += 1.0

    assert asked_at is not None
    assert LEASE_S <= asked_at <= LEASE_S + 6
    assert sum(worker.calls for worker in begun) == 1
    assert all(worker.is_over for worker in begun)


@pytest.mark.parametrize("seed", range(20))
def test_a_claim_without_an_answer_goes_to_the_next_at_once(seed: int) -> None:
    order = random.Random(seed)
    workers = [Worker(n, 1, 0.0, fails=True) for n in range(3)]

    work_in_rounds(workers, Objects(), order)

    assert sum(worker.has_published for worker in workers) == 1
    assert all(worker.now < 60 for worker in workers)


def test_an_owner_that_lost_its_lease_leaves_no_answer() -> None:
    bucket = Bucket(MemoryStore(), "memory://")
    now = [0.0]
    first = Contender(NAME, SEAL, LEASE_S, lambda: 0.0)
    second = Contender(NAME, SEAL, LEASE_S, lambda: now[0])
    slow = drive(bucket, first.look())
    assert isinstance(slow, Lease)
    assert drive(bucket, slow.renew())
    assert drive(bucket, second.look()) is None
    now[0] = LEASE_S - 0.1
    assert drive(bucket, second.look()) is None
    now[0] = LEASE_S
    quick = drive(bucket, second.look())
    assert isinstance(quick, Lease)

    assert not drive(bucket, slow.finish(b"too late"))
    assert slow.is_lost
    assert drive(bucket, quick.finish(b"in time"))
    assert drive(bucket, Contender(NAME, SEAL, LEASE_S, lambda: 0.0).look()) == b"in time"


@pytest.mark.parametrize("unheard", ["renewal", "answer"])
def test_a_put_whose_owner_heard_an_error_does_not_cost_it_the_claim(unheard: str) -> None:
    """The server did it after the client had given up; the next put of the owner goes over it."""
    bucket = Bucket(MemoryStore(), "memory://")
    lease = drive(bucket, Contender(NAME, SEAL, LEASE_S, lambda: 0.0).look())
    assert isinstance(lease, Lease)
    put = next(lease.renew() if unheard == "renewal" else lease.finish(b"Yes."))
    assert isinstance(put, PutOver)
    assert bucket.put_over(put.name, put.data, put.version)

    if unheard == "renewal":
        assert drive(bucket, lease.renew())
    assert drive(bucket, lease.finish(b"Yes."))
    assert not lease.is_lost
    assert drive(bucket, Contender(NAME, SEAL, LEASE_S, lambda: 0.0).look()) == b"Yes."


def test_what_a_stranger_puts_in_the_place_of_a_claim_is_taken_over() -> None:
    """Neither an answer of another run nor one of another question counts."""
    bucket = Bucket(MemoryStore(), "memory://")
    other = Seal.of("the name of another run")
    bucket.put_new(NAME, other.close(NAME, b'{"state":"done","lease_ms":1}\nforged'))
    contender = Contender(NAME, SEAL, LEASE_S, lambda: 0.0)
    lease = drive(bucket, contender.look())
    assert isinstance(lease, Lease)
    assert contender.strangers == 1
    assert drive(bucket, lease.finish(b"real"))

    there = bucket.get(NAME)
    assert there is not None
    elsewhere = SEAL.name("claims", "m", "hash", "2")
    bucket.put_new(elsewhere, there.data)
    assert isinstance(drive(bucket, Contender(elsewhere, SEAL, LEASE_S, lambda: 0.0).look()), Lease)


def test_the_names_of_a_run_show_nothing_of_it() -> None:
    assert SEAL.folder != Seal.of("another").folder
    assert SEAL.name("claims", "ab", "c") != SEAL.name("claims", "a", "bc")
    assert "hash" not in NAME
    assert SEAL.key.hex() not in repr(SEAL)
    assert repr(SEAL.key) not in repr(SEAL)
