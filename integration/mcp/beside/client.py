"""A client of the Python SDK that does what recorders find hard, and prints what came of it as JSON.

    client.py stdio COMMAND ...      client.py http URL

``ARGUMENTS`` in the environment names a file with what it calls ``echo`` with, ``POLLS`` how often it polls.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

_PATIENCE_S = 5


async def sample(
    context: Any,
    params: types.CreateMessageRequestParams,
) -> types.CreateMessageResult:
    said = types.TextContent(type="text", text="oolong")
    return types.CreateMessageResult(role="assistant", content=said, model="a-model")


async def seen(found: dict[str, Any], name: str, work: Awaitable[Any]) -> None:
    """Note what comes of something, an error or nothing within a moment, too."""
    try:
        with anyio.fail_after(_PATIENCE_S):
            found[name] = await work
    except MCPError as error:
        found[name] = f"error: {error.error.message}"
    except TimeoutError:
        found[name] = "nothing came"


async def main(kind: str, target: list[str]) -> None:
    found: dict[str, Any] = {}
    arguments = json.loads(Path(os.environ["ARGUMENTS"]).read_text())
    transport = (
        stdio_client(StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ)))
        if kind == "stdio"
        else streamable_http_client(target[0])
    )
    async with Client(transport, sampling_callback=sample) as client:

        async def call(name: str, arguments: dict[str, Any] | None = None, progress: Any = None) -> str:
            done = await client.call_tool(name, arguments or {}, progress_callback=progress)
            return "".join(part.text for part in done.content if isinstance(part, types.TextContent))

        async def pages() -> list[str]:
            names, cursor = [], None
            while True:
                listed = await client.list_tools(cursor=cursor)
                names += [tool.name for tool in listed.tools]
                if (cursor := listed.next_cursor) is None:
                    return names

        async def polls() -> list[str]:
            return [await call("count") for _ in range(int(os.environ.get("POLLS", "3")))]

        async def together() -> dict[str, Any]:
            made: dict[str, Any] = {"progress": []}

            async def note(done: float, total: float | None, _: str | None) -> None:
                made["progress"].append([done, total])

            async with anyio.create_task_group() as group:
                group.start_soon(seen, made, "waits", call("wait"))
                await anyio.sleep(0.2)  # so that it is asked first
                group.start_soon(seen, made, "works", call("work", progress=note))
            return made

        async def blob() -> int:
            read = await client.read_resource("data:bytes")
            return sum(
                len(part.blob) for part in read.contents if isinstance(part, types.BlobResourceContents)
            )

        await seen(found, "pages", pages())
        await seen(found, "polls", polls())
        await seen(found, "echo", call("echo", arguments))
        await seen(found, "blob", blob())
        await seen(found, "together", together())
        await seen(found, "asked back", call("ask"))
    print(json.dumps(found))  # noqa: T201 - for who started it


anyio.run(main, sys.argv[1], sys.argv[2:])
