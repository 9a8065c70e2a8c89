"""What came of a recorded call, in a few words."""

from __future__ import annotations

from collections.abc import Mapping

from cortex_replay.canonical import JsonValue, compact

__all__ = ["end_of_script"]


def end_of_script(wire: Mapping[str, JsonValue]) -> str:
    """How a script ends: the text of a result, what an error says, or what else there is."""
    entries = wire.get("messages")
    for entry in entries if isinstance(entries, list) else ():
        match entry:
            case {"result": {"content": [*content], **rest}} if texts := _texts(content):
                return f"{'error: ' if rest.get('isError') is True else ''}{texts}"
            case {"result": result}:
                return compact(result)
            case {"error": {"message": str(message)}}:
                return f"error: {message}"
            case {"error": error}:
                return f"error: {compact(error)}"
            case {"cancelled": _}:
                return "given up by the client"
    return "no answer"


def _texts(content: list[JsonValue]) -> str:
    found = []
    for part in content:
        match part:
            case {"type": "text", "text": str(text)}:
                found.append(text)
            case {"type": str(kind)}:
                found.append(f"[{kind}]")
    return " ".join(" ".join(text.split()) for text in found)
