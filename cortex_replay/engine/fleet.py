"""One worker of a run on many machines, which meet in the bucket of the store.

Within a machine, the processes of a run agree by locked files, and one of them goes to the bucket. There the
claim to answer n of a key is an object with a lease. What the owner gets is staged here and published; then
the claim holds it, and those who wait read it.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final, TypeVar

from cortex_replay.engine.claims import Claim, Claims, parse_outcome, render_outcome
from cortex_replay.engine.outcomes import Outcome
from cortex_replay.engine.run_names import is_run_name, new_run_name
from cortex_replay.errors import ConfigError, StoreIo, Timeout
from cortex_replay.redact.logs import logger_of
from cortex_replay.redact.process import learn_secret
from cortex_replay.remote.bucket import Bucket
from cortex_replay.remote.lease_keeper import HeldLease, LeaseKeeper
from cortex_replay.remote.leases import LEASE_S, Contender, Lease, drive
from cortex_replay.remote.probe import refuse_unconditional
from cortex_replay.remote.seals import SHORTEST_SECRET, Seal
from cortex_replay.sharing.published import BEGUN, CLAIMS, Left, PublishedRow
from cortex_replay.sharing.publisher import Publisher
from cortex_replay.store import FixtureKey
from cortex_replay.store.witness import Testimony

__all__ = ["Fleet", "FleetClaims"]

logger = logger_of(__name__)

LEASE_VARIABLE: Final = "CORTEX_REPLAY_LEASE_S"
"""How long a worker that shows no sign of life keeps its claims, in seconds."""
_AT_ONCE: Final = 16
_FIRST_LOOK_S: Final = 0.05
_LONGEST_LOOK_S: Final = 2.0
"""A fleet of 64 has hundreds of answers to wait for; looks at all of them twice a second keep a small server
from answering those who work."""
_PROBED_LOOK_S: Final = 0.5
_TRIES: Final = 3
"""How often in a row a bucket may fail that is asked for a claim; each time was tried again already."""
_LEASES_TO_WAIT: Final = 3
"""For another worker's look at the bucket; then each looks for itself."""
_T = TypeVar("_T")
Recording = tuple[PublishedRow, bytes]


class Fleet:
    """This process as one worker of a fleet.

    Args:
        bucket: Where the workers meet.
        seal: Of the run.
        lease_s: How long a worker that shows no sign of life keeps its claims.
    """

    def __init__(self, bucket: Bucket, seal: Seal, lease_s: float = LEASE_S) -> None:
        self.bucket = bucket
        self.seal = seal
        self.lease_s = lease_s
        self.worker = secrets.token_hex(8)
        self.publisher = Publisher(bucket, seal, self.worker)
        self.late = 0
        """How many answers came when another worker had taken over already."""
        self.strangers = 0
        """How often something in the bucket was not made by a worker of this run."""
        self._keeper = LeaseKeeper(lease_s)
        self._held: dict[FixtureKey, set[HeldLease]] = {}
        self._parked: dict[FixtureKey, list[Recording]] = {}
        """By key, what was staged while a claim to it is held: it is published with the claim."""
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="cortex-replay claims")
        self._name = ""
        self._pid = os.getpid()

    @classmethod
    def join(cls, bucket: Bucket, run: str) -> Fleet:
        """Become a worker of the run with this name.

        Raises:
            ConfigError: The name can be guessed, or the lease is no time.
            StoreIo: The bucket cannot be asked, or does not do what claims rest on.
        """
        if len(run) < SHORTEST_SECRET:
            raise ConfigError(
                "CORTEX_REPLAY_RUN",
                f"a run whose workers meet in {bucket.url} has a name that cannot be guessed, of at least "
                f"{SHORTEST_SECRET} characters: make one with `openssl rand -hex 16`, and give it to all of "
                "them. To record on this machine alone, leave it unset",
            )
        learn_secret(run)
        fleet = cls(bucket, Seal.of(run), _lease_time(os.environ.get(LEASE_VARIABLE, "")))
        fleet._begin()
        # A worker that ends without a word looks as if it had died.
        atexit.register(fleet._end_quietly)
        return fleet

    def _begin(self) -> None:
        self._probe()
        name = f"{self.seal.folder}{BEGUN}{self.worker}"
        self.bucket.put_new(name, self.seal.close(name, b""))
        self._name = self._agree("name", new_run_name())

    def _probe(self) -> None:
        """See that the bucket keeps conditions, unless a worker of this run has seen it.

        One worker looks and the others wait for it: a probe is a hundred puts, and a fleet starts at once.
        Where conditions are not kept, several look, and who waited looks as well; each refuses for itself.
        """
        contender = Contender(f"{self.seal.folder}probed", self.seal, self.lease_s, time.monotonic)
        deadline = time.monotonic() + _LEASES_TO_WAIT * self.lease_s
        while not isinstance(outcome := drive(self.bucket, contender.look()), bytes):
            if outcome is None and time.monotonic() < deadline:
                time.sleep(_PROBED_LOOK_S)
                continue
            try:
                refuse_unconditional(self.bucket, over=True)
            except StoreIo:
                if outcome is not None:
                    with suppress(StoreIo):
                        drive(self.bucket, outcome.release())
                raise
            if outcome is not None:
                drive(self.bucket, outcome.finish(b""))
            return

    @property
    def name(self) -> str:
        """What the recordings of all workers say that their run is called; it is no secret."""
        return self._name

    def _agree(self, what: str, proposal: str) -> str:
        """What the first worker said that asked for this."""
        name = f"{self.seal.folder}{what}"
        self.bucket.put_new(name, self.seal.close(name, proposal.encode()))
        there = self.bucket.get(name)
        said = None if there is None else self.seal.open(name, there.data)
        agreed = "" if said is None else said.decode(errors="replace")
        return agreed if is_run_name(agreed) else proposal

    def open(self) -> Testimony:
        """The witness of what a store stages."""
        self._refuse_fork()
        return replace(self.publisher.open(), add=self._add)

    def _add(self, row: PublishedRow, data: bytes) -> None:
        key = _subject_of(row)
        with self._lock:
            if row.is_answer and key in self._held:
                self._parked.setdefault(key, []).append((row, data))
                return
        self.publisher.add(row, data)

    def take_parked(self, key: FixtureKey) -> list[Recording]:
        """What was staged under a key since a claim to it is held."""
        with self._lock:
            return self._parked.pop(key, [])

    def end(self) -> None:
        """Tell everything that is still to be told, and that this worker has ended.

        Raises:
            StoreIo: It could not.
        """
        try:
            self.publisher.end()
        finally:
            self._keeper.end()
        atexit.unregister(self._end_quietly)

    def _end_quietly(self) -> None:
        if self._pid == os.getpid():
            with suppress(StoreIo, RuntimeError):  # who wants to know has asked before
                self.end()

    def _refuse_fork(self) -> None:
        if self._pid != os.getpid():
            raise StoreIo(
                "a process that was forked from a worker of this run cannot record for it: start it anew, as "
                "with multiprocessing's method spawn"
            )

    def claims(self, local: Claims) -> FleetClaims:
        """The claims of the run, where those of this machine are given."""
        return FleetClaims(local, self)

    async def contend(self, key: FixtureKey, n: int, timeout_ms: int) -> HeldLease | bytes:
        """The claim to an answer, once it is to be had, or what another worker left.

        Raises:
            Timeout: Neither came in time.
            StoreIo: The bucket cannot be asked.
        """
        self._refuse_fork()
        deadline = time.monotonic() + timeout_ms / 1000
        name = self.seal.name(CLAIMS.rstrip("/"), key.model, key.prompt_hash, f"{n}")
        contender = Contender(name, self.seal, self.lease_s, time.monotonic)
        pause = _FIRST_LOOK_S
        failures = 0
        await self._in_thread(self.publisher.wait_for_room)
        while True:
            try:
                outcome = await self._look(contender)
                failures = 0
            except StoreIo:
                failures += 1
                if failures == _TRIES:
                    raise
                outcome = None  # a claim that was made and not confirmed is found by the next look
            self._note_strangers(contender)
            if isinstance(outcome, Lease):
                return self._hold(key, outcome)
            if outcome is not None:
                return outcome
            if time.monotonic() + pause > deadline:
                raise Timeout(timeout_ms)
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_LOOK_S)

    async def _look(self, contender: Contender) -> Lease | bytes | None:
        looking = self._pool.submit(drive, self.bucket, contender.look())
        try:
            return await asyncio.shield(asyncio.wrap_future(looking))
        except asyncio.CancelledError:
            looking.add_done_callback(self._release)  # else those who wait would wait for its lease to end
            raise

    def _release(self, looked: Future[Lease | bytes | None]) -> None:
        if looked.exception() is None and isinstance(lease := looked.result(), Lease):
            self.publisher.then(lambda: drive(self.bucket, lease.release()))

    def settle(
        self, key: FixtureKey, held: HeldLease, outcome: Outcome | None, recordings: list[Recording]
    ) -> None:
        """Let others have what was got and what was recorded of it; or the claim, if nothing was got."""
        rows = [row for row, _ in recordings]
        left = None if outcome is None else Left(self.worker, rows, render_outcome(key, outcome)).render()

        def end() -> None:
            self.publisher.put_objects(recordings)
            is_held = held.end(left)
            if left is not None and is_held:
                self.publisher.claims += 1
                self.publisher.published += sum(row.is_answer for row in rows)
            elif left is not None:
                self._note_late(recordings)
            self._drop(key, held)

        self.publisher.then(end, sum(row.is_answer for row in rows))

    def _note_late(self, recordings: list[Recording]) -> None:
        """Another worker has taken over. What a scope got is its own all the same, to be got again."""
        self.late += 1
        logger.warning("an answer came late: another worker had taken over, and asked as well")
        for row, data in recordings:
            if row.scope:
                self.publisher.add(row, data)

    def _hold(self, key: FixtureKey, lease: Lease) -> HeldLease:
        held = HeldLease(lease, self.bucket, time.monotonic)
        with self._lock:
            self._held.setdefault(key, set()).add(held)
        self._keeper.add(held)
        return held

    def _drop(self, key: FixtureKey, held: HeldLease) -> None:
        self._keeper.drop(held)
        with self._lock:
            mine = self._held.get(key, set())
            mine.discard(held)
            if mine:
                return
            self._held.pop(key, None)
            parked = self._parked.pop(key, [])
        for row, data in parked:  # staged by others, of what they have got before
            self.publisher.add(row, data)

    def _note_strangers(self, contender: Contender) -> None:
        if contender.strangers:
            self.strangers += contender.strangers
            contender.strangers = 0
            logger.warning(
                "%s holds a claim that no worker of this run made; it is not believed", self.bucket.url
            )

    async def _in_thread(self, job: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, job)


class FleetClaims:
    """The claims of a run on many machines: those of this machine first, then those in the bucket."""

    def __init__(self, local: Claims, fleet: Fleet) -> None:
        self._local = local
        self._fleet = fleet

    @asynccontextmanager
    async def claim(self, key: FixtureKey, n: int, timeout_ms: int) -> AsyncIterator[Claim]:
        begun = time.monotonic()
        async with self._local.claim(key, n, timeout_ms) as claim:
            if claim.outcome is not None:
                yield claim
                return
            left_ms = timeout_ms - round((time.monotonic() - begun) * 1000)
            found = await self._fleet.contend(key, n, left_ms)
            if isinstance(found, bytes):
                left = Left.parse(found)
                outcome = None if left is None else parse_outcome(left.outcome)
                if outcome is None:
                    raise StoreIo("another worker of this run has another version of cortex-replay")
                claim.settle(outcome)
                yield claim
                return
            shared = _SharedClaim(claim, key, self._fleet)
            try:
                yield shared
            finally:
                self._fleet.settle(key, found, shared.outcome, shared.recordings)


class _SharedClaim:
    """A claim of this machine, whose outcome others are to have as well."""

    def __init__(self, local: Claim, key: FixtureKey, fleet: Fleet) -> None:
        self._local = local
        self._key = key
        self._fleet = fleet
        self.outcome: Outcome | None = None
        self.recordings: list[Recording] = []

    def settle(self, outcome: Outcome) -> None:
        self._local.settle(outcome)
        self.outcome = outcome
        self.recordings += self._fleet.take_parked(self._key)  # it was staged just now


def _subject_of(row: PublishedRow) -> FixtureKey:
    """The key of the claim to what a row is about."""
    model, prompt_hash, _, other = row.about
    return FixtureKey(model or "", prompt_hash or other or "")


def _lease_time(text: str) -> float:
    try:
        seconds = float(text or LEASE_S)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise ConfigError(LEASE_VARIABLE, "expected a number of seconds, from 0.1 to 3600")
    return seconds
