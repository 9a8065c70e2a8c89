"""The published figures: ``docs/proof.json``, by proof and row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar

__all__ = [
    "FILE",
    "KEPT",
    "NothingKept",
    "Number",
    "Proof",
    "Proven",
    "Row",
    "Scale",
    "Tell",
    "figures_in",
    "parse",
    "read",
    "rendered",
]

_T = TypeVar("_T")
FILE: Final = Path(__file__).resolve().parents[2] / "docs/proof.json"
KEPT: Final = FILE.parents[1] / ".proof"
"""Where runs of hours keep what they have found."""
Number = int | float


class NothingKept(Exception):
    """A proof only publishes what a run of hours has kept, and there is none, or none that has ended."""


class Scale(Enum):
    """How many cases there are to be."""

    SHORT = 0
    USUAL = 1
    LONG = 2

    def pick(self, short: _T, usual: _T, long: _T) -> _T:
        """One of three, by scale."""
        return (short, usual, long)[self.value]


@dataclass(frozen=True, slots=True)
class Row:
    """What one program did in one test."""

    id: str
    who: str
    what: str
    cases: int
    results: Mapping[str, Number]
    """By what is counted."""
    notes: Sequence[str] = ()
    """Markdown: what a number alone does not say, a line each."""


Tell = Callable[[int, int], None]
"""Is told how many cases are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One test, and what it is about."""

    name: str
    title: str
    about: str
    """Markdown: what is done, and what is counted."""
    case: str
    """What one case is called, in the plural."""
    module: str
    """The module beside this one whose ``prove`` runs it."""
    seed: int | None = 0

    def run(self, scale: Scale, tell: Tell) -> list[Row]:
        """Run it; gives what it found."""
        found: list[Row] = import_module(f"integration.proof.{self.module}").prove(scale, tell)
        return found


@dataclass(frozen=True, slots=True)
class Proven:
    """The rows of one proof, and what they were measured with."""

    date: str
    commit: str
    machine: str
    seed: int | None
    seconds: int
    command: str
    rows: tuple[Row, ...]


def read(path: Path = FILE) -> dict[str, Proven]:
    """What is published, by the name of a proof; nothing if there is no file yet."""
    try:
        return parse(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}


def parse(text: str) -> dict[str, Proven]:
    """The figures that a file tells of."""
    return {name: _proven(document) for name, document in json.loads(text)["proofs"].items()}


def _proven(document: dict[str, Any]) -> Proven:
    whole = Proven(**document)
    return replace(whole, rows=tuple(Row(**row) for row in document["rows"]))


def rendered(proofs: Mapping[str, Proven]) -> str:
    """The file that tells of these figures."""
    document = {"proofs": {name: asdict(proven) for name, proven in proofs.items()}}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def figures_in(proofs: Mapping[str, Proven]) -> dict[str, Number]:
    """Every figure by its name, such as ``proof.kills.recorder.cases``, for who quotes one."""
    found: dict[str, Number] = {}
    for name, proven in proofs.items():
        for row in proven.rows:
            found[f"proof.{name}.{row.id}.cases"] = row.cases
            for what, number in row.results.items():
                found[f"proof.{name}.{row.id}.{what.replace(' ', '-')}"] = number
    return found
