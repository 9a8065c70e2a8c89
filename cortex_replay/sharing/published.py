"""What a worker of a fleet tells of each change that it staged: a row, and where its recording is.

Rows come in batches, each an object that is put once. What a batch names is in the bucket before it is.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, Self, cast

import orjson

from cortex_replay.hashing import is_digest
from cortex_replay.remote.seals import Seal
from cortex_replay.store.changes import Add, Pin, Remove
from cortex_replay.store.index.index import ContentKey, content_key
from cortex_replay.store.notes import parse_note, render_note
from cortex_replay.store.trust import scope_problem
from cortex_replay.strict_json import JsonError, loads

__all__ = [
    "BEGUN",
    "CLAIMS",
    "ENDED",
    "ROWS",
    "Left",
    "PublishedRow",
    "parse_rows",
    "render_rows",
    "row_of",
]

ROWS: Final = "rows/"
BEGUN: Final = "workers/"
ENDED: Final = "ended/"
CLAIMS: Final = "claims/"
"""Where the batches are in the folder of a run, who has begun, who has ended, and who asks what."""

Kind = Literal["fixture", "exchange", "note", "withdrawal"]
_FIELDS: Final = frozenset(
    ["session", "kind", "scope", "about", "blake3", "overwrite", "keep_existing", "is_exact", "note", "place"]
)


class PublishedRow(NamedTuple):
    """One change."""

    session: int
    """Which changes of its worker are kept or dropped together."""
    kind: Kind
    scope: str = ""
    about: ContentKey = (None, None, None, None)
    blake3: str = ""
    """Of the recording, for an answer."""
    overwrite: bool = False
    keep_existing: bool = False
    is_exact: bool = False
    note: str = ""
    """A pin or a removal, as it is staged."""
    place: int = 0
    """Tells the changes of a worker in the order in which it made them."""

    @property
    def is_answer(self) -> bool:
        return self.kind in ("fixture", "exchange")

    @classmethod
    def withdrawal(cls, session: int) -> Self:
        """That a session was dropped."""
        return cls(session, "withdrawal")

    def change(self) -> Pin | Remove | None:
        """What a note says; ``None`` if it is of a version that we do not know."""
        return parse_note(self.note.encode())


def row_of(session: int, change: Add | Remove | Pin) -> PublishedRow | None:
    """The row for a change; ``None`` for one that is no part of a recording."""
    if isinstance(change, Add):
        about = content_key(change.row)
        kind: Kind = "fixture" if about[2:] == (None, None) else "exchange"
        flags = change.overwrite, change.keep_existing, change.is_exact
        return PublishedRow(session, kind, change.scope, about, change.row.blake3, *flags)
    if isinstance(change, Remove) and not change.is_kept:
        return None
    return PublishedRow(session, "note", change.scope, note=render_note(change).decode())


def render_rows(rows: list[PublishedRow], name: str, seal: Seal) -> bytes:
    """A batch, as the object of this name."""
    return seal.close(name, orjson.dumps({"rows": [row._asdict() for row in rows]}))


def parse_rows(data: bytes, name: str, seal: Seal) -> list[PublishedRow] | None:
    """Read a batch; ``None`` if it is none of this run, or of a version that we do not know."""
    content = seal.open(name, data)
    if content is None:
        return None
    try:
        document: Any = loads(content)
    except JsonError:
        return None
    if not isinstance(document, dict) or not isinstance(document.get("rows"), list):
        return None
    rows = [_parse_row(row) for row in document["rows"]]
    return None if None in rows else cast("list[PublishedRow]", rows)


class Left(NamedTuple):
    """What the owner of a claim leaves: the answer for those who wait, and the rows that were staged with it.

    One object has both, so that no row counts whose answer others did not get.
    """

    worker: str
    rows: list[PublishedRow]
    outcome: bytes

    def render(self) -> bytes:
        head = {"worker": self.worker, "rows": [row._asdict() for row in self.rows]}
        return orjson.dumps(head) + b"\n" + self.outcome

    @classmethod
    def parse(cls, data: bytes) -> Self | None:
        """Read it; ``None`` if it is of a version that we do not know."""
        head, _, outcome = data.partition(b"\n")
        try:
            match loads(head):
                case {"worker": str(worker), "rows": [*rows]}:
                    parsed = [_parse_row(row) for row in rows]
                    return (
                        None if None in parsed else cls(worker, cast("list[PublishedRow]", parsed), outcome)
                    )
        except JsonError:
            pass
        return None


def _parse_row(row: Any) -> PublishedRow | None:
    if not isinstance(row, dict) or row.keys() != _FIELDS:
        return None
    about = row["about"]
    is_sound = (
        isinstance(about, list)
        and len(about) == 4
        and all(item is None or isinstance(item, str) for item in about)
        and all(isinstance(row[name], int) for name in ("session", "place"))
        and row["kind"] in ("fixture", "exchange", "note", "withdrawal")
        and all(isinstance(row[name], str) for name in ("scope", "blake3", "note"))
        and all(isinstance(row[name], bool) for name in ("overwrite", "keep_existing", "is_exact"))
        and (not row["scope"] or scope_problem(row["scope"]) is None)
    )
    if not is_sound or (row["kind"] in ("fixture", "exchange") and not is_digest(row["blake3"])):
        return None
    return PublishedRow(**{**row, "about": tuple(about)})
