"""Where the bytes of a store come from: the working tree, or what git has staged of it.

A source answers a few questions and judges nothing. A file that cannot be read as a plain file is
answered with a :class:`~cortex_replay.errors.Finding`, so that one bad file does not hide others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from cortex_replay.errors import Finding
from cortex_replay.store.elsewhere import Elsewhere
from cortex_replay.store.index.named_file import File, NamedFile

__all__ = ["Listing", "Source"]


@dataclass(slots=True)
class Listing:
    """The plain files below a folder, and what stands there that is no plain file or folder."""

    files: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)


class Source(Protocol):
    """What the check needs of a place that holds a store. Paths are relative to its root."""

    @property
    def elsewhere(self) -> Elsewhere:
        """Where a file that is not here may be had. True if there is such a place."""

    def has_folder(self, name: str) -> bool:
        """Whether a real folder of this name stands at the root."""

    def list_files(self, folder: str) -> Listing:
        """Every plain file below ``folder`` ("" is the root), at any depth, hidden ones too."""

    def read(self, path: str, max_bytes: int) -> bytes | Finding:
        """The whole content of one file; at most ``max_bytes`` + 1 bytes of it."""

    def read_listed(self, file: NamedFile, max_bytes: int) -> bytes | Finding:
        """The same of a file that a row names. One that is not here may be had elsewhere, by its hash."""

    def read_journal(self) -> bytes:
        """What a writer is at, as it stands there; nothing where no writer comes."""

    def read_waiting(self, digest: str) -> bytes:
        """The shard with this hash that a writer is about to put in its place, as it stands there; nothing
        where none is."""

    def read_many(self, files: Iterable[File], max_bytes: int) -> Iterator[tuple[File, bytes | Finding]]:
        """The content of many files that rows name, fastest in sorted order; those that are elsewhere come
        last, in any order. A file whose bytes turn out not to be the expected ones is to be asked for again
        with :meth:`read_listed`, which takes no short cut."""
