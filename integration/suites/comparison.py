"""What differs between a suite with vcrpy and the same suite moved over, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from integration.suites.questions import what_differs
from integration.suites.runs import SuiteRun

__all__ = ["Comparison", "Difference", "compare"]

_TELLING: Final = re.compile(r"cortex-replay: .*")
_MOST: Final = 300


@dataclass(frozen=True, slots=True)
class Difference:
    """A test that passes with vcrpy and does not once it is moved over."""

    test: str
    outcome: str
    reason: str
    """The line that tells most."""
    other_question: str
    """What the test asks and did not ask when it was recorded; empty if vcrpy played its own answer."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One suite: how many tests pass with vcrpy, how many still do, what that costs, and what differs."""

    suite: str
    version: str
    with_vcrpy: int
    moved: int
    cpu_vcrpy_s: float
    cpu_moved_s: float
    interactions: int
    not_converted: int
    differences: list[Difference]
    absent: list[str]

    @property
    def other_questions(self) -> int:
        """How many tests were replaying the answer to another question."""
        return sum(bool(difference.other_question) for difference in self.differences)

    @property
    def unexplained(self) -> list[Difference]:
        """The tests that differ for any other reason."""
        return [difference for difference in self.differences if not difference.other_question]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Comparison:
        return cls(**{**document, "differences": [Difference(**one) for one in document["differences"]]})


def compare(run: SuiteRun) -> Comparison:
    """Hold the two runs of a suite against each other."""
    passed = run.with_vcrpy.passed()
    return Comparison(
        suite=run.suite.name,
        version=run.suite.packages[0].rpartition("==")[2],
        with_vcrpy=len(passed),
        moved=len(passed & run.moved.passed()),
        cpu_vcrpy_s=round(run.with_vcrpy.cpu_s, 2),
        cpu_moved_s=round(run.moved.cpu_s, 2),
        interactions=run.imported["interactions"],
        not_converted=len(run.imported["not_converted"]),
        differences=list(_differences(run, passed)),
        absent=run.absent,
    )


def _differences(run: SuiteRun, passed: set[str]) -> Iterator[Difference]:
    for name in sorted(passed - run.moved.passed()):
        test = run.moved.tests.get(name, {"outcome": "not run", "reason": "", "details": ""})
        asked = "; ".join(
            f"{played['method']} {urlsplit(played['uri']).path}: {', '.join(different[:3])}"
            for played in run.with_vcrpy.played
            if played["test"] == name and (different := what_differs(played))
        )
        yield Difference(name, test["outcome"], _reason_of(test), asked[: 4 * _MOST])


def _reason_of(test: dict[str, str]) -> str:
    text = f"{test['reason']}\n{test['details']}"
    found = _TELLING.search(text)
    line = found[0] if found else next((line for line in text.splitlines() if line.strip()), "")
    return line.strip()[:_MOST]
