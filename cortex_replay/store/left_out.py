"""Files below a store's folder that have nothing to do with it, as the project says.

Every JSON file there must be listed, since one that is not may be a recording that somebody forgot. A project
that keeps other JSON in a folder ``fixtures`` names it in a file beside the index: one path per line, or one
folder with ``/`` at its end. What it names is not reported and not adopted. It is never served either:
only rows of the index are, and those count whatever this file says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cortex_replay.store.source import Source

__all__ = ["LEFT_OUT_NAME", "LeftOut", "read_left_out"]

LEFT_OUT_NAME: Final = ".cortex-replay-ignore"
_MAX_BYTES: Final = 2**18


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The paths and folders that are left out."""

    paths: frozenset[str] = frozenset()
    """Those of folders end with ``/``."""

    def __contains__(self, path: str) -> bool:
        ends = (place + 1 for place, character in enumerate(path) if character == "/")
        return path in self.paths or any(path[:end] in self.paths for end in ends)


def read_left_out(source: Source) -> LeftOut:
    """What the project leaves out; nothing, where the file is not a plain one of a sensible size."""
    data = source.read(LEFT_OUT_NAME, _MAX_BYTES)
    if not isinstance(data, bytes):
        return LeftOut()
    lines = (line.strip() for line in data.decode(errors="replace").splitlines())
    return LeftOut(frozenset(line.removeprefix("./") for line in lines if line and line[0] != "#"))
