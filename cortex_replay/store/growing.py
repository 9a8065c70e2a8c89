"""A staged fixture that gets more answers, each in a staged file of its own.

A sequence that is staged anew with every answer takes ever longer. What is staged of a further answer is that
answer alone, as a fixture without a request; a commit puts all of them together. The name of its file says to
which fixture it belongs, and which answer it is. So what is adopted from a run that died ends before the
first answer that is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from cortex_replay.hashing import blake3_hex
from cortex_replay.store.changes import Add, Pin, Remove, new_fixture
from cortex_replay.store.fixture import Answer
from cortex_replay.store.fixture_json import parse_fixture, render_fixture
from cortex_replay.store.staging import Session
from cortex_replay.store.trust import MAX_FIXTURE_BYTES, Layout

__all__ = ["Growing", "base_and_place"]

_MORE: Final = re.compile(r"more-(\d+)-(\d+)")


class _Piece(NamedTuple):
    """One further answer."""

    place: int
    name: str
    """What its file is called in staging."""
    digest: str


@dataclass(slots=True, eq=False)
class Growing:
    """One staged change, and the answers that came to it since."""

    change: Add | Remove | Pin
    name: str
    """What its answer is called in staging; "" where it has none."""
    order: int
    """When it was staged, counted with all others. What overwrites counts from its last answer on."""
    size: int = 0
    """How many bytes of answers are staged for it."""
    pieces: list[_Piece] = field(default_factory=list)
    session: Session | None = None
    """Where it waits; ``None`` if it cannot get answers any more."""
    is_withdrawn: bool = False
    """Whether something else says all of it anew."""
    count: int = 0
    """How many answers it has."""

    def __post_init__(self) -> None:
        self.count = len(self.change.said.essence) if isinstance(self.change, Add) else 0

    def takes(self, place: int, size: int) -> bool:
        """Whether an answer can come to it: the one after the last that came, or else any but the first."""
        is_next = place == self.pieces[-1].place + 1 if self.pieces else place > 1
        has_room = self.size + size <= MAX_FIXTURE_BYTES
        return is_next and has_room and place <= self.count + 1

    def kind(self, place: int) -> str:
        """The end of the name of the file that an answer is staged in."""
        return f"more-{self.name.partition('.')[0]}-{place}"

    def take(self, place: int, name: str, data: bytes, order: int) -> None:
        """Remember an answer that was staged."""
        self.pieces.append(_Piece(place, name, blake3_hex(data)))
        self.count = max(self.count, place)
        self.size += len(data)
        if isinstance(self.change, Add) and self.change.overwrite:
            self.order = order

    def become(self, whole: Add, name: str, size: int) -> None:
        """From now on it is staged in one file, with all of its answers."""
        self.change, self.name, self.size = whole, name, size
        self.pieces.clear()

    def joined(self, layout: Layout, read: Callable[[str, str], bytes]) -> tuple[Add, bytes]:
        """The same change with all of its answers, and the bytes of that fixture.

        Args:
            layout: That of the store.
            read: Gives the bytes of a staged file that have this digest.
        """
        change = self.change
        assert isinstance(change, Add)  # noqa: S101 - nothing else has pieces
        fixture = parse_fixture(read(self.name, change.row.blake3))
        answers = list(fixture.answers)
        for piece in self.pieces:
            answers[piece.place - 1 : piece.place] = [_answer_in(read(piece.name, piece.digest))]
        data = render_fixture(replace(fixture, answers=tuple(answers)))
        whole = new_fixture(
            layout,
            fixture.key,
            data,
            overwrite=change.overwrite,
            keep_existing=change.keep_existing,
            scope=change.scope,
            is_exact=change.is_exact,
        )
        return whole, data


def base_and_place(kind: str) -> tuple[str, int] | None:
    """Of a file with a further answer, the number of the file that it belongs to, and which answer it is."""
    found = _MORE.fullmatch(kind)
    return (found[1], int(found[2])) if found else None


def _answer_in(data: bytes) -> Answer:
    fixture = parse_fixture(data)
    return replace(fixture.answers[0], meta=fixture.meta)
