"""What a test asked and got, for its assertions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from cortex_replay.engine.outcomes import Outcome
from cortex_replay.store import Answer
from cortex_replay.types import LlmRequest, TokenUsage, ToolCall

__all__ = ["LlmRecording", "RecordedCall"]


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


@dataclass
class LlmRecording:
    """The calls of a test, in the order in which they were answered."""

    calls: list[RecordedCall] = field(default_factory=list)

    def observe(self, ask: Callable[[], LlmRequest | None], outcome: Outcome | None) -> None:
        """Note a call and what it got."""
        request = ask()
        if isinstance(outcome, Answer):
            call = RecordedCall(
                request, outcome.text, outcome.tool_calls, outcome.usage, outcome.finish_reason
            )
        else:
            call = RecordedCall(request, is_answered=outcome is not None and request is None)
        self.calls.append(call)

    @property
    def requests(self) -> list[LlmRequest]:
        return [call.request for call in self.calls if call.request is not None]

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Every tool call that a model made."""
        return [tool for call in self.calls for tool in call.tool_calls]

    @property
    def tokens(self) -> int:
        """What the providers counted, prompts and answers together."""
        counted = [call.usage for call in self.calls if call.usage is not None]
        return sum(usage.prompt_tokens + usage.completion_tokens for usage in counted)

    def assert_prefix_stable(self) -> None:
        """Assert that each prompt begins with the one before it, as providers' caches need it.

        Raises:
            PrefixChanged: One does not. The message says what changed.
        """
        __tracebackhide__ = True
        from cortex_replay.prompt import assert_prefix_stable  # noqa: PLC0415 - few tests ask

        requests = self.requests
        for previous, current in pairwise(requests):
            if previous.model == current.model:
                assert_prefix_stable(previous, current)
