"""Fetching before it is asked for: a suite that asks for one file after the other soon asks for the next.

Each time a file has to be fetched, some that are not here come with it, and twice as many the next time. So
who looks at one recording fetches a few, who replays a thousand waits for the bucket some seven times, and
neither fetches much more than twice what is used. What a request continues comes along in any case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final

from cortex_replay.store.elsewhere import Elsewhere
from cortex_replay.store.index.index import Row
from cortex_replay.store.index.named_file import NamedFile

__all__ = ["ReadAhead"]

_FIRST: Final = 16
_MOST: Final = 1024
"""At once: a server that waits for them answers no other client meanwhile."""


class ReadAhead:
    """The listed files that were not here when a store was opened, and have not been asked for yet."""

    def __init__(self, elsewhere: Elsewhere, absent: Iterable[Row]) -> None:
        self._elsewhere = elsewhere
        self._absent: dict[str, NamedFile] = {row.path: row for row in absent}
        self._next = _FIRST

    def __contains__(self, path: str) -> bool:
        return path in self._absent

    @property
    def files(self) -> Collection[NamedFile]:
        return self._absent.values()

    def add(self, rows: Iterable[Row]) -> None:
        """Know of more files that are not here."""
        self._absent.update((row.path, row) for row in rows)

    def prepare(self, file: NamedFile, needed: Iterable[NamedFile] = ()) -> None:
        """Have a file in the cache, what it needs, and others, if it is one of them."""
        if self._absent.pop(file.path, None) is None:
            return
        along = {one.path: one for one in needed if self._absent.pop(one.path, None) is not None}
        batch = [file, *along.values(), *islice(self._absent.values(), self._next - 1)]
        self._next = min(2 * self._next, _MOST)
        for one in batch[1 + len(along) :]:
            del self._absent[one.path]
        self._elsewhere.fetch(batch)
