"""What differs between a suite with vcrpy and the same suite moved over, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from integration.suites.runs import SuiteRun

__all__ = ["Difference", "differences"]

_TELLING: Final = re.compile(r"cortex-replay|NoFixture|UnmatchedCall|no recording", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Difference:
    """A test that passes with vcrpy and not when it is moved over."""

    test: str
    outcome: str
    reason: str
    """The line that tells most."""
    other_question: str
    """What differs between the question that was recorded and the one that is asked; empty if nothing does."""


def differences(run: SuiteRun) -> list[Difference]:
    """Each marked test that passed with vcrpy, and does not pass now."""
    found = []
    for name in sorted(run.with_vcrpy.passed() - run.moved.passed()):
        test = run.moved.tests.get(name, {"outcome": "not run", "reason": "", "details": ""})
        others = run.with_vcrpy.other_questions.get(name, [])
        shown = "; ".join(
            f"{call['call']}: {field['field']} was {field['recorded']}, is {field['sent']}"
            for call in others
            for field in call["fields"][:2]
        )
        found.append(Difference(name, test["outcome"], _reason_of(test), shown))
    return found


def _reason_of(test: dict[str, str]) -> str:
    lines = [line.removeprefix("E").strip() for line in (test["reason"] + "\n" + test["details"]).splitlines()]
    told = [line for line in lines if _TELLING.search(line) and not line.startswith(("File", "../"))]
    return (told or [line for line in lines if line] or [""])[0][:300]
