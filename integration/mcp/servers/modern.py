"""A server of the Python SDK for requests that stand alone: input asked for, subscriptions, progress."""

from __future__ import annotations

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("modern")
texts = {"a": "one"}


@server.tool()
async def ask(ctx: Context) -> str | types.InputRequiredResult:
    """Asks for a word before it answers."""
    given = (ctx.input_responses or {}).get("word")
    if isinstance(given, types.ElicitResult):
        return f"the word is {(given.content or {}).get('word')}"
    schema: types.ElicitRequestedSchema = {"type": "object", "properties": {"word": {"type": "string"}}}
    params = types.ElicitRequestFormParams(message="which word?", requested_schema=schema)
    return types.InputRequiredResult(
        input_requests={"word": types.ElicitRequest(params=params)}, request_state="a state of mine"
    )


@server.tool()
async def write(text: str, ctx: Context) -> str:
    """Changes the resource, and tells whoever listens."""
    await ctx.report_progress(1, 2)
    texts["a"] = text
    await ctx.notify_resource_updated("text://a")
    await ctx.notify_tools_changed()
    await ctx.report_progress(2, 2)
    return "written"


@server.resource("text://a")
def read() -> str:
    return texts["a"]


if __name__ == "__main__":
    server.run("stdio")
