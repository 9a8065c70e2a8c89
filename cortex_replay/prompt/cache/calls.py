"""A call as a prompt cache sees it: blocks in the order in which they are read, their sizes, and a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.policy import CachePolicy

__all__ = ["BlockKind", "CacheBlock", "CacheCall", "CacheOutcome", "Provider", "Reason", "Why"]

Provider = Literal["anthropic", "openai", "gemini", "llamacpp"]

BlockKind = Literal["", "user", "tool_use", "tool_result", "thinking"]
"""What Anthropic treats differently: a row of calls or of results counts as one when it looks back, thinking
carries no marker, and what a user says, which is no result, lets older models forget thinking."""

Why = Literal[
    "first",  # nothing was cached before
    "too short",  # less than the provider caches
    "ttl",  # what was cached had gone
    "lookback",  # what was cached stands too far before the next breakpoint
    "changed",  # a block is not what it was
    "settings",  # tool_choice, thinking and the like split the cache
    "no marker",  # there is no breakpoint at or behind it
    "not ready",  # the call that writes it had not begun to answer
    "other model",
    "other key",
    "refused",  # the provider takes no such request
]


@dataclass(frozen=True, slots=True)
class CacheBlock:
    """A tool, a block of the system text or a block of a message's content."""

    name: str
    """For people: a label, or ``turn 3 (user)``."""
    place: Place
    digest: str
    """Equal for two blocks exactly when the provider reads the same."""
    tokens: int
    marker: CachePolicy = CachePolicy.NONE
    """The marker on it; a provider that caches by itself does not look."""
    kind: BlockKind = ""


@dataclass(frozen=True, slots=True)
class CacheCall:
    """One call."""

    provider: Provider
    model: str
    at: float
    """When it was asked, in seconds."""
    blocks: tuple[CacheBlock, ...]
    ready: float | None = None
    """When its answer began, and others could read what it wrote; at once where that is not known."""
    settings: Mapping[Place, str] = field(default_factory=dict)
    """What else has to be equal for the blocks from a place on to be found, as one text."""
    automatic: CachePolicy = CachePolicy.NONE
    """Anthropic's marker for the whole request, which stands on the last block that can carry one."""
    key: str = ""
    """OpenAI's cache key, which routes a call."""
    retention: str = ""
    """How long OpenAI is asked to keep it: ``in_memory`` or ``24h``."""
    explicit: int = 0
    """How many blocks at the start stand in a cache that the client had Gemini make."""
    adds_breakpoint: bool = True
    """Whether OpenAI sets a breakpoint of its own at the end; it can be told not to (``mode: explicit``)."""
    reply: tuple[CacheBlock, ...] = ()
    """What the answer leaves in the cache of a server that keeps it: llama.cpp's."""
    is_estimate: bool = True
    """Whether the sizes are estimates; else they add up to what the provider counted."""

    @property
    def tokens(self) -> int:
        """The size of the whole prompt."""
        return sum(block.tokens for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something was not read, and which block it was."""

    why: Why
    block: str = ""
    tokens: int = 0
    """What is paid afresh or written again for it."""


@dataclass(frozen=True, slots=True)
class CacheOutcome:
    """What a cache does with one call. The four counts add up to the prompt."""

    read: int = 0
    write_5m: int = 0
    write_1h: int = 0
    fresh: int = 0
    """Paid in full, and not cached."""
    reasons: tuple[Reason, ...] = ()
    is_assumed: bool = False
    """Whether the provider's documents do not name this model, and the rules of a related one were taken."""
    is_estimate: bool = False
    """Whether a part of what was read lies within a block, so that its size is not known."""

    @property
    def tokens(self) -> int:
        return self.read + self.write_5m + self.write_1h + self.fresh

    def read_on(self, tokens: int) -> CacheOutcome:
        """The same call, had it read so many tokens more: of what it writes for an hour first."""
        left, counts = tokens, []
        for count in (self.write_1h, self.write_5m, self.fresh):
            counts.append(count - min(count, left))
            left -= min(count, left)
        return CacheOutcome(self.read + tokens - left, counts[1], counts[0], counts[2])
