"""An MCP server with what recorders find hard: pages, a counter, answers out of order, a question back.

It speaks JSON-RPC over its standard streams, with nothing but the standard library.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
from typing import Any

TOOLS = ["count", "echo", "ask", "wait", "work"]
_lock = threading.Lock()
_released = threading.Event()
_asked: dict[str, Any] = {}
_count = 0


def say(**message: Any) -> None:
    with _lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


def wait(number: Any) -> None:
    _released.wait()
    say(id=number, result=text("second"))


def call(number: Any, name: str, given: dict[str, Any], token: Any) -> None:
    global _count  # noqa: PLW0603 - it is what a counter is
    if name == "count":
        _count += 1
        say(id=number, result=text(f"{_count}"))
    elif name == "echo":
        say(id=number, result=text(json.dumps(given)))
    elif name == "ask":
        _asked["back"] = number
        wanted = {
            "messages": [{"role": "user", "content": {"type": "text", "text": "a word"}}],
            "maxTokens": 5,
        }
        say(id="back", method="sampling/createMessage", params=wanted)
    elif name == "wait":  # for the other one
        threading.Thread(target=wait, args=(number,)).start()
    elif name == "work":
        for step in (1, 2, 3):
            say(
                method="notifications/progress", params={"progressToken": token, "progress": step, "total": 3}
            )
        _released.set()
        say(id=number, result=text("first"))


def answer(message: dict[str, Any]) -> None:
    method, params, number = message.get("method"), message.get("params") or {}, message.get("id")
    if method is None and "back" in _asked and number == "back":
        said = message["result"]["content"]["text"]
        say(id=_asked.pop("back"), result=text(f"the client said {said}"))
    elif method == "initialize":
        facts = {
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "hard", "version": "1"},
        }
        say(id=number, result={"protocolVersion": "2025-06-18", **facts})
    elif method == "tools/list":
        page = int(params.get("cursor", 0))
        listed = {
            "tools": [{"name": TOOLS[page], "description": "A tool.", "inputSchema": {"type": "object"}}]
        }
        say(id=number, result=listed | ({"nextCursor": str(page + 1)} if page + 1 < len(TOOLS) else {}))
    elif method == "tools/call":
        token = (params.get("_meta") or {}).get("progressToken")
        call(number, params["name"], params.get("arguments") or {}, token)
    elif method == "resources/read":
        blob = base64.b64encode(bytes(range(256))).decode()
        say(id=number, result={"contents": [{"uri": params["uri"], "blob": blob}]})
    elif number is not None:
        say(id=number, error={"code": -32601, "message": f"no {method}"})


for line in sys.stdin:
    answer(json.loads(line))
