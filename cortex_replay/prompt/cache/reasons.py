"""Why a cache read so much of a call and no more, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cortex_replay.prompt.cache.calls import CacheCall, Provider, Reason, Why
from cortex_replay.prompt.cache.facts import value_of
from cortex_replay.prompt.cache.pairs import CachedCall

__all__ = ["describe_reason", "why_of"]

_SENTENCES: Final[Mapping[Why, str]] = {
    "first": "nothing was cached yet",
    "too short": "the prompt up to {block} is too short to be cached",
    "ttl": "the cache entry up to {block} had expired",
    "lookback": "the cache entry ends at {block}, too many blocks before the next marker",
    "changed": "{block} changed",
    "settings": "a setting changed (tool choice, thinking, pictures or output format), from {block} on",
    "no marker": "no marker stands behind {block}, where the shared part ends",
    "not ready": "the call that caches {block} had not begun to answer",
    "other model": "it is cached for another model",
    "other key": "it is cached under another cache key",
    "refused": "the provider refuses the marker on {block}: one too many, or an hour behind five minutes",
}
_BY_ITSELF: Final[Mapping[Provider, str]] = {
    "openai": "by itself",
    "gemini": "by itself, though Gemini promises nothing",
    "llamacpp": "by itself, while the model stays loaded and no other prompt takes its place",
}


def describe_reason(reason: Reason) -> str:
    """A reason as part of a sentence, without how much it is about."""
    if reason.why == "too short" and not reason.block:
        return "the prompt is too short to be cached"
    return _SENTENCES[reason.why].format(block=reason.block or "its end")


def why_of(asked: CachedCall) -> str:
    """Why so much is read, and not more."""
    call, outcome = asked.call, asked.outcome
    if not call.blocks:
        return "the prompt is empty"
    if not outcome.read:
        return _why_nothing(call, outcome.reasons)
    lost = [_describe(call, reason) for reason in outcome.reasons if reason.why == "lookback"]
    return "; ".join([_what_is_read(asked), *lost])


def _what_is_read(asked: CachedCall) -> str:
    call, last = asked.call, asked.last_read
    if call.provider == "anthropic" and last is not None:
        time = f" ({last.marker})" if last.marker.is_cached else ""
        return f"up to the breakpoint behind {last.name}{time}"
    step = int(value_of("openai", call.model, "step")) if call.provider == "openai" else 1
    in_steps = f", in steps of {step}" if step > 1 else ""
    return _BY_ITSELF.get(call.provider, "by itself") + in_steps


def _why_nothing(call: CacheCall, reasons: tuple[Reason, ...]) -> str:
    if call.provider == "anthropic" and not any(block.marker.is_cached for block in call.blocks):
        return "it has no breakpoint"
    vague = ["no marker", "first"] + ["too short"] * (call.tokens >= _minimum(call))
    telling = sorted(reasons, key=lambda reason: (reason.why in vague, reason.why != "too short"))
    return _describe(call, telling[0] if telling else Reason("first"))


def _describe(call: CacheCall, reason: Reason) -> str:
    if reason.why == "too short":
        least = _minimum(call)
        if call.provider == "anthropic":
            return f"the breakpoint behind {reason.block} comes before {least:,} tokens"
        return f"prefixes of less than {least:,} tokens are not cached"
    if reason.why == "lookback":
        back = int(value_of(call.provider, call.model, "lookback"))
        too_far = f"{reason.block} was cached, but is more than {back} blocks before the next breakpoint"
        return f"{too_far}: put one in between, at most every {back} blocks"
    return describe_reason(reason)


def _minimum(call: CacheCall) -> int:
    return 0 if call.provider == "llamacpp" else int(value_of(call.provider, call.model, "minimum"))
