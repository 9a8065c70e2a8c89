"""Two answers to one question: what differs, the most important first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cortex_replay.behaviour.differences import Difference, Tier
from cortex_replay.behaviour.facts import Fact, Said, facts_of
from cortex_replay.behaviour.kinds import BREACHES, TIERS, Kind
from cortex_replay.behaviour.values import Clean, Nothing, Value, as_it_is, clean_value, is_known
from cortex_replay.behaviour.wording import excerpts, tell
from cortex_replay.mcp.schemas import MASK
from cortex_replay.mcp.wording import quote_short
from cortex_replay.types import LlmRequest

__all__ = ["by_importance", "compare_answers", "difference_of", "is_moot", "tier_of", "unexplained"]

_MOST: Final = 200
"""Of differences that are listed."""
_SUBJECTS: Final = {Kind.SCHEMA: Kind.OUTPUT, Kind.INVALID_ARGUMENT: Kind.ARGUMENT}
"""What sort of value a problem is about."""


def compare_answers(
    before: Said,
    after: Said,
    request: LlmRequest | None = None,
    asked_before: LlmRequest | None = None,
    *,
    clean: Clean = as_it_is,
) -> list[Difference]:
    """What differs between two answers, ordered by tier.

    Args:
        before: The answer of then: an :class:`Answer`, or the ``wire`` of an exchange.
        after: The answer of now.
        request: What is asked now.
        asked_before: What was asked then, if that was something else.
        clean: What cuts secrets out of texts, before they are cut short.
    """
    facts = facts_of([before, after], [asked_before or request, request])
    changed = [fact for fact in facts if all(map(is_known, fact.values)) and not is_moot(fact, 1)]
    return by_importance(difference_of(fact, 0, 1, clean) for fact in unexplained(changed))


def unexplained(facts: Sequence[Fact]) -> list[Fact]:
    """Without the values at places where a schema says what is wrong with them, or was."""
    explained = {(_SUBJECTS[fact.kind], fact.spot) for fact in facts if fact.kind in _SUBJECTS}
    return [fact for fact in facts if (fact.kind, fact.spot) not in explained]


def is_moot(fact: Fact, after: int) -> bool:
    """Whether something is right only because the call that it was about is not made any more."""
    is_right = fact.kind in BREACHES and fact.values[after] is Nothing.ABSENT
    return is_right and bool(fact.shown) and fact.shown[after] is Nothing.UNKNOWN


def tier_of(kind: Kind, before: Value) -> Tier:
    """How much a change of a fact matters. What was wrong and is right now breaks nothing."""
    if kind in BREACHES and before is not Nothing.ABSENT:
        return Tier.BEHAVIOUR
    return TIERS[kind]


def difference_of(fact: Fact, before: int, after: int, clean: Clean, note: str = "") -> Difference:
    """A fact that changed, for who reads it.

    Args:
        fact: Which.
        before: The answer that shows what it was.
        after: The answer that shows what it is.
        clean: What cuts secrets out.
        note: What else is to be said.
    """
    was, now = (clean_value(fact.values[at], clean) for at in (before, after))
    shown = [clean_value((fact.shown or fact.values)[at], clean) for at in (before, after)]
    told = [_unmasked(value, there) for value, there in zip((was, now), shown, strict=True)]
    made = f", with {quote_short(shown[1])}" if fact.kind is Kind.CALL and isinstance(shown[1], dict) else ""
    text = tell(fact.kind, fact.place, *told) + made + note
    return Difference(tier_of(fact.kind, was), fact.kind.value, fact.place, *excerpts(*shown), text)


def _unmasked(message: Value, shown: Value) -> Value:
    """What a schema says of a value, with the value."""
    if not isinstance(message, str) or not message.startswith(f"{MASK} ") or isinstance(shown, Nothing):
        return message
    return f"{quote_short(shown)}{message.removeprefix(MASK)}"


def by_importance(differences: Iterable[Difference]) -> list[Difference]:
    """Those that matter most first; else as they came. Of very many, the rest is counted."""
    found = sorted(differences, key=lambda one: -one.tier)
    if len(found) <= _MOST:
        return found
    rest = found[_MOST:]
    return [
        *found[:_MOST],
        Difference(rest[0].tier, Kind.MORE.value, "", None, None, f"and {len(rest):,} more"),
    ]
