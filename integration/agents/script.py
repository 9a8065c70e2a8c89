"""What the model says to a coding agent: write a note, read it back, look around; and use its MCP servers.

It follows from the conversation alone, as with a real model: which tools the agent has, what they returned,
and in which directory the agent says that it works.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from cortex_replay.types import (
    LlmRequest,
    LlmResponse,
    LlmRole,
    StreamChunk,
    TokenUsage,
    ToolCall,
    ToolCallDelta,
)

__all__ = ["FAILED", "FILE", "MORE", "TEXT", "chunks_of", "next_turn"]

FILE: Final = "notes.txt"
TEXT: Final = "written by an agent\n"
MORE: Final = "and mended by it\n"
FAILED: Final = "the note has no second line"
"""What the project's test prints before the agent mends its note."""

_Step = tuple[str, dict[str, Any]]
_LOOK_AROUND: Final = f"pwd; whoami; hostname; date +%F; wc -c {FILE}"
"""What programs print of the machine they run on."""
_DIRECTORY: Final = re.compile(r"(?:[Ww]orking directory: |<cwd>|Workspace Directories:\**\s+- )(/[^\s<]*)")
_PIECE: Final = 7
_LATER: Final = re.compile(r"\bmcp__[a-z]+__[\w-]+")
"""Tools that Claude Code names in its prompt, and describes when it is asked to."""
_REMEMBERED: Final = {"name": "note", "entityType": "file", "observations": ["It is written."]}
_MOST_QUOTED: Final = 200


def next_turn(request: LlmRequest) -> LlmResponse:
    """The next call of a tool, or the last word."""
    said = "\n".join([request.system, *(m.content for m in request.messages)])
    found = _DIRECTORY.search(said)
    directory = found[1] if found else "."
    steps = _steps(_tools(request), directory)
    of_servers = _steps_of_servers(_tools(request), set(_LATER.findall(said)), directory) if steps else []
    steps += of_servers
    done = sum(message.role is LlmRole.TOOL for message in request.messages)
    if done < len(steps):
        name, arguments = steps[done]
        call = ToolCall(id=f"call_{done + 1}", name=name, arguments=arguments)
        return _said(request, f"Step {done + 1} of {len(steps)}.", "tool_calls", call)
    if steps and found:
        results = [message.content for message in request.messages if message.role is LlmRole.TOOL]
        of_tools = results[len(steps) - len(of_servers) :]
        quoted = "".join(f"\n{result.strip()[:_MOST_QUOTED]}" for result in of_tools)
        return _said(request, f"The note is {found[1]}/{FILE}.{quoted}")
    return _said(request, _edits(request))


def chunks_of(response: LlmResponse) -> Iterator[StreamChunk]:
    """The answer as a stream, whose pieces end anywhere."""
    for piece in _pieces(response.text):
        yield StreamChunk(piece)
    for i, call in enumerate(response.tool_calls):
        whole = ToolCallDelta.whole(i, call)
        yield StreamChunk("", tool_calls=(ToolCallDelta(i, whole.id, whole.name),))
        for piece in _pieces(whole.arguments):
            yield StreamChunk("", tool_calls=(ToolCallDelta(i, arguments=piece),))
    yield StreamChunk("", response.finish_reason, response=response)


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def _said(request: LlmRequest, text: str, reason: str = "stop", *calls: ToolCall) -> LlmResponse:
    return LlmResponse(text, None, request.model, TokenUsage(11, 5), "", reason, calls)


def _tools(request: LlmRequest) -> set[str]:
    return {str(tool.get("name")) for tool in request.tools if isinstance(tool, dict)}


def _steps(tools: set[str], directory: str) -> list[_Step]:
    """The calls to make, in order, of the tools that the agent has."""
    path = f"{directory}/{FILE}"
    look: dict[str, Any] = {"command": _LOOK_AROUND, "description": "Look around"}
    if {"Write", "Read", "Bash"} <= tools:  # Claude Code
        return [
            ("Write", {"file_path": path, "content": TEXT}),
            ("Read", {"file_path": path}),
            ("Bash", look),
        ]
    if {"write", "read", "bash"} <= tools:  # opencode
        return [("write", {"filePath": path, "content": TEXT}), ("read", {"filePath": path}), ("bash", look)]
    if {"write_file", "read_file", "run_shell_command"} <= tools:  # Gemini CLI
        write: _Step = ("write_file", {"file_path": path, "content": TEXT})
        return [write, ("read_file", {"file_path": path}), ("run_shell_command", look)]
    if "exec_command" in tools:  # Codex
        # It tells the model how long a command took, if that was longer than a moment.
        lines = (f"echo '{TEXT.strip()}' > {path}", f"cat {path}", _LOOK_AROUND)
        return [("exec_command", {"cmd": f"sleep 0.4; {line}", "workdir": directory}) for line in lines]
    return []


def _steps_of_servers(tools: set[str], later: set[str], directory: str) -> list[_Step]:
    """Calls of tools of MCP servers, whatever their client calls them."""
    known = tools | later
    steps: list[_Step] = []
    wanted: list[tuple[str, str, dict[str, Any]]] = [
        ("everything", "get-sum", {"a": 2, "b": 3}),
        ("files", "read_text_file", {"path": f"{directory}/{FILE}"}),
        ("memory", "create_entities", {"entities": [_REMEMBERED]}),
        ("memory", "read_graph", {}),
        ("counter", "count", {}),
    ]
    for server, tool, arguments in wanted:
        pattern = re.compile(rf"(?:mcp__?)?{server}__?{tool}")
        name = next((name for name in sorted(known) if pattern.fullmatch(name)), None)
        if name is not None:
            steps.append((name, arguments))
    hidden = [name for name, _ in steps if name in later]
    if hidden and "ToolSearch" in tools:
        query = f"select:{','.join(dict.fromkeys(hidden))}"
        steps.insert(0, ("ToolSearch", {"query": query, "max_results": len(hidden)}))
    return steps


def _edits(request: LlmRequest) -> str:
    """For aider, which has no tools: it applies edits, runs the tests, and shows what they print."""
    if "SEARCH/REPLACE" not in request.system:
        return "Take notes"  # the title of a conversation, or the message of a commit
    if any(FAILED in message.content for message in request.messages):
        return f"The tests want a second line.\n\n{_edit(TEXT, TEXT + MORE)}"
    return f"Here is the note.\n\n{_edit('', TEXT)}"


def _edit(old: str, new: str) -> str:
    return f"{FILE}\n```\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n```\n"
