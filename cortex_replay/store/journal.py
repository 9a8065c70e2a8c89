"""The journal of a store: which commit is under way, so that readers and the next writer can tell.

It stands outside the fixtures and outside git, is replaced as a whole and never deleted. An open one
counts only with the mark of this user: a repository may bring one along that names whatever it likes. Its
counter rises when a commit or a recovery starts and again when it ends, so a reader that sees the
same journal before and after its look knows that nobody moved anything in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson

from cortex_replay.store.index.index import ShardRow
from cortex_replay.store.marks import Marker, known_marker
from cortex_replay.strict_json import JsonError, loads

__all__ = [
    "JOURNAL_NAME",
    "MAX_JOURNAL_BYTES",
    "STATE_FOLDER",
    "WAITING_FOLDER",
    "Journal",
    "parse_journal",
    "render_journal",
    "trust_journal",
]

STATE_FOLDER: Final = ".cortex-replay"
"""What a writer needs beside the fixtures: lock, journal, staging. Never in git, never ``*.json``."""
JOURNAL_NAME: Final = "journal"
"""In the state folder."""
WAITING_FOLDER: Final = "shards"
"""In the state folder: the shards that a commit has not put in their places yet, by their hash."""
MAX_JOURNAL_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Journal:
    """The last commit or recovery; ``is_open`` while it is under way, or when it was cut short."""

    counter: int = 0
    is_open: bool = False
    old_index: str = ""
    """Digest of the index before the commit."""
    new_index: str = ""
    """Digest of the index that the commit puts in its place."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    overwriting: tuple[str, ...] = ()
    """Those of ``added`` that were meant to replace another answer."""
    shards: Mapping[str, str] = field(default_factory=dict)
    """By name, the digests of the shards that the commit puts in place; "" of one that goes."""
    derived: tuple[str, ...] = ()
    """Those of ``added`` that were made of what is staged or listed, and can be made again."""
    spent: tuple[str, ...] = ()
    """Staged files (session/name) that were written in another form: they go with the commit."""
    mark: str = field(default="", compare=False)

    def is_marked_by(self, marker: Marker | None) -> bool:
        """Whether this user wrote it, and wrote what it says."""
        if marker is None:
            return False
        try:
            return marker.knows(self.mark, "journal", orjson.dumps(_fields(self)).decode())
        except orjson.JSONEncodeError:  # a number or a text that no journal of ours holds
            return False

    @property
    def moving(self) -> frozenset[str]:
        """Files that may stand there unlisted: a reader neither serves nor reports them."""
        if not self.is_open:
            return frozenset()
        shards = (ShardRow(name, "").path for name in self.shards)
        return frozenset((*self.added, *self.removed, *shards))

    def promises(self, shard: ShardRow) -> bool:
        """Whether a shard that is not in its place may wait in the state folder."""
        return self.is_open and self.shards.get(shard.name) == shard.blake3


def render_journal(journal: Journal, marker: Marker) -> bytes:
    """The bytes of a journal, with the mark of its writer."""
    fields = _fields(journal)
    mark = marker.mark("journal", orjson.dumps(fields).decode())
    return orjson.dumps(fields | {"mark": mark}, option=orjson.OPT_APPEND_NEWLINE)


def trust_journal(data: bytes) -> Journal:
    """Read a journal for a reader: one that somebody else left open says nothing."""
    journal = parse_journal(data)
    return journal if not journal.is_open or journal.is_marked_by(known_marker()) else Journal()


def parse_journal(data: bytes) -> Journal:
    """Read a journal. One that is not as we write it says nothing: then no file is excused."""
    try:
        match loads(data):
            case {
                "counter": int() as counter,
                "is_open": bool() as is_open,
                "old_index": str() as old_index,
                "new_index": str() as new_index,
                "added": list() as added,
                "removed": list() as removed,
                **rest,
            }:
                return Journal(
                    counter,
                    is_open,
                    old_index,
                    new_index,
                    _texts(added),
                    _texts(removed),
                    _texts(rest.get("overwriting")),
                    _shards_in(rest.get("shards")),
                    _texts(rest.get("derived")),
                    _texts(rest.get("spent")),
                    str(rest.get("mark")),
                )
            case _:
                return Journal()
    except JsonError:
        return Journal()


def _fields(journal: Journal) -> dict[str, object]:
    """What it says, and the mark is made of."""
    names = ("counter", "is_open", "old_index", "new_index", "added", "removed", "overwriting")
    further: dict[str, object] = {name: getattr(journal, name) for name in ("derived", "spent")}
    further["shards"] = dict(sorted(journal.shards.items()))
    # Earlier versions know the mark of a journal without these.
    return {name: getattr(journal, name) for name in names} | {
        name: value for name, value in further.items() if value
    }


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _shards_in(value: object) -> dict[str, str]:
    shards = value if isinstance(value, dict) else {}
    return {name: digest for name, digest in shards.items() if isinstance(digest, str)}
