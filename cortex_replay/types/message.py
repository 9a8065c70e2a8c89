"""One turn of a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, cast

from cortex_replay import canonical, validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.types.parts import CallNumbers, canonical_part, stored_part
from cortex_replay.types.tools import ToolCall

__all__ = ["LlmMessage", "LlmRole", "canonical_message", "role_of"]


class LlmRole(StrEnum):
    """Who speaks. ``SYSTEM`` only inside a conversation: its start is ``LlmRequest.system``."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


_ROLES: Final = {role.value: role for role in LlmRole}

_NOTHING: Final = ()


@dataclass(frozen=True, slots=True)
class LlmMessage:
    """One turn of a conversation."""

    role: LlmRole
    content: str
    parts: tuple[JsonValue, ...] = ()
    """The turn's blocks in order, where text alone does not tell it all (images, thinking)."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    """Whether a tool's result is a failure."""
    id: str | None = field(default=None, compare=False)
    """A local name for cache plans to point at. Never hashed, stored or sent."""

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self,
            role: LlmRole | str,
            content: str,
            parts: Sequence[object] = (),
            tool_calls: Sequence[ToolCall | Mapping[str, Any]] = (),
            tool_call_id: str | None = None,
            is_error: bool = False,
            id: str | None = None,  # noqa: A002 - the field's name
        ) -> None: ...

    def __post_init__(self) -> None:
        check.keep(self, "role", role_of(self.role))
        check.keep(self, "content", check.text(self.content, "content"))
        # By identity: a value of the caller's may have any notion of equality.
        is_bare = self.parts is _NOTHING and self.tool_calls is _NOTHING and self.is_error is False
        if is_bare and self.tool_call_id is None and self.id is None:
            return  # most messages
        check.keep(self, "parts", check.free_tuple(self.parts, "parts"))
        check.keep(self, "tool_calls", check.values(ToolCall, self.tool_calls, "tool_calls"))
        check.keep(self, "tool_call_id", check.optional_text(self.tool_call_id, "tool_call_id"))
        is_error: object = self.is_error
        check.keep(self, "is_error", is_error is not None and check.flag(is_error, "is_error"))
        check.keep(self, "id", check.optional_text(self.id, "id"))

    def to_dict(self) -> dict[str, JsonValue]:
        """The message as a fixture's ``request`` holds it: what is absent is left out."""
        message: dict[str, JsonValue] = {"role": self.role.value, "content": self.content}
        if self.parts:
            message["parts"] = [stored_part(part) for part in self.parts]
        if self.tool_calls:
            message["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        if self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        if self.is_error:
            message["is_error"] = True
        return message


def canonical_message(message: LlmMessage, numbers: CallNumbers) -> dict[str, Any]:
    """A message in canonical form; ``numbers`` carries the count of tool calls through the request."""
    plain: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.parts:
        plain["parts"] = canonical.free_json([canonical_part(part, numbers) for part in message.parts])
    if message.tool_calls:
        calls = [call.to_dict() for call in message.tool_calls]
        for call in calls:
            if "id" in call:
                call["id"] = numbers[cast(str, call["id"])]
        plain["tool_calls"] = canonical.free_json(cast(JsonValue, calls))
    if message.tool_call_id is not None:
        plain["tool_call_id"] = numbers[message.tool_call_id]
    if message.is_error:
        plain["is_error"] = True
    return plain


def role_of(value: object) -> LlmRole:
    """The role of a name, or a role itself."""
    role = _ROLES.get(value) if isinstance(value, str) else None
    if role is None:
        known = ", ".join(_ROLES)
        raise InvalidRequest("role", f"expected one of {known}")
    return role
