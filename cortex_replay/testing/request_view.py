"""What a script looks at in a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole

__all__ = ["RequestView"]

_NO_TOOLS: Final[tuple[JsonValue, ...]] = ("none", {"type": "none"})
_SHOWN: Final = 60


class RequestView:
    """One request, with the things in it that rules ask for."""

    def __init__(self, request: LlmRequest) -> None:
        self.request = request
        self.last_user = _last(request, LlmRole.USER)
        self.last_tool = _last(request, LlmRole.TOOL)
        self.is_after_tool = bool(request.messages) and request.messages[-1].role is LlmRole.TOOL

    def offers(self, tool: str) -> bool:
        """Whether the model may call a tool of this name."""
        return tool in self._tools()

    def last_tool_name(self) -> str | None:
        """The tool whose result the conversation ends with, where that can be told.

        The id says it; where a client gives none, results come in the order of their calls.
        """
        if not self.is_after_tool:
            return None
        wanted = self.request.messages[-1].tool_call_id
        results = 0
        for message in reversed(self.request.messages):
            results += message.role is LlmRole.TOOL
            calls = list(_calls(message))
            if wanted is None and calls:
                return calls[results - 1][1] if results <= len(calls) else None
            for call_id, name in calls:
                if call_id == wanted:
                    return name
        return None

    def __str__(self) -> str:
        """The request in short, for a message to a person."""
        said = "no user message" if self.last_user is None else f'"{_short(self.last_user)}"'
        about = [f"model {_short(self.request.model)}"]
        if tools := self._tools():
            about.append(f"tools {_short(', '.join(tools))}")
        if self.is_after_tool:
            about.append(f"after a result of {_short(self.last_tool_name() or 'some tool')}")
        if self.request.json_schema is not None:
            about.append("with a schema")
        return f"{said} ({'; '.join(about)})"

    def _tools(self) -> list[str]:
        if self.request.tool_choice in _NO_TOOLS:
            return []
        return [name for tool in self.request.tools if (name := _tool_name(tool)) is not None]


def _last(request: LlmRequest, role: LlmRole) -> str | None:
    return next((message.content for message in reversed(request.messages) if message.role is role), None)


def _tool_name(tool: JsonValue) -> str | None:
    """A tool's name, also where it still stands in OpenAI's wrapper."""
    if not isinstance(tool, dict):
        return None
    name = tool.get("name")
    return name if isinstance(name, str) else _tool_name(tool.get("function"))


def _calls(message: LlmMessage) -> Iterator[tuple[JsonValue, str]]:
    for call in message.tool_calls:
        yield call.id, call.name
    for part in message.parts:
        if isinstance(part, dict) and part.get("type") == "tool_use":
            yield part.get("id"), str(part.get("name"))


def _short(text: str) -> str:
    line = " ".join(text[: 4 * _SHOWN].split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."
