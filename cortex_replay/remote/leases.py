"""Who does a thing, of many that have nothing in common but a bucket.

The claim to it is an object with a lease. It is made where there is none, and renewed by a put over the
version that its owner wrote last. No clock is compared with another. Who waits watches the version, and takes
over when it has not changed for the time of a lease on its own clock, by a put over that very version: of
several that try, one succeeds. The answer is put over the owner's last version as well, so an owner that lost
its lease cannot leave one. A claim is never removed while its run lasts.

Here are the steps alone. They say which operation comes next and are told what came of it, so that each order
of the steps of many can be tried. :func:`drive` lets a bucket do them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from cortex_replay.remote.bucket import Bucket, Stamped
from cortex_replay.remote.seals import Seal
from cortex_replay.strict_json import JsonError, loads

__all__ = [
    "LEASE_S",
    "Contender",
    "Get",
    "Lease",
    "Operation",
    "PutNew",
    "PutOver",
    "Steps",
    "answer_in",
    "drive",
]

LEASE_S: Final = 10.0
"""How long a claim is held after its owner's last sign of life."""
_TRIES: Final = 4
"""How many puts of an owner may have been done without its knowledge."""
_HELD: Final = "held"
_FREE: Final = "free"
_DONE: Final = "done"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Get:
    """Read an object."""

    name: str


@dataclass(frozen=True, slots=True)
class PutNew:
    """Put an object where there is none."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class PutOver:
    """Put an object over a version of it."""

    name: str
    data: bytes
    version: str


Operation = Get | PutNew | PutOver
Steps = Generator[Operation, Any, _T]
"""Gives operations, is sent what came of each, and comes to something."""


def drive(bucket: Bucket, steps: Steps[_T]) -> _T:
    """Do what the steps want, one after the other; gives what they come to.

    Raises:
        StoreIo: The bucket cannot be asked.
    """
    result: Stamped | bool | None = None
    while True:
        try:
            operation = steps.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        match operation:
            case Get(name):
                result = bucket.get(name)
            case PutNew(name, data):
                result = bucket.put_new(name, data)
            case PutOver(name, data, version):
                result = bucket.put_over(name, data, version)


class _Said(NamedTuple):
    """What a claim says."""

    state: str
    owner: str
    lease_s: float
    answer: bytes


@dataclass(slots=True)
class _Writer:
    """Writes one claim, for one that wants it; no two of its texts are equal."""

    name: str
    seal: Seal
    lease_s: float
    owner: str = field(default_factory=lambda: secrets.token_hex(16))
    beat: int = 0

    def write(self, state: str, answer: bytes = b"") -> bytes:
        self.beat += 1
        head = {
            "state": state,
            "owner": self.owner,
            "beat": self.beat,
            "lease_ms": round(self.lease_s * 1000),
        }
        return self.seal.close(self.name, orjson.dumps(head) + b"\n" + answer)

    def has_written(self, data: bytes) -> bool:
        """Whether this is a text of its own."""
        said = self.read(data)
        return said is not None and said.owner == self.owner

    def read(self, data: bytes) -> _Said | None:
        content = self.seal.open(self.name, data)
        if content is None:
            return None
        head, _, answer = content.partition(b"\n")
        try:
            match loads(head):
                case {"state": str(state), "owner": str(owner), "lease_ms": int(lease_ms)}:
                    return _Said(state, owner, lease_ms / 1000, answer)
        except JsonError:
            pass
        return None


def answer_in(data: bytes, name: str, seal: Seal) -> bytes | None:
    """What was left in a claim; ``None`` if it is still to be had, or is none of the run."""
    said = _Writer(name, seal, LEASE_S).read(data)
    return said.answer if said is not None and said.state == _DONE else None


@dataclass(slots=True, eq=False)
class Lease:
    """A claim that is held, until its owner ends it or loses it."""

    writer: _Writer
    version: str
    is_lost: bool = False

    def renew(self) -> Steps[bool]:
        """Show that its owner lives; whether it still holds the claim."""
        return self._put(self.writer.write(_HELD), goes_on=True)

    def finish(self, answer: bytes) -> Steps[bool]:
        """Leave the answer to all who want it; whether the claim was still held."""
        return self._put(self.writer.write(_DONE, answer))

    def release(self) -> Steps[bool]:
        """Leave the claim to who wants it next, without an answer."""
        return self._put(self.writer.write(_FREE))

    def _put(self, data: bytes, *, goes_on: bool = False) -> Steps[bool]:
        if self.is_lost:
            return False
        name = self.writer.name
        for _ in range(_TRIES):
            is_put = yield PutOver(name, data, self.version)
            if is_put and not goes_on:
                return True
            # A put that was done and not confirmed is tried again by the client, and refused: look what is
            # there.
            found = yield Get(name)
            if found is not None and found.data == data:
                self.version = found.version
                return True
            if is_put or found is None or not self.writer.has_written(found.data):
                break
            self.version = found.version  # of an earlier put, of which its owner heard only an error
        self.is_lost = True
        return False


class Contender:
    """One that wants a claim, or the answer that its owner leaves.

    Args:
        name: Of the claim.
        seal: Of the run.
        lease_s: How long to hold it after the last sign of life.
        clock: Seconds that only go forward.
    """

    def __init__(self, name: str, seal: Seal, lease_s: float, clock: Callable[[], float]) -> None:
        self._writer = _Writer(name, seal, lease_s)
        self._clock = clock
        self._mine = self._writer.write(_HELD)
        self._is_first = True
        self._watched = ""
        """The version that was there at the last look."""
        self._since = 0.0
        self.strangers = 0
        """How often something was found in the place of the claim that is none of this run."""

    def look(self) -> Steps[Lease | bytes | None]:
        """The claim, if it is to be had; or the answer, if there is one; ``None`` while another holds it."""
        name = self._writer.name
        if self._is_first:
            self._is_first = False
            yield PutNew(name, self._mine)  # what is there afterwards tells whose it is
        found = yield Get(name)
        if found is None:  # the run was removed
            self._is_first = True
            return None
        if (outcome := self._outcome(found)) is not None:
            return outcome
        if self._is_taken(found):
            return None
        yield PutOver(name, self._mine, found.version)
        found = yield Get(name)
        return None if found is None else self._outcome(found)

    def _outcome(self, found: Stamped) -> Lease | bytes | None:
        if found.data == self._mine:
            return Lease(self._writer, found.version)
        said = self._writer.read(found.data)
        return said.answer if said is not None and said.state == _DONE else None

    def _is_taken(self, found: Stamped) -> bool:
        """Whether the claim is held by a worker that may be alive."""
        said = self._writer.read(found.data)
        if said is None:
            self.strangers += 1
            return False
        if said.state != _HELD:
            return False
        now = self._clock()
        if found.version != self._watched:
            self._watched, self._since = found.version, now
            return True
        return now - self._since < said.lease_s
