"""A server of the Python SDK, of the era in which each request stands alone: ``modern_server.py PORT``."""

from __future__ import annotations

import sys

import anyio
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("modern")


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count, and report it."""
    for number in range(to):
        await ctx.report_progress(number, to, f"at {number}")
        await anyio.sleep(0.02)
    return "counted"


@server.tool()
async def wait(ctx: Context) -> str:
    """Wait until the client gives it up."""
    await ctx.report_progress(0, 1, "waiting")
    await anyio.sleep_forever()
    return ""


@server.tool()
async def change(ctx: Context) -> str:
    """Say that the tools are others now."""
    await ctx.notify_tools_changed()
    return "changed"


@server.resource("note://{name}")
def note(name: str) -> str:
    """A note."""
    return f"This is {name}."


@server.prompt()
def greet(name: str) -> str:
    """A greeting."""
    return f"Greet {name}."


server.run("streamable-http", port=int(sys.argv[1]))
