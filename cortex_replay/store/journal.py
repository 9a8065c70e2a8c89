"""The journal of a store: which commit is under way, so that readers and the next writer can tell.

It stands outside the fixtures and outside git, is replaced as a whole and never deleted. Its
counter rises when a commit or a recovery starts and again when it ends, so a reader that sees the
same journal before and after its look knows that nobody moved anything in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from cortex_replay.strict_json import JsonError, loads

__all__ = ["JOURNAL_PATH", "MAX_JOURNAL_BYTES", "STATE_FOLDER", "Journal", "parse_journal", "render_journal"]

STATE_FOLDER: Final = ".cortex-replay"
"""What a writer needs beside the fixtures: lock, journal, staging. Never in git, never ``*.json``."""
JOURNAL_PATH: Final = f"{STATE_FOLDER}/journal"
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

    @property
    def moving(self) -> frozenset[str]:
        """Files that may stand there unlisted: a reader neither serves nor reports them."""
        return frozenset(self.added + self.removed) if self.is_open else frozenset()


def render_journal(journal: Journal) -> bytes:
    """The bytes of a journal."""
    return orjson.dumps(journal, option=orjson.OPT_APPEND_NEWLINE)


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
                )
            case _:
                return Journal()
    except JsonError:
        return Journal()


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
