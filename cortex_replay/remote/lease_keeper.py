"""Shows, for as long as this process lives, that the claims it holds are held."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from cortex_replay.errors import StoreIo
from cortex_replay.redact.logs import logger_of
from cortex_replay.remote.bucket import Bucket
from cortex_replay.remote.leases import Lease, Steps, drive

__all__ = ["HeldLease", "LeaseKeeper"]

logger = logger_of(__name__)

BEATS: Final = 3
"""How often a claim is renewed in the time of a lease."""


@dataclass(slots=True, eq=False)
class HeldLease:
    """A lease that several threads use."""

    lease: Lease
    bucket: Bucket
    clock: Callable[[], float]
    _renewed_at: float = field(init=False)
    _is_ended: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._renewed_at = self.clock()

    def renew(self, older_than: float = 0.0) -> bool:
        """Renew it, if that was not done for some seconds; whether it is still held.

        Raises:
            StoreIo: The bucket cannot be asked.
        """
        with self._lock:
            if self._is_ended or self.clock() - self._renewed_at < older_than:
                return not self.lease.is_lost
            is_held = drive(self.bucket, self.lease.renew())
            self._renewed_at = self.clock()
            return is_held

    def end(self, answer: bytes | None) -> bool:
        """Leave an answer, or the claim to who wants it next; whether it was still held.

        Raises:
            StoreIo: The bucket cannot be asked. It can be tried again.
        """
        with self._lock:
            if not self._is_ended:
                steps: Steps[bool] = self.lease.release() if answer is None else self.lease.finish(answer)
                drive(self.bucket, steps)
                self._is_ended = True
            return not self.lease.is_lost


class LeaseKeeper:
    """Renews leases, in a thread of its own.

    Args:
        lease_s: How long a lease lasts.
    """

    def __init__(self, lease_s: float) -> None:
        self.interval_s = lease_s / BEATS
        self._held: set[HeldLease] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, held: HeldLease) -> None:
        with self._changed:
            self._held.add(held)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="cortex-replay leases", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def drop(self, held: HeldLease) -> None:
        with self._changed:
            self._held.discard(held)

    def end(self) -> None:
        """Renew nothing any more: others may take over what is still held."""
        with self._changed:
            self._held.clear()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._held)
                self._changed.wait(self.interval_s / 2)
                held = list(self._held)
            for lease in held:
                try:
                    is_held = lease.renew(self.interval_s / 2)
                except StoreIo as error:  # perhaps the next time; if not, another worker takes over
                    logger.warning("a claim of this run could not be renewed: %s", error)
                    continue
                if not is_held:
                    self.drop(lease)
