"""What a signature covers besides rows, so that an old index cannot pass for a new one. No I/O.

A signed index says in its head which store it is of (``store_id``), how often that was signed
(``generation``), and what was signed before (``prev``). ``prev`` is a hash over the entries of a plain list,
``INDEX.chain``: generation and digest of every index that was ever signed. So who has a signed index can
check the list that comes with it, and sees whether an earlier index is among its ancestors
(`docs/adr/0024-signed-indexes.md`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from cortex_replay.hashing import blake3_hex, is_digest
from cortex_replay.store.index.index import Scalar

__all__ = [
    "CHAIN_NAME",
    "MAX_CHAIN_BYTES",
    "SIGNATURE_NAME",
    "STORE_ID",
    "Chain",
    "ChainError",
    "Entry",
    "Head",
    "merge_heads",
]

SIGNATURE_NAME: Final = "INDEX.toml.sig"
CHAIN_NAME: Final = "INDEX.chain"
MAX_CHAIN_BYTES: Final = 8 * 2**20
"""About 110,000 signatures."""

_NAMES: Final = ("store_id", "generation", "prev")
_START: Final = "0" * 64
"""What comes before the first signature."""
_LINE: Final = re.compile(r"([1-9][0-9]{0,17}) ([0-9a-f]{64})")
STORE_ID: Final = re.compile(r"[0-9a-f]{32}")
"""What names a store that is signed."""


class ChainError(ValueError):
    """The list of signatures, or the head of an index, is not what it should be."""


class Entry(NamedTuple):
    """An index that was signed."""

    generation: int
    digest: str


@dataclass(frozen=True, slots=True)
class Head:
    """What a signed index says of itself."""

    store_id: str
    generation: int
    prev: str

    @classmethod
    def of(cls, header: Mapping[str, Scalar]) -> Self | None:
        """The head of an index, or ``None`` if it was never signed.

        Raises:
            ChainError: It says something of the kind that cannot be.
        """
        store_id, generation, prev = map(header.get, _NAMES)
        if store_id is None and generation is None and prev is None:
            return None
        if not isinstance(store_id, str) or not STORE_ID.fullmatch(store_id):
            raise ChainError("store_id is not 32 hex digits")
        if isinstance(generation, bool) or not isinstance(generation, int) or generation < 1:
            raise ChainError("generation is not a number from 1")
        if not isinstance(prev, str) or not is_digest(prev):
            raise ChainError("prev is not a digest")
        return cls(store_id, generation, prev)

    def on(self, header: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The top-level values of an index with this head in place of another."""
        return {
            **{name: value for name, value in header.items() if name not in _NAMES},
            "store_id": self.store_id,
            "generation": self.generation,
            "prev": self.prev,
        }


@dataclass(frozen=True, slots=True)
class Chain:
    """All indexes that were signed, oldest first. Two of one generation were signed in two branches."""

    entries: tuple[Entry, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Self:
        """The chain of these entries, in whatever order they come."""
        return cls(tuple(sorted(set(entries))))

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the list. Git may have put the lines of two branches together, so their order does not count.

        Raises:
            ChainError: It is none.
        """
        if len(data) > MAX_CHAIN_BYTES:
            raise ChainError(f"is larger than {MAX_CHAIN_BYTES} bytes")
        entries: list[Entry] = []
        for number, line in enumerate(data.decode("ascii", errors="replace").split("\n"), start=1):
            if found := _LINE.fullmatch(line):
                entries.append(Entry(int(found[1]), found[2]))
            elif line:
                raise ChainError(f"line {number} is not a generation and a digest")
        return cls.of(entries)

    def render(self) -> bytes:
        """The list as it is written."""
        return "".join(f"{generation} {digest}\n" for generation, digest in self.entries).encode()

    @property
    def newest(self) -> int:
        """The latest generation; 0 if there is none."""
        return self.entries[-1].generation if self.entries else 0

    def before(self, generation: int) -> tuple[Entry, ...]:
        """What was signed before a generation."""
        return self.entries[: bisect_left(self.entries, Entry(generation, ""))]

    def prev_of(self, generation: int) -> str:
        """What an index of a generation says in ``prev``: a hash over all entries before it."""
        prev = _START
        for entry in self.before(generation):
            prev = blake3_hex(f"{prev} {entry.generation} {entry.digest}\n".encode())
        return prev

    def next_head(self, store_id: str) -> Head:
        """The head of the index that is signed next."""
        return Head(store_id, self.newest + 1, self.prev_of(self.newest + 1))


def merge_heads(ours: Mapping[str, Scalar], theirs: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The top-level values of a merged index: ours, with the head of the side that was signed more often.

    What cannot be read of a head counts as none. Nobody has signed the merged rows; who signs them next goes
    on from the chain, which has the signatures of both sides.
    """
    head = _try_head(theirs)
    mine = _try_head(ours)
    if head is None or (mine is not None and mine.generation >= head.generation):
        return dict(ours)
    return head.on(ours)


def _try_head(header: Mapping[str, Scalar]) -> Head | None:
    try:
        return Head.of(header)
    except ChainError:
        return None
