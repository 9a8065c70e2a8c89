"""Gemini's prompt cache.

It keeps prompts by itself, from a minimum on that differs by model, and promises nothing: what is said here
is the most that can be read. Beside that a client can keep a prompt by a call of its own (``cachedContents``)
for a time that it chooses. A call that names such a cache reads all of it and nothing else; it is paid once
when it is made, and then for every hour that it is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from cortex_replay.prompt.cache.calls import CacheCall, CacheOutcome, Reason
from cortex_replay.prompt.cache.facts import fact_of, value_of
from cortex_replay.prompt.cache.simulators.prompt_tree import PromptTree, TextOf

__all__ = ["GeminiCache", "KeptPrompt"]


@dataclass(slots=True)
class KeptPrompt:
    """A prompt that is kept because a client said so."""

    tokens: int
    since: float
    until: float

    def token_hours(self, at: float) -> float:
        """What is paid for keeping it so far, in tokens times hours."""
        return self.tokens * (max(min(at, self.until), self.since) - self.since) / 3600


class GeminiCache:
    """The cache of one project."""

    def __init__(self, text_of: TextOf | None = None) -> None:
        self._tree = PromptTree(text_of)
        self._kept: dict[tuple[str, tuple[str, ...]], KeptPrompt] = {}

    def keep(self, call: CacheCall, seconds: float | None = None) -> CacheOutcome:
        """Keep the blocks of a call for some time, an hour if it is not said; they are paid as any input."""
        ttl = value_of("gemini", call.model, "ttl_explicit") if seconds is None else seconds
        self._kept[call.model, _digests(call)] = KeptPrompt(call.tokens, call.at, call.at + ttl)
        return CacheOutcome(fresh=call.tokens)

    def token_hours(self, at: float) -> float:
        """What is paid for keeping prompts so far, in tokens times hours."""
        return sum(kept.token_hours(at) for kept in self._kept.values())

    def ask(self, call: CacheCall) -> CacheOutcome:
        """What is read for the next call."""
        return self._ask_kept(call) if call.explicit else self._ask_by_itself(call)

    def _ask_kept(self, call: CacheCall) -> CacheOutcome:
        """A recorded call found the cache that it names, or it would have no answer: so it is there, unless
        it is known to have ended before."""
        blocks = call.blocks[: call.explicit]
        tokens = sum(block.tokens for block in blocks)
        kept = self._kept.get((call.model, tuple(block.digest for block in blocks)))
        if kept is not None and call.at >= kept.until:
            return CacheOutcome(fresh=call.tokens, reasons=(Reason("ttl", blocks[0].name, tokens),))
        return CacheOutcome(read=tokens, fresh=call.tokens - tokens)

    def _ask_by_itself(self, call: CacheCall) -> CacheOutcome:
        return self._tree.ask(
            call,
            self._tree.follow(call),
            minimum=fact_of("gemini", call.model, "minimum"),
            step=1,
            seconds=value_of("gemini", call.model, "ttl"),
            refresh=False,  # it ends a day after it was made, read or not
        )


def _digests(call: CacheCall) -> tuple[str, ...]:
    return tuple(block.digest for block in call.blocks)
