"""Several answers to one question, then and now: what has drifted, and what only varies.

At a temperature above 0 two answers are rarely equal. A fact is held against all recorded answers and all
samples of today (ADR 20):

* What varied among the recorded answers is noise, whatever it is today.
* What one of today's samples has as it was recorded is noise: the model still does that.
* In the tier ``behaviour``, what is left counts only where more than half of the samples agree on the new
  value. Where each says something else, the model chooses freely.
* What is wrong by itself (an output that breaks its schema, an argument that breaks that of its tool, a tool
  that was not offered), a refusal and an error count in any sample, unless a recorded answer had it, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from cortex_replay.behaviour.compare import by_importance, difference_of, is_moot, tier_of, unexplained
from cortex_replay.behaviour.differences import Difference, Tier
from cortex_replay.behaviour.facts import Fact, Said, facts_of
from cortex_replay.behaviour.kinds import BREACHES, Kind
from cortex_replay.behaviour.values import Clean, Nothing, as_it_is, identity, is_known
from cortex_replay.types import LlmRequest

__all__ = ["judge"]

_ANY_SAMPLE: Final = BREACHES | {Kind.REFUSAL, Kind.ERROR}
"""What counts even if only one sample has it."""


def judge(
    recorded: Sequence[Said], now: Sequence[Said], request: LlmRequest | None, *, clean: Clean = as_it_is
) -> list[Difference]:
    """What has drifted since some answers were recorded, ordered by tier.

    Args:
        recorded: The recorded answers to a question; at least one.
        now: The samples of today; at least one.
        request: The question.
        clean: What cuts secrets out of texts, before they are cut short.
    """
    facts = facts_of([*recorded, *now], [request] * (len(recorded) + len(now)))
    return by_importance(
        difference for fact in unexplained(facts) for difference in _drift(fact, len(recorded), clean)
    )


def _drift(fact: Fact, recorded: int, clean: Clean) -> Iterator[Difference]:
    old = [at for at in range(recorded) if is_known(fact.values[at])]
    new = [at for at in range(recorded, len(fact.values)) if is_known(fact.values[at])]
    if not old or not new:
        return
    seen = {identity(fact.values[at]) for at in old}
    bad = [at for at in new if fact.values[at] is not Nothing.ABSENT]
    if fact.kind in _ANY_SAMPLE and bad:
        if all(fact.values[at] is Nothing.ABSENT for at in old):
            yield difference_of(fact, old[0], bad[0], clean, _in_samples(len(bad), len(new)))
        return
    if len(seen) > 1 or is_moot(fact, new[0]) or any(identity(fact.values[at]) in seen for at in new):
        return
    chosen, count = Counter(identity(fact.values[at]) for at in new).most_common(1)[0]
    at = next(at for at in new if identity(fact.values[at]) == chosen)
    if tier_of(fact.kind, fact.values[old[0]]) is not Tier.BEHAVIOUR:
        yield difference_of(fact, old[0], at, clean, _in_samples(len(new), len(new)))
    elif count * 2 > len(new):
        yield difference_of(fact, old[0], at, clean, _in_samples(count, len(new)))


def _in_samples(count: int, samples: int) -> str:
    return f" (in {count} of {samples} samples)" if samples > 1 else ""
