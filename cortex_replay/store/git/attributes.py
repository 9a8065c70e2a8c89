"""What git must be told of a store: not to change line ends, and who merges the index."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from typing import Final

from cortex_replay.disk import Folder
from cortex_replay.store.paths import INDEX_NAME, NESTED_FOLDER, SHARDS_FOLDER
from cortex_replay.store.signing.chain import CHAIN_NAME, SIGNATURE_NAME

__all__ = [
    "ATTRIBUTES",
    "ATTRIBUTES_NAME",
    "MAX_LIST_BYTES",
    "SHARDS_ATTRIBUTE",
    "SIGNING_ATTRIBUTES",
    "complete_attributes",
    "lines_to_add",
]

ATTRIBUTES_NAME: Final = ".gitattributes"
ATTRIBUTES: Final = (f"{INDEX_NAME} -text merge=cortex-replay", f"{NESTED_FOLDER}/** -text")
SHARDS_ATTRIBUTE: Final = f"{SHARDS_FOLDER}/*.toml -text merge=cortex-replay"
"""What git must be told besides, once the index has shards."""
SIGNING_ATTRIBUTES: Final = (f"{SIGNATURE_NAME} -text merge=union", f"{CHAIN_NAME} -text merge=union")
"""What git must be told besides, once the index is signed: a merge keeps the lines of both sides."""
MAX_LIST_BYTES: Final = 2**20
"""A list of lines for git is smaller, or is none."""


def complete_attributes(
    root: Folder, state: Folder, *, has_shards: bool = False, is_signed: bool = False
) -> None:
    """Put the lines that are missing at the end of the file at a store's root, which need not be there.

    What is no plain file is left alone: git follows no link there either, and a recording is worth more. At
    every instant, the file is the old one or the new one: a line that a loss of power cut in half would tell
    git something else.

    Args:
        root: The store's root.
        state: The state folder in it, whose lock the caller holds.
        has_shards: Whether its index has shards.
        is_signed: Whether its index has a signature beside it.
    """
    lines = [*ATTRIBUTES, *([SHARDS_ATTRIBUTE] * has_shards), *(SIGNING_ATTRIBUTES * is_signed)]
    status = root.status(ATTRIBUTES_NAME)
    present, mode = b"", 0o644
    if status is not None:
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_LIST_BYTES:
            return
        present, mode = root.read(ATTRIBUTES_NAME), stat.S_IMODE(status.st_mode)
    if missing := lines_to_add(present, lines):
        root.replace(ATTRIBUTES_NAME, present + missing, "attributes.tmp", via=state, mode=mode)


def lines_to_add(present: bytes, lines: Iterable[str]) -> bytes:
    """What to put behind ``present`` so that each of the lines is in it."""
    known = present.splitlines()
    missing = [line.encode() + b"\n" for line in lines if line.encode() not in known]
    is_cut_short = bool(missing and present and not present.endswith(b"\n"))
    return b"\n" * is_cut_short + b"".join(missing)
