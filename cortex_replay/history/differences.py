"""Where a provider reports something else than the simulator, and why that may be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from cortex_replay.history.replay import ReplayedCall
from cortex_replay.prompt.cache.calls import CacheOutcome, Provider, Why
from cortex_replay.prompt.cache.facts import value_of

__all__ = ["explain_difference", "is_different", "is_estimate"]

_FRAME: Final = 16
"""So many tokens a provider counts around a prompt, which are in no block."""
_PLACEHOLDER: Final = re.compile("⟦([a-z][a-z0-9_-]*)[^⟧]{0,40}⟧")
_REDACTION: Final = re.compile(r"\[REDACTED:[^\]\s]{1,80}\]")
_RULES: Final[frozenset[Why]] = frozenset(["too short", "lookback", "settings", "no marker", "refused"])
"""What hangs on rules of the provider, which may have changed."""


def is_estimate(replayed: ReplayedCall) -> bool:
    """Whether what the simulator says of a call is only about right: it ends at no counted place."""
    outcome, ends = replayed.outcome, replayed.prompt.ends
    if outcome is None or replayed.call is None:
        return False
    step = _step(replayed.call.provider, replayed.call.model)
    hours = outcome.read + outcome.write_1h  # where five minutes begin
    written = hours + outcome.write_5m
    return not all(_is_counted(end, ends, step) for end in (outcome.read, hours, written))


def is_different(replayed: ReplayedCall, reported: CacheOutcome | None) -> bool:
    """Whether provider and simulator disagree by more than the provider's step, and by more than sizes are
    known."""
    simulated, call = replayed.outcome, replayed.call
    if simulated is None or reported is None or call is None:
        return False
    slack = max(_step(call.provider, call.model), _FRAME)
    if is_estimate(replayed):
        slack += replayed.tokens // 10
    usage = replayed.recorded.usage
    has_writes = usage is not None and usage.cache_write_tokens is not None
    written = simulated.write_5m + simulated.write_1h - reported.write_5m - reported.write_1h
    if abs(simulated.read - reported.read) > slack or (has_writes and abs(written) > slack):
        return True
    has_hours = usage is not None and usage.cache_write_1h_tokens is not None
    return has_hours and abs(simulated.write_1h - reported.write_1h) > slack


def explain_difference(
    replayed: ReplayedCall, reported: CacheOutcome, text_of: Callable[[str], str]
) -> Iterator[str]:
    """Why that may be, the likeliest first; each a sentence without its full stop.

    Args:
        replayed: What the simulator says.
        reported: What the provider says.
        text_of: What a block says, by its digest.
    """
    simulated, recorded = replayed.outcome, replayed.recorded
    if simulated is None:
        return
    if reason := recorded.cache_reason:
        yield f"the provider says: {reason}"
    elif replayed.provider == "anthropic" and not any(
        block.marker.is_cached for block in replayed.prompt.blocks
    ):
        yield "the recording does not say where its markers stood; record it again"
    elif reported.read > simulated.read:
        yield _why_more(simulated)
    elif reported.read < simulated.read:
        yield from _why_less(replayed, reported, text_of)
    elif simulated.fresh == reported.fresh:
        yield "it wrote as much, but for another time than the markers say"
    else:
        yield "it read as much, but wrote another amount"
    if is_estimate(replayed):
        yield "the simulated numbers are estimates: no count shows how large the blocks are"


def _why_more(simulated: CacheOutcome) -> str:
    whys = {reason.why for reason in simulated.reasons}
    if whys & _RULES:
        return "the provider's rules may differ from those in docs/cache.md"
    if "ttl" in whys:
        return "the provider kept it longer than it promises, or another program used it meanwhile"
    if "not ready" in whys:
        return "the answer that caches it began earlier than the recording says"
    return "it was in the cache before this run began"


def _why_less(replayed: ReplayedCall, reported: CacheOutcome, text_of: Callable[[str], str]) -> Iterator[str]:
    recorded = replayed.recorded
    bound = set(recorded.bindings)
    has_secrets = bool(recorded.meta.get("redactions"))
    end = 0
    for block in replayed.prompt.blocks:
        end += block.tokens
        if end <= reported.read or not (bound or has_secrets):
            continue
        text = text_of(block.digest)
        found = {f"⟦{name}⟧" for name in bound.intersection(_PLACEHOLDER.findall(text))}
        if has_secrets:
            found.update(_REDACTION.findall(text))
        if found:
            shown = ", ".join(sorted(found))
            yield f"{block.name} holds {shown} in place of the value that the provider saw"
            return
    rules = recorded.meta.get("normalisers")
    if isinstance(rules, list) and rules:
        yield "normalisers changed this request before it was stored, and the provider saw the original"
    else:
        yield "the provider may have dropped it early, or asked a machine that did not have it"


@cache
def _step(provider: Provider, model: str) -> int:
    try:
        return int(value_of(provider, model, "step"))
    except LookupError:
        return 1


def _is_counted(end: int, ends: frozenset[int], step: int) -> bool:
    return end in ends or (step > 1 and any(0 <= known - end < step for known in ends))
