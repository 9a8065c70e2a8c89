"""Why a cache did not read something, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cortex_replay.prompt.cache.calls import Reason, Why

__all__ = ["describe_reason"]

_SENTENCES: Final[Mapping[Why, str]] = {
    "first": "nothing was cached yet",
    "too short": "up to {block} it is shorter than what the provider caches",
    "ttl": "what was cached up to {block} had expired",
    "lookback": "what was cached ends with {block}, too far before the next marker",
    "changed": "{block} is not what was cached",
    "settings": "a setting changed (tool choice, thinking, form of the answer), which counts from {block} on",
    "no marker": "no marker stands where what is shared ends: behind {block}",
    "not ready": "the call that caches it up to {block} was still waiting for its answer",
    "other model": "another model has it in a cache of its own",
    "other key": "another cache key has it",
    "refused": "the provider refuses the markers: {block} has one too many, or an hour behind five minutes",
}


def describe_reason(reason: Reason) -> str:
    """A reason as part of a sentence, without how much it is about."""
    return _SENTENCES[reason.why].format(block=reason.block or "the whole prompt")
