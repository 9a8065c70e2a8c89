"""One call that a test made."""

from __future__ import annotations

from dataclasses import dataclass, field

from cortex_replay.store import Answer
from cortex_replay.types import LlmRequest, TokenUsage, ToolCall

__all__ = ["RecordedCall"]


@dataclass(frozen=True)
class RecordedCall:
    """One call of a test."""

    request: LlmRequest | None
    """What was asked; ``None`` for a call that is recorded as it is, such as an embedding."""
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage | None = None
    finish_reason: str | None = None
    is_answered: bool = True
    answer: Answer | None = field(default=None, repr=False)
    """The whole of it, with what its recording says of itself."""
