"""What documents are called: names that say nothing, and cannot lead anywhere."""

from __future__ import annotations

from typing import Final, Literal

from cortex_replay.hashing import blake3_hex

__all__ = ["call_id", "story_id"]

_DIGITS: Final = 32
"""So many that nobody makes two paths with one id."""


def call_id(path: str) -> str:
    """The id of a recording, by its path in the index."""
    return _id_of(path)


def story_id(kind: Literal["run", "test"], name: str) -> str:
    """The id of the story of a run or a test."""
    return f"{kind}-{_id_of(name)}"


def _id_of(text: str) -> str:
    return blake3_hex(text.encode(errors="surrogatepass"))[:_DIGITS]
