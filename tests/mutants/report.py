"""What a run of planted bugs is reported as, to people and to machines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from tests.mutants.trials import Trial, Verdict

SHARE: Final = 0.97
"""How many of the bugs a test has to see."""


def line(trial: Trial) -> str:
    """One trial, in a line."""
    mark = "ok  " if trial.is_right else "FAIL"
    detail = f"  {trial.by}" if trial.by else ""
    return f"{mark} {trial.verdict:<13} {trial.cpu:6.1f} s  {trial.mutant.name}{detail}"


def faults(trials: Sequence[Trial]) -> list[str]:
    """Why this run is not as it should be; nothing if it is."""
    reasons = [_reason(trial) for trial in trials if not trial.is_right]
    caught = sum(trial.verdict is Verdict.CAUGHT for trial in trials)
    if caught < SHARE * len(trials):
        reasons.append(f"only {caught} of {len(trials)} are caught, fewer than {SHARE:.0%}")
    return reasons


def _reason(trial: Trial) -> str:
    name = trial.mutant.name
    match trial.verdict:
        case Verdict.CAUGHT:
            return f"{name}: {trial.by} sees it now; drop the reason why no test does"
        case Verdict.SURVIVED:
            return f"{name}: no test sees it: {trial.mutant.bug} ({', '.join(trial.mutant.tests)})"
        case Verdict.UNPLANTED:
            return f"{name}: it cannot be planted: {trial.by}"
        case Verdict.BROKEN:
            return f"{name}: its tests fail without it: {trial.by}"


def summary(trials: Sequence[Trial]) -> str:
    """A table by part, with the survivors and their reasons below."""
    parts = defaultdict(list)
    for trial in trials:
        parts[trial.mutant.part].append(trial)
    rows = [
        ("part", "bugs", "caught", "survived", "other"),
        *(_row(part, parts[part]) for part in sorted(parts)),
    ]
    rows.append(_row("all", trials))
    lines = [f"{row[0]:<12}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows]
    lines += [
        f"survives: {trial.mutant.name}: {trial.mutant.survives}"
        for trial in trials
        if trial.verdict is Verdict.SURVIVED and trial.mutant.survives
    ]
    return "\n".join(lines)


def _row(part: str, trials: Sequence[Trial]) -> tuple[str, ...]:
    counts = [sum(trial.verdict is verdict for trial in trials) for verdict in Verdict]
    return (part, *map(str, (len(trials), counts[0], counts[1], sum(counts[2:]))))


def document(trials: Sequence[Trial], commit: str) -> dict[str, Any]:
    """The same for machines."""
    return {
        "commit": commit,
        "bugs": len(trials),
        "caught": sum(trial.verdict is Verdict.CAUGHT for trial in trials),
        "cpu_seconds": round(sum(trial.cpu for trial in trials), 1),
        "faults": faults(trials),
        "trials": [
            {
                "name": trial.mutant.name,
                "part": trial.mutant.part,
                "origin": trial.mutant.origin,
                "bug": trial.mutant.bug,
                "verdict": str(trial.verdict),
                "by": trial.by,
                "survives": trial.mutant.survives,
                "cpu_seconds": round(trial.cpu, 2),
                "is_checked": trial.is_checked,
            }
            for trial in trials
        ],
    }
