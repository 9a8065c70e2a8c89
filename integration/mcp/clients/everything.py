"""A client of the Python SDK that uses all that server-everything has, and prints what it got, a line each.

    everything.py stdio COMMAND ...      everything.py http URL      everything.py sse URL

A line is ``{"got": MESSAGE}`` for each message of the server, in the order in which they came,
``{"asks": …}`` for what is asked, and at the end ``{"done": COUNT}``. Sampling, elicitation and roots always
get the same answer.
"""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Self

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.client.stdio import StdioServerParameters, stdio_client
from pydantic import FileUrl

TOOLS: dict[str, dict[str, Any]] = {
    "echo": {"message": "hello"},
    "get-annotated-message": {"messageType": "error", "includeImage": True},
    "get-env": {},
    "get-resource-links": {"count": 4},
    "get-resource-reference": {"resourceType": "Blob", "resourceId": 2},
    "get-roots-list": {},
    "get-structured-content": {"location": "Chicago"},
    "get-sum": {"a": 2, "b": 40},
    "get-tiny-image": {},
    "gzip-file-as-resource": {
        "name": "a.gz",
        "data": "data:text/plain;base64,aGVsbG8=",
        "outputType": "resource",
    },
    "simulate-research-query": {"topic": "tea", "ambiguous": False},
    "toggle-simulated-logging": {},
    "toggle-subscriber-updates": {},
    "trigger-elicitation-request": {},
    "trigger-long-running-operation": {"duration": 0.3, "steps": 3},
    "trigger-sampling-request": {"prompt": "a word for tea", "maxTokens": 5},
    "trigger-url-elicitation": {"url": "https://example.com/", "message": "look", "elicitationId": "e-1"},
}


def say(**line: Any) -> None:
    sys.stdout.write(f"{json.dumps(line, sort_keys=True)}\n")
    sys.stdout.flush()


class Reader:
    """A stream of messages that are printed as they come."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.__aexit__(*error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._print(await self._stream.__anext__())

    async def receive(self) -> Any:
        return self._print(await self._stream.receive())

    def _print(self, item: Any) -> Any:
        message = getattr(item, "message", None)
        if message is not None:
            say(got=message.model_dump(by_alias=True, mode="json", exclude_unset=True))
        return item


@asynccontextmanager
async def printed(transport: Any) -> Any:
    async with transport as (read, write, *_):
        yield Reader(read), write


def transport_of(kind: str, target: list[str]) -> Any:
    if kind == "stdio":
        return stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    if kind == "sse":
        from mcp.client.sse import sse_client  # noqa: PLC0415 - who speaks stdio needs no HTTP

        return sse_client(target[0])
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    return streamable_http_client(target[0])


async def sample(
    context: ClientRequestContext,
    params: types.CreateMessageRequestParams,
) -> types.CreateMessageResult:
    text = types.TextContent(type="text", text="oolong")
    return types.CreateMessageResult(role="assistant", content=text, model="a-model")


async def elicit(
    context: ClientRequestContext,
    params: types.ElicitRequestParams,
) -> types.ElicitResult:
    if isinstance(params, types.ElicitRequestURLParams):
        return types.ElicitResult(action="accept")
    return types.ElicitResult(action="accept", content={"name": "Ada", "check": True})


async def roots(context: ClientRequestContext) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///srv/tea"), name="tea")])


async def log(params: types.LoggingMessageNotificationParams) -> None:
    """What it says is printed as it comes."""


async def progress(progress: float, total: float | None, message: str | None) -> None:
    """The same."""


async def main(kind: str, target: list[str]) -> None:
    count = 0

    async def ask(what: str, call: Any) -> Any:
        nonlocal count
        count += 1
        say(asks=what)
        try:
            return await call
        except MCPError as error:
            say(error=error.error.code)
            return None

    async with Client(
        printed(transport_of(kind, target)),
        sampling_callback=sample,
        elicitation_callback=elicit,
        list_roots_callback=roots,
        logging_callback=log,
    ) as client:
        await ask("ping", client.send_ping())
        tools = await ask("tools/list", client.list_tools())
        for level in ("debug", "info", "warning", "emergency", "info"):
            await ask(f"level {level}", client.set_logging_level(level))
        for tool in tools.tools:
            arguments = TOOLS[tool.name]
            await ask(tool.name, client.call_tool(tool.name, arguments, progress_callback=progress))
            if tool.name.startswith("toggle-"):
                await ask(f"{tool.name} off", client.call_tool(tool.name, arguments))
        await ask("no such tool", client.call_tool("no-such-tool", {}))
        await ask("wrong arguments", client.call_tool("get-sum", {"a": "x"}))
        listed = await ask("resources/list", client.list_resources())
        for resource in listed.resources:
            await ask(str(resource.uri), client.read_resource(str(resource.uri)))
        await ask("templates", client.list_resource_templates())
        for uri in ("demo://resource/dynamic/text/1", "demo://resource/dynamic/blob/2", "demo://nothing"):
            await ask(uri, client.read_resource(uri))
        await ask("subscribe", client.subscribe_resource("demo://resource/dynamic/text/1"))
        await ask("updates", client.call_tool("toggle-subscriber-updates", {}))
        await ask("updates off", client.call_tool("toggle-subscriber-updates", {}))
        await ask("unsubscribe", client.unsubscribe_resource("demo://resource/dynamic/text/1"))
        template = types.ResourceTemplateReference(
            type="ref/resource", uri="demo://resource/dynamic/text/{resourceId}"
        )
        await ask("complete a resource", client.complete(template, {"name": "resourceId", "value": "1"}))
        await ask("prompts/list", client.list_prompts())
        await ask("simple-prompt", client.get_prompt("simple-prompt"))
        await ask("args-prompt", client.get_prompt("args-prompt", {"city": "Oslo"}))
        await ask(
            "completable-prompt",
            client.get_prompt("completable-prompt", {"department": "Sales", "name": "David"}),
        )
        await ask(
            "resource-prompt",
            client.get_prompt("resource-prompt", {"resourceType": "Text", "resourceId": "3"}),
        )
        prompt = types.PromptReference(type="ref/prompt", name="completable-prompt")
        await ask("complete a prompt", client.complete(prompt, {"name": "department", "value": "S"}))
        await ask("roots changed", client.send_roots_list_changed())
        for _ in range(3):  # the third time it says the same
            await ask("get-roots-list", client.call_tool("get-roots-list", {}))
        await concurrently(client)
        await cancelled(client, ask)
    say(done=count)


async def concurrently(client: Client) -> None:
    """Equal calls at once, each with progress of its own."""
    async with anyio.create_task_group() as group:
        for _ in range(3):
            call = partial(client.call_tool, progress_callback=progress)
            group.start_soon(call, "trigger-long-running-operation", {"duration": 0.2, "steps": 2})


async def cancelled(client: Client, ask: Any) -> None:
    """A call that the client gives up, and one behind it."""
    with anyio.move_on_after(0.3):
        await client.call_tool("trigger-long-running-operation", {"duration": 1, "steps": 1})
    await ask("after a cancellation", client.call_tool("echo", {"message": "still here"}))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2:])
