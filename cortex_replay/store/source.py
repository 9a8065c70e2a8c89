"""Where the bytes of a store come from: the working tree, or what git has staged of it.

A source answers a few questions and judges nothing. A file that cannot be read as a plain file is
answered with a :class:`~cortex_replay.errors.Finding`, so that one bad file does not hide others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from cortex_replay.errors import Finding

__all__ = ["Listing", "Source"]


@dataclass(slots=True)
class Listing:
    """The plain files below a folder, and what stands there that is no plain file or folder."""

    files: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)


class Source(Protocol):
    """What the check needs of a place that holds a store. Paths are relative to its root."""

    def has_folder(self, name: str) -> bool:
        """Whether a real folder of this name stands at the root."""

    def list_files(self, folder: str) -> Listing:
        """Every plain file below ``folder`` ("" is the root), at any depth, hidden ones too."""

    def read(self, path: str, max_bytes: int) -> bytes | Finding:
        """The whole content of one file; at most ``max_bytes`` + 1 bytes of it."""

    def read_journal(self) -> bytes:
        """What a writer is at, as it stands there; nothing where no writer comes."""

    def read_many(self, paths: Iterable[str], max_bytes: int) -> Iterator[tuple[str, bytes | Finding]]:
        """The content of many files, fastest in sorted order. A file whose bytes turn out not to
        be the expected ones is to be asked for again with :meth:`read`, which takes no short cut."""
