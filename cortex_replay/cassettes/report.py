"""What came of an import: everything that was found, and what was left."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ImportReport", "Omission"]


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that is in a cassette and not in the store."""

    file: str
    number: int | None
    """Which interaction of the file, from 1; ``None`` for all of it."""
    call: str
    """Method, host and path; never a query, which may hold a key."""
    reason: str

    def __str__(self) -> str:
        place = self.file if self.number is None else f"{self.file} #{self.number}"
        return f"{place}: {self.call}: {self.reason}" if self.call else f"{place}: {self.reason}"


@dataclass
class ImportReport:
    """Counts of interactions, and a line for each that was not converted."""

    cassettes: int = 0
    interactions: int = 0
    answers: int = 0
    """Became an answer of a fixture."""
    failures: int = 0
    """Became a recorded failure."""
    exchanges: int = 0
    """Became an opaque exchange."""
    repeated: int = 0
    """Say what the store, or another interaction, says already."""
    overwritten: int = 0
    """How many keys had something else in the store before."""
    without_test: list[str] = field(default_factory=list)
    """Cassettes of which no test could be told; their scope is their path."""
    changed: int = 0
    """How many questions are not as long as they were when they were sent."""
    redacted: int = 0
    """In how many recordings a secret was found and cut out."""
    not_converted: list[Omission] = field(default_factory=list)
