"""A client of the Python SDK that uses all of modern_server.py, and prints what it got."""

from __future__ import annotations

import sys

import anyio
from mcp import Client, MCPError


def say(*what: object) -> None:
    sys.stdout.write(" ".join(map(str, what)) + "\n")


async def progress(progress: float, total: float | None, message: str | None) -> None:
    say("progress", progress, total, message)


async def main(url: str) -> None:
    async with Client(url) as client:
        say(client.protocol_version, client.server_info.name if client.server_info else "")
        say([tool.name for tool in (await client.list_tools()).tools])
        for number in range(3):
            say(await client.call_tool("add", {"a": number, "b": 2}))
        say(await client.call_tool("count", {"to": 4}, progress_callback=progress))
        say(await client.read_resource("note://tea time ä"))
        say(await client.get_prompt("greet", {"name": "Ada"}))
        say(await client.call_tool("no-such-tool", {}))
        try:
            say(await client.read_resource("nothing://here"))
        except MCPError as error:
            say("error", error.error.code, error.error.message)
        async with client.listen(tools_list_changed=True) as subscription:
            say(await client.call_tool("change", {}))
            async for event in subscription:
                say("event", event)
                break
        with anyio.CancelScope() as scope:

            async def give_up(progress: float, total: float | None, message: str | None) -> None:
                say("waiting", progress, total, message)
                scope.cancel()

            await client.call_tool("wait", {}, progress_callback=give_up)
        say(await client.call_tool("add", {"a": 40, "b": 2}))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
