"""What a model answered."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from cortex_replay import validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.types.tools import ToolCall, ToolCallDelta

__all__ = ["LlmResponse", "StreamChunk", "TokenUsage"]


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """What a call cost. The counts beyond the first two are absent where a provider gives none."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    """The part of :attr:`cache_write_tokens` that lives for an hour."""

    def __post_init__(self) -> None:
        check.whole_number(self.prompt_tokens, "prompt_tokens", check.MAX_U32)
        check.whole_number(self.completion_tokens, "completion_tokens", check.MAX_U32)
        check.optional_whole_number(self.cached_tokens, "cached_tokens", check.MAX_U32)
        check.optional_whole_number(self.cache_write_tokens, "cache_write_tokens", check.MAX_U32)
        check.optional_whole_number(self.cache_write_1h_tokens, "cache_write_1h_tokens", check.MAX_U32)

    def to_dict(self) -> dict[str, JsonValue]:
        """The counts that are known."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}


@dataclass(frozen=True, slots=True)
class LlmResponse:
    """One whole answer."""

    text: str
    parsed_json: JsonValue
    model: str
    """The model that answered, which may not be the one that was asked for."""
    usage: TokenUsage | None
    raw_hash: str
    """BLAKE3 of the provider's bytes; in replay, of the recorded text."""
    finish_reason: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """One piece of an answer, as it arrives."""

    delta: str
    finish_reason: str | None = None
    tool_calls: tuple[ToolCallDelta, ...] = ()
    reasoning: str | None = None
    response: LlmResponse | None = field(default=None, repr=False)
    """The whole answer, on the last chunk only."""
