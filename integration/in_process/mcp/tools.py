"""An MCP server as its author writes one: with the SDK, over whatever transport it is told."""

# mypy: disable-error-code="import-not-found,untyped-decorator,attr-defined,type-arg,call-overload"

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

try:  # 1.x
    from mcp.server.fastmcp import Context, FastMCP as Server
except ImportError:
    from mcp.server.mcpserver import Context, MCPServer as Server

app: Any = Server("tools")
_calls = 0


@app.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@app.tool()
def now() -> str:
    """What no two calls are told alike."""
    return str(time.time_ns())


@app.tool()
def count() -> int:
    """How often it was called."""
    global _calls  # noqa: PLW0603
    _calls += 1
    return _calls


@app.tool()
async def steps(number: int, ctx: Context) -> str:
    """Report progress."""
    for i in range(number):
        await ctx.report_progress(i + 1, number)
    return "done"


if __name__ == "__main__":
    with Path(os.environ.get("STARTS", os.devnull)).open("a", encoding="utf-8") as starts:
        starts.write("started\n")
    transport, port = sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 0
    if transport == "stdio":
        app.run("stdio")
    elif hasattr(app, "settings") and hasattr(app.settings, "port"):
        app.settings.port = port
        app.run(transport)
    else:
        app.run(transport, port=port)
