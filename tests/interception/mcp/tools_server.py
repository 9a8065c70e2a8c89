"""An MCP server over standard streams, without the SDK so that it starts at once.

It appends what it hears to the file that it is given. ``count`` says how often it was called, ``echo`` what
it was given, ``ask`` what the client's model says, and ``die`` ends the server.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

_COUNT = itertools.count(1)


def reply_to(message: dict[str, Any], ask: Any = None) -> dict[str, Any] | None:
    """What a server answers."""
    if "id" not in message or "method" not in message:
        return None
    parameters = message.get("params") or {}
    result: dict[str, Any]
    match message["method"]:
        case "initialize":
            info = {"name": "tools", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            names = ("count", "echo", "ask", "die")
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
        case "tools/call":
            arguments = parameters.get("arguments") or {}
            match parameters["name"]:
                case "count":
                    text = str(next(_COUNT))
                case "ask":
                    text = ask(arguments["text"])
                case "die":
                    os._exit(3)
                case _:
                    text = json.dumps(arguments)
            result = {"content": [{"type": "text", "text": text}]}
        case _:
            error = {"code": -32601, "message": "there is no such method"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    if "io.modelcontextprotocol/protocolVersion" in (parameters.get("_meta") or {}):
        result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _ask_client(text: str) -> str:
    said = {"role": "user", "content": {"type": "text", "text": text}}
    parameters = {"messages": [said], "maxTokens": 9}
    _say({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": parameters})
    return str(json.loads(sys.stdin.readline())["result"]["content"]["text"])


def main() -> None:
    with Path(sys.argv[1]).open("a", encoding="utf-8") as heard:
        heard.write("started\n")
        heard.flush()
        for line in sys.stdin:
            heard.write(line)
            heard.flush()
            answer = reply_to(json.loads(line), _ask_client)
            if answer is not None:
                _say(answer)


if __name__ == "__main__":
    main()
