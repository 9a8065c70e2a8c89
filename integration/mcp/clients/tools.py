"""A client of the Python SDK: lists the tools of a server, calls some, and prints what it got, a line each.

tools.py CALLS COMMAND ...     CALLS is JSON: [[tool, arguments], ...]
"""

import asyncio
import json
import sys
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


def say(line: Any) -> None:
    sys.stdout.write(f"{json.dumps(line)}\n")


async def main() -> None:
    calls, command, *arguments = sys.argv[1:]
    server = StdioServerParameters(command=command, args=arguments)
    async with Client(stdio_client(server)) as client:
        listed = await client.list_tools()
        say(sorted(tool.name for tool in listed.tools))
        for name, given in json.loads(calls):
            result = await client.call_tool(name, given)
            say([[part.model_dump(exclude_none=True) for part in result.content], result.structured_content])


asyncio.run(main())
