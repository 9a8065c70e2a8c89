"""What goes wrong with a call of a tool, as an MCP client gets it."""

from __future__ import annotations

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.mcp.rules import Interruption, Strike, tool_in
from cortex_replay.faults.fault import Fault
from cortex_replay.faults.schedule import Faults
from cortex_replay.mcp.messages import INTERNAL_ERROR, Message, error_message, render_message, request_id

__all__ = ["interruption", "strike_by"]


def strike_by(faults: Faults) -> Strike:
    """What lets calls of tools go wrong by a schedule."""

    def strike(scope: str, server: str, message: Message) -> Interruption | None:
        tool = tool_in(message)
        fault = None if tool is None else faults.next_tool(scope, server, tool)
        if fault is None:
            return None
        faults.note(fault)
        return interruption(fault, message)

    return strike


def interruption(fault: Fault, message: Message) -> Interruption:
    """What a client gets instead of an answer to its call of a tool."""
    about = request_id(message)
    match fault.kind:
        case "tool-fail":
            failure = error_message(about, INTERNAL_ERROR, "Internal error (on demand)")
            return Interruption(render_message(failure))
        case "tool-hang":
            return Interruption()
        case "tool-not-json":
            return Interruption(_half(_result(about, "out of order (on demand)")))
        case "tool-shape":
            return Interruption(render_message({"jsonrpc": "2.0", "id": about, "result": {"content": 0}}))
        case "tool-death":
            return Interruption(_half(_result(about, "last words (on demand)")), closes=True)
    return Interruption(_result(about, "The tool failed (on demand)", is_error=True))


def _result(about: JsonValue, text: str, *, is_error: bool = False) -> bytes:
    result: dict[str, JsonValue] = {"content": [{"type": "text", "text": text}], "isError": is_error}
    return render_message({"jsonrpc": "2.0", "id": about, "result": result})


def _half(frame: bytes) -> bytes:
    return frame[: len(frame) // 2]
