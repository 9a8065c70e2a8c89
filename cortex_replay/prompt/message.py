"""One turn of a prompt, before it is put on a wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from cortex_replay import canonical, validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.prompt.content import Part, content_parts, ordered_json, request_part
from cortex_replay.types import LlmMessage, LlmRole, ToolCall
from cortex_replay.types.message import role_of
from cortex_replay.types.tools import arguments_value

__all__ = ["PromptMessage"]


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One turn: what an agent holds, with local names and sizes that are never sent."""

    role: LlmRole
    content: str | tuple[Part, ...]
    """Text, or parts: ``text``, ``image``, ``audio``, ``tool_result`` and whatever a wire knows."""
    id: str | None = None
    """A local name for cache plans and continuations to point at."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """Which call a tool's text answers; a ``tool_result`` part says it itself."""
    is_error: bool = False
    token_count: int | None = None
    """What the agent counted."""

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self,
            role: LlmRole | str,
            content: str | Sequence[Mapping[str, Any]] | None,
            id: str | None = None,  # noqa: A002 - the field's name
            tool_calls: Sequence[ToolCall | Mapping[str, Any]] = (),
            tool_call_id: str | None = None,
            is_error: bool = False,
            token_count: int | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        check.keep(self, "role", role_of(self.role))
        content: object = self.content
        if content is None:  # OpenAI's word for no text beside a call
            content = ""
        is_text = isinstance(content, str)
        check.keep(self, "content", check.text(content, "content") if is_text else content_parts(content))
        check.keep(self, "id", check.optional_text(self.id, "id"))
        calls = [_call(call) for call in check.items(self.tool_calls, "tool_calls")]
        check.keep(self, "tool_calls", check.values(ToolCall, calls, "tool_calls"))
        check.keep(self, "tool_call_id", check.optional_text(self.tool_call_id, "tool_call_id"))
        check.flag(self.is_error, "is_error")
        check.optional_whole_number(self.token_count, "token_count", check.MAX_U64)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """A turn from its plain form; calls may be written flat or as OpenAI's functions.

        Raises:
            InvalidRequest: A field is unknown, missing or of the wrong kind.
        """
        if not isinstance(data, Mapping):
            raise InvalidRequest("message", f"expected an object, not {check.kind_of(data)}")
        return check.from_mapping(cls, data)

    @classmethod
    def parse(cls, value: object, name: str) -> Self:
        """A turn, or its plain form, as one field of something larger.

        Raises:
            InvalidRequest: It is neither; its field starts with ``name``.
        """
        if isinstance(value, cls):
            return value
        try:
            return cls.from_dict(value)  # type: ignore[arg-type]
        except InvalidRequest as error:
            where = name if error.field in ("", "message") else f"{name}.{error.field}"
            raise InvalidRequest(where, error.reason) from None

    def to_dict(self) -> dict[str, JsonValue]:
        """The turn in plain form. ``id`` is always there; what else is absent is left out."""
        content: JsonValue = self.content if isinstance(self.content, str) else [*map(dict, self.content)]
        message: dict[str, JsonValue] = {"role": self.role.value, "content": content, "id": self.id}
        if self.tool_calls:
            message["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        if self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        if self.is_error:
            message["is_error"] = True
        if self.token_count is not None:
            message["token_count"] = self.token_count
        return message

    def turn_bytes(self) -> bytes:
        """What a fingerprint hashes: the compact JSON of ``[role, content, tool_calls]``.

        What names the call that it answers is hashed as the ``tool_result`` that it is sent as.
        """
        content = self.content
        if self.tool_call_id is not None:
            output: JsonValue = content if isinstance(content, str) else [*map(dict, content)]
            call_id, is_error = self.tool_call_id, self.is_error
            content = ({"type": "tool_result", "call_id": call_id, "output": output, "is_error": is_error},)
        if isinstance(content, str):
            written = canonical.compact(content)
        else:
            written = f"[{','.join(ordered_json(part.items()) for part in content)}]"
        calls = ",".join(ordered_json(call.to_dict().items()) for call in self.tool_calls)
        return f"[{canonical.compact(self.role.value)},{written},[{calls}]]".encode()

    def to_llm_messages(self) -> list[LlmMessage]:
        """The turn as a request holds it: one message for each tool's result, and one for the rest.

        The last of them has the turn's name, because a breakpoint stands at the end of a turn.
        """
        if isinstance(self.content, str):
            return [self._rest(self.content)]
        results = [part for part in self.content if part["type"] == "tool_result"]
        others = [request_part(part) for part in self.content if part["type"] != "tool_result"]
        messages = [_tool_result(part) for part in results]
        if others or self.tool_calls or not results:
            is_text_alone = len(others) == 1 and others[0].keys() == {"type", "text"}
            text = "".join(str(part["text"]) for part in others if part["type"] == "text")
            # What a tool's turn says beside its results is said by the user.
            role = LlmRole.USER if results and self.role is LlmRole.TOOL else self.role
            messages.append(self._rest(text, () if is_text_alone else tuple(others), role))
        elif self.id is not None:
            messages[-1] = _tool_result(results[-1], self.id)
        return messages

    def _rest(self, text: str, parts: tuple[Part, ...] = (), role: LlmRole | None = None) -> LlmMessage:
        role = role or self.role
        return LlmMessage(
            role,
            text,
            parts=parts,
            tool_calls=self.tool_calls,
            tool_call_id=self.tool_call_id if role is LlmRole.TOOL else None,
            is_error=self.is_error and role is LlmRole.TOOL,
            id=self.id,
        )


def _tool_result(part: Part, name: str | None = None) -> LlmMessage:
    return LlmMessage(
        LlmRole.TOOL,
        str(part["output"]),
        tool_call_id=str(part["call_id"]),
        is_error=part["is_error"] is True,
        id=name,
    )


def _call(call: object) -> object:
    """A call with its fields flat, which OpenAI wraps into a ``function`` with arguments as text."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        return call
    arguments = function.get("arguments")
    return {
        "id": call.get("id"),
        "name": function.get("name"),
        "arguments": arguments_value(arguments) if isinstance(arguments, str) else arguments,
    }
