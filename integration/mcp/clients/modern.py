"""A client of the Python SDK whose requests stand alone: ``modern.py stdio COMMAND ...``, or ``http URL``.

It prints the lines of everything.py.
"""

from __future__ import annotations

import sys

import anyio
import mcp_types as types
from everything import printed, progress, say, transport_of  # type: ignore[import-not-found]
from mcp import Client
from mcp.client import ClientRequestContext


async def elicit(
    context: ClientRequestContext,
    params: types.ElicitRequestParams,
) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"word": "tea"})


async def main(kind: str, target: list[str]) -> None:
    async with Client(printed(transport_of(kind, target)), elicitation_callback=elicit) as client:
        say(version=client.protocol_version)
        await client.list_tools()
        answer = await client.call_tool("ask", {})
        say(answer=[part.model_dump(mode="json") for part in answer.content])
        async with client.listen(tools_list_changed=True, resource_subscriptions=["text://a"]) as events:
            for text in ("two", "three"):
                await client.call_tool("write", {"text": text}, progress_callback=progress)
                say(event=type(await anext(events)).__name__)
                read = await client.read_resource("text://a")
                say(read=[part.model_dump(mode="json", exclude={"meta"}) for part in read.contents])
        await client.call_tool("write", {"text": "four"})
    say(done=True)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2:])
