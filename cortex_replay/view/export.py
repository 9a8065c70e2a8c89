"""The page as one file, no larger than its reader wants it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cortex_replay.progress import Progress
from cortex_replay.view.library import Library
from cortex_replay.view.page import file_page

__all__ = ["MOST_BYTES", "TooLarge", "export_page"]

MOST_BYTES: Final = 64 * 2**20
"""A browser opens what is larger slowly, or not at all."""


class TooLarge(Exception):
    """The page would be larger than a reader wants it; ``written`` bytes were made until then."""

    def __init__(self, written: int, done: int, total: int) -> None:
        super().__init__(written, done, total)
        self.written = written
        self.done = done
        self.total = total


def export_page(
    library: Library, *, most: int | None = MOST_BYTES, progress: Progress | None = None
) -> bytes:
    """The whole page.

    Args:
        library: What it shows.
        most: The most bytes; ``None`` for any number.
        progress: Called with the number of documents written so far, and of all.

    Raises:
        TooLarge: It would have more than that.
        FixtureIntegrityFailed: The store is not what its index says.
    """
    total = library.count()
    done = 0

    def documents() -> Iterator[tuple[str, object]]:
        nonlocal done
        for name, document in library.all():
            yield name, document
            done += 1
            if progress is not None:
                progress(done, total)

    pieces: list[bytes] = []
    written = 0
    for piece in file_page(library.title, documents()):
        pieces.append(piece.encode())
        written += len(pieces[-1])
        if most is not None and written > most:
            raise TooLarge(written, done, total)
    return b"".join(pieces)
