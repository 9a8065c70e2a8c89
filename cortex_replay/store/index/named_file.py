"""What a row says of its file, whatever else it says: where it stands, and what it hashes to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

__all__ = ["File", "NamedFile", "one_per_file"]


class NamedFile(Protocol):
    """What a row says of its file."""

    @property
    def path(self) -> str: ...

    @property
    def blake3(self) -> str: ...


File = TypeVar("File", bound=NamedFile)


def one_per_file(rows: Iterable[File]) -> list[File]:
    """Of rows that name one file, the last; sorted by path."""
    by_path = {row.path: row for row in rows}
    return [by_path[path] for path in sorted(by_path)]
