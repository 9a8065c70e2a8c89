"""A server over stdio whose tools hang, die in the middle of a frame, and print what is no JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

TOOLS = ("fine", "rubbish", "hangs", "dies")


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def call(about: int, tool: str) -> None:
    text = json.dumps(
        {"jsonrpc": "2.0", "id": about, "result": {"content": [{"type": "text", "text": tool}]}}
    )
    if tool == "dies":
        say(text[: len(text) // 2])
        sys.exit(3)
    if tool == "rubbish":
        say('Listening ...\n\N{SNOWMAN}\n{"jsonrpc":\n[]\n')
    if tool != "hangs":
        say(f"{text}\n")


def result_of(method: str) -> dict[str, Any]:
    if method == "initialize":
        told = {"capabilities": {"tools": {}}, "serverInfo": {"name": "misbehaving", "version": "1"}}
        return {"result": {"protocolVersion": "2025-11-25", **told}}
    if method == "tools/list":
        return {"result": {"tools": [{"name": tool, "inputSchema": {"type": "object"}} for tool in TOOLS]}}
    return {"error": {"code": -32601, "message": "no such method"}}


for line in sys.stdin:
    match json.loads(line):
        case {"id": about, "method": "tools/call", "params": {"name": tool}}:
            call(about, tool)
        case {"id": about, "method": method}:
            say(json.dumps({"jsonrpc": "2.0", "id": about, **result_of(method)}) + "\n")
