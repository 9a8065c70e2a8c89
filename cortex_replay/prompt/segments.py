"""The pieces that an IR is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from cortex_replay import validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.prompt.message import PromptMessage
from cortex_replay.types import ToolCall, ToolCallDelta

__all__ = ["Continuation", "Segment", "SegmentRole"]


class SegmentRole(StrEnum):
    """What a run of messages is to the prompt; every order of them is made from this."""

    STABLE_PREFIX = "stable_prefix"
    DYNAMIC_CONTEXT = "dynamic_context"
    SYSTEM_REMAINDER = "system_remainder"
    """System messages that no system field holds, such as the summary of what was cut off."""
    CONVERSATION = "conversation"
    VOLATILE_TAIL = "volatile_tail"


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of messages with one role."""

    role: SegmentRole
    messages: tuple[PromptMessage, ...] = ()

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self, role: SegmentRole | str, messages: Sequence[PromptMessage | Mapping[str, Any]] = ()
        ) -> None: ...

    def __post_init__(self) -> None:
        check.keep(self, "role", check.member(SegmentRole, self.role, "role"))
        check.keep(self, "messages", check.values(PromptMessage, self.messages, "messages"))

    def to_dict(self) -> dict[str, JsonValue]:
        """The segment in plain form, with calls as OpenAI writes them."""
        return {"role": self.role.value, "messages": [_message(message) for message in self.messages]}


@dataclass(frozen=True, slots=True)
class Continuation:
    """Where a provider that keeps the conversation is to go on."""

    previous_response_id: str | None = None
    last_committed_assistant_id: str | None = None
    """The local name of the last message that the provider has."""

    def __post_init__(self) -> None:
        for name in ("previous_response_id", "last_committed_assistant_id"):
            check.keep(self, name, check.optional_text(getattr(self, name), name))

    def to_dict(self) -> dict[str, JsonValue]:
        """The continuation in plain form."""
        return {
            "previous_response_id": self.previous_response_id,
            "last_committed_assistant_id": self.last_committed_assistant_id,
        }


def _message(message: PromptMessage) -> dict[str, JsonValue]:
    plain = message.to_dict()
    if message.tool_calls:
        plain["tool_calls"] = [_function(call) for call in message.tool_calls]
    return plain


def _function(call: ToolCall) -> JsonValue:
    arguments = ToolCallDelta.whole(0, call).arguments
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
