"""A change as one file, small enough to be kept with every run of a CI job."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from cortex_replay.view.bundle import bundle_modules, bundle_styles
from cortex_replay.view.documents.change import shorten_change
from cortex_replay.view.page import file_page, pack, page_document
from cortex_replay.view.shapes import ChangeDocument, ChangeItem

__all__ = ["MOST_BYTES", "change_page", "fit_change"]

MOST_BYTES: Final = 1_000_000
"""Of a page, unless what behaves otherwise needs more even in its shortest form."""
_LENGTHS: Final = (256, 512, 1_024, 1_536, 2_048, 3_072, 4_096, 16_384)
_FRAME: Final = 4096
"""What stands around scripts, styles and the change."""


def change_page(change: ChangeDocument, version: str, title: str = "cortex-replay diff") -> Iterator[str]:
    """The page with the Change screen alone, in pieces.

    Args:
        change: Without secrets.
        version: Of this package.
        title: The command that made it.
    """
    page = page_document(title, version, ["change"], is_file=True)
    room = MOST_BYTES - len(bundle_modules().encode()) - len(bundle_styles().encode()) - _FRAME
    yield from file_page(title, [("page", page), ("change", fit_change(change, room))])


def fit_change(change: ChangeDocument, room: int) -> ChangeDocument:
    """The change with texts so short that it takes no more than ``room`` bytes in a page. If even the
    shortest are too much, rewordings are counted rather than listed."""
    # From the shortest on; packing thousands of texts takes a while, so few lengths are tried.
    at = bisect_left(_LENGTHS, True, lo=1, key=lambda length: not _fits(shorten_change(change, length), room))
    short = shorten_change(change, _LENGTHS[at - 1])
    if at > 1 or _fits(short, room):
        return short
    important = [item for item in short["items"] if item["tier"] not in ("words", "same")]
    folded = [item for item in short["items"] if item["tier"] in ("words", "same")]
    while folded and not _fits(_of_items(short, [*important, *folded]), room):
        folded = folded[: len(folded) // 2]
    return _of_items(short, [*important, *folded])


def _of_items(change: ChangeDocument, items: list[ChangeItem]) -> ChangeDocument:
    """The change with these items of it alone; the others are counted."""
    return {**change, "items": items, "left_out": change["left_out"] + len(change["items"]) - len(items)}


def _fits(change: ChangeDocument, room: int) -> bool:
    return len(pack(change)) <= room
