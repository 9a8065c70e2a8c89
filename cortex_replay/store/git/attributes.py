"""What git must be told of a store: not to change line ends, and who merges the index."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from cortex_replay.disk import Folder
from cortex_replay.store.paths import INDEX_NAME, NESTED_FOLDER, SHARDS_FOLDER

__all__ = [
    "ATTRIBUTES",
    "ATTRIBUTES_NAME",
    "MAX_LIST_BYTES",
    "SHARDS_ATTRIBUTE",
    "complete_attributes",
    "lines_to_add",
]

ATTRIBUTES_NAME: Final = ".gitattributes"
ATTRIBUTES: Final = (f"{INDEX_NAME} -text merge=cortex-replay", f"{NESTED_FOLDER}/** -text")
SHARDS_ATTRIBUTE: Final = f"{SHARDS_FOLDER}/*.toml -text merge=cortex-replay"
"""What git must be told besides, once the index has shards."""
MAX_LIST_BYTES: Final = 2**20
"""A list of lines for git is smaller, or is none."""


def complete_attributes(root: Folder, *, has_shards: bool = False) -> None:
    """Put the lines that are missing at the end of the file at a store's root, which need not be there.

    What is no plain file is left alone: git follows no link there either, and a recording is worth more.
    """
    lines = (*ATTRIBUTES, SHARDS_ATTRIBUTE) if has_shards else ATTRIBUTES
    status = root.status(ATTRIBUTES_NAME)
    if status is None:
        with suppress(FileExistsError):  # another process makes the same store
            root.create(ATTRIBUTES_NAME, lines_to_add(b"", lines), durable=True)
    elif stat.S_ISREG(status.st_mode) and status.st_size <= MAX_LIST_BYTES:
        missing = lines_to_add(root.read(ATTRIBUTES_NAME, MAX_LIST_BYTES), lines)
        if missing:
            root.append(ATTRIBUTES_NAME, missing)


def lines_to_add(present: bytes, lines: Iterable[str]) -> bytes:
    """What to put behind ``present`` so that each of the lines is in it."""
    known = present.splitlines()
    missing = [line.encode() + b"\n" for line in lines if line.encode() not in known]
    is_cut_short = bool(missing and present and not present.endswith(b"\n"))
    return b"\n" * is_cut_short + b"".join(missing)
