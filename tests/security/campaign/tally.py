"""What came of a campaign, and the table of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.security.campaign.judge import Leak
from tests.security.campaign.plant import Planted

__all__ = ["PATTERN_GOAL", "Outcome", "complaints", "markdown"]

PATTERN_GOAL: Final = 0.995
_RECORDED: Final = (": prompt", ": answer", ": stream")
"""Write paths of ordinary recordings: a secret is cut out of these, and the rest is recorded."""


@dataclass(frozen=True)
class Outcome:
    """One group of write paths, judged."""

    planted: Sequence[Planted]
    kept: frozenset[str]
    """The tags that were written somewhere: beside them the secret was cut out, or leaked."""
    leaks: Sequence[Leak]


def complaints(outcomes: Iterable[Outcome]) -> list[str]:
    """What breaks the promise, a line each: every known value, patterns below their goal, and ordinary
    recordings that were refused where the secret could be cut out."""
    outcomes = list(outcomes)
    leaks = [leak for outcome in outcomes for leak in outcome.leaks]
    wrong = [str(leak) for leak in leaks if leak.planted.class_ == "known"]
    planted = sum(one.class_ == "pattern" for outcome in outcomes for one in outcome.planted)
    by_pattern = [leak for leak in leaks if leak.planted.class_ == "pattern"]
    # One is no figure: a group of fifty secrets cannot tell 99.5 % from 98 %. The whole campaign can.
    if len({leak.planted.tag for leak in by_pattern}) > max(1, (1 - PATTERN_GOAL) * planted):
        wrong += map(str, by_pattern)
    wrong += [
        f"{one}: nothing was recorded"
        for outcome in outcomes
        for one in outcome.planted
        if one.path.endswith(_RECORDED) and one.tag not in outcome.kept
    ]
    return wrong


def markdown(outcomes: Iterable[Outcome]) -> str:
    """Write path by class: planted, cut out, refused, leaked."""
    rows: dict[tuple[str, str], Counter[str]] = {}
    for outcome in outcomes:
        leaked = {leak.planted.tag for leak in outcome.leaks}
        for one in outcome.planted:
            row = rows.setdefault((one.path, one.class_), Counter())
            row["planted"] += 1
            what = "leaked" if one.tag in leaked else "cut out" if one.tag in outcome.kept else "refused"
            row[what] += 1
    columns = ("planted", "cut out", "refused", "leaked")
    lines = ["| write path | class | " + " | ".join(columns) + " |", "|---|---|" + "---:|" * len(columns)]
    for (path, class_), row in rows.items():
        lines.append(f"| {path} | {class_} | " + " | ".join(str(row[name]) for name in columns) + " |")
    for class_ in ("known", "pattern"):
        total = sum((row for (_, name), row in rows.items() if name == class_), Counter[str]())
        lines.append(f"| **all** | {class_} | " + " | ".join(f"**{total[name]}**" for name in columns) + " |")
    return "\n".join(lines)
