"""Long families of cases: ``make test`` takes some of each, other ones with every commit; ``make torture``
takes them all. A run that fails says its seed: ``CORTEX_REPLAY_SEED=... pytest ...`` takes the same again.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from pathlib import Path
from random import Random
from typing import Final, TypeVar

__all__ = ["IS_TORTURE", "SEED_VARIABLE", "TORTURE_VARIABLE", "chance", "commit_id", "sample", "seed"]

Case = TypeVar("Case")

TORTURE_VARIABLE: Final = "CORTEX_REPLAY_TORTURE"
SEED_VARIABLE: Final = "CORTEX_REPLAY_SEED"
IS_TORTURE: Final = bool(os.environ.get(TORTURE_VARIABLE))


def commit_id() -> str:
    """The commit that is checked out; a fixed word where there is no git."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "none"
    return found.stdout.strip() or "none"


@cache
def seed() -> str:
    """The commit, which every worker of a run sees alike; a tree without git always takes the same cases."""
    return os.environ.get(SEED_VARIABLE) or commit_id()[:12]


def chance(family: str) -> Random:
    """The dice of a family of cases: other ones with every commit, and in ``make torture`` with every run."""
    return Random(None if IS_TORTURE and SEED_VARIABLE not in os.environ else f"{seed()} {family}")


def sample(
    cases: Iterable[Case], most: int, *, kind: Callable[[Case], Hashable] = lambda _: None
) -> list[Case]:
    """At most so many cases of each kind, in their order; in ``make torture`` every case.

    Args:
        cases: The whole family, in an order that is the same in every process.
        most: How many of each kind to take.
        kind: What a case is one of; without it all cases are of one kind.
    """
    whole = list(cases)
    if IS_TORTURE:
        return whole
    kinds = defaultdict[Hashable, list[int]](list)
    for place, case in enumerate(whole):
        kinds[kind(case)].append(place)
    dice = Random(f"{seed()} {len(whole)} {most}")
    taken = [place for places in kinds.values() for place in dice.sample(places, min(most, len(places)))]
    return [whole[place] for place in sorted(taken)]
