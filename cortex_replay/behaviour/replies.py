"""What came of one call, in the terms that facts are made of: of a model, a server, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cortex_replay.behaviour.values import Nothing, Value
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import ResponseParse
from cortex_replay.hashing import blake3_hex
from cortex_replay.mcp.scripts import is_script
from cortex_replay.store.fixture import Answer
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.types import ToolCall
from cortex_replay.wire.recording import body_of

__all__ = ["Reply", "reply_of"]

_REFUSALS: Final = frozenset(
    [
        "refusal",
        "content_filter",
        # Gemini's, as it writes them:
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        # Bedrock's and Cohere's:
        "guardrail_intervened",
        "content_filtered",
        "ERROR_TOXIC",
    ]
)
"""Finish reasons with which a provider says that it, or the model, refuses."""
_LOWEST_ERROR: Final = 400
_NO_FACTS: Final = frozenset(["id", "created", "created_at", "usage", "system_fingerprint", "_meta"])
"""Of what a server gives back: ids, times and counts."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a call."""

    text: str = ""
    parsed: JsonValue = None
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    reasoning: Value = Nothing.UNKNOWN
    error: Value = Nothing.ABSENT
    """What went wrong, where something did."""
    result: Value = Nothing.UNKNOWN
    """What a server gave back that is no model."""
    is_of_model: bool = True

    @property
    def refuses(self) -> bool:
        """Whether the provider says so; words that sound like it are words."""
        return self.finish_reason in _REFUSALS

    @property
    def is_answer(self) -> bool:
        """Whether a model answered what it was asked."""
        return self.is_of_model and self.error is Nothing.ABSENT and not self.refuses

    @property
    def output(self) -> Value:
        """The text as JSON; ``ABSENT`` where it is none."""
        if self.parsed is not None:
            return self.parsed
        try:
            return loads(self.text.encode())
        except JsonError:
            return Nothing.ABSENT


def reply_of(said: Answer | Mapping[str, JsonValue]) -> Reply:
    """What an answer, or the ``wire`` of an exchange, says."""
    if isinstance(said, Answer):
        return Reply(
            said.text, said.parsed_json, said.tool_calls, said.finish_reason, _reasoning(said.reasoning)
        )
    if is_script(said):
        return _of_script(said)
    return _of_wire(said)


def _reasoning(text: str | None) -> Value:
    return text or Nothing.ABSENT


def _of_wire(wire: Mapping[str, JsonValue]) -> Reply:
    """A call that is recorded as it is: an error, or something that asks no model."""
    status = wire.get("status")
    if isinstance(status, int) and status >= _LOWEST_ERROR:
        return Reply(error=f"status {status}", is_of_model=False)
    if "frames" in wire:
        frames = wire["frames"]
        said = [_without(frame, {"at_ms"}) for frame in frames] if isinstance(frames, list) else frames
        return Reply(result={"frames": said, "close": wire.get("close")}, is_of_model=False)
    return Reply(result=_body(wire), is_of_model=False)


def _body(wire: Mapping[str, JsonValue]) -> JsonValue:
    try:
        body = body_of(wire)
        return _without(loads(body), _NO_FACTS)
    except ResponseParse:
        return None
    except JsonError:
        return (
            f"{len(body)} bytes {blake3_hex(body)}"
            if "body_base64" in wire
            else body.decode(errors="replace")
        )


def _of_script(wire: Mapping[str, JsonValue]) -> Reply:
    """A call of an MCP server: how it ended, and what the server asked for meanwhile."""
    entries = wire.get("messages")
    asked: list[JsonValue] = []
    error: Value = Nothing.ABSENT
    result: Value = Nothing.UNKNOWN
    for entry in entries if isinstance(entries, list) else ():
        match entry:
            case {"request": request}:
                asked.append(request)
            case {"result": {"isError": True} as failed}:
                error, result = "the tool reports an error", _without(failed, _NO_FACTS)
            case {"result": found}:
                result = _without(found, _NO_FACTS)
            case {"error": {"code": int(code)}}:
                error = f"error {code}"
            case {"error": _}:
                error = "an error"
            case {"cancelled": _}:
                error = "given up by the client"
    if asked and isinstance(result, dict):
        result = {**result, "requests of the server": asked}
    return Reply(error=error, result=result, is_of_model=False)


def _without(value: JsonValue, names: frozenset[str] | set[str]) -> JsonValue:
    if not isinstance(value, dict):
        return value
    return {name: inner for name, inner in value.items() if name not in names}
