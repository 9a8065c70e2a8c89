"""Tests as people write them, for either SDK of MCP; nothing in them knows that they are recorded."""

# mypy: disable-error-code="import-not-found,untyped-decorator,attr-defined,type-arg,call-overload"

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from mcp import ClientSession, StdioServerParameters
from mcp.client import streamable_http
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client

pytestmark = [pytest.mark.llm_replay, pytest.mark.asyncio]
IS_FIRST = hasattr(streamable_http, "GetSessionIdCallback")
HTTP, SSE = os.environ.get("HTTP_PORT", "1"), os.environ.get("SSE_PORT", "1")
URL = f"http://127.0.0.1:{HTTP}/mcp"
TOOLS = str(Path(__file__).with_name("tools.py"))
STDIO = StdioServerParameters(
    command=sys.executable, args=[TOOLS, "stdio"], env={"STARTS": os.environ.get("STARTS", os.devnull)}
)
MADE_BEFORE = stdio_client(STDIO)


async def call(session: Any, tool: str, **arguments: Any) -> str:
    result = await session.call_tool(tool, arguments)
    return str(result.content[0].text)


def note(name: str, value: str) -> None:
    """Leave what was answered, to be compared with other runs."""
    (Path(os.environ["RESULTS"]) / name).write_text(value)


async def use(name: str, streams: Any) -> None:
    """All that a session has."""
    async with ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        assert [tool.name for tool in (await session.list_tools()).tools] == ["add", "now", "count", "steps"]
        assert await call(session, "add", a=1, b=2) == "3"
        seen: list[float] = []

        async def progress(done: float, _total: float | None, _message: str | None) -> None:
            seen.append(done)

        await session.call_tool("steps", {"number": 3}, progress_callback=progress)
        assert seen == [1, 2, 3]
        error: Any = await session.call_tool("add", {"a": "x"})
        assert getattr(error, "isError", None) or error.is_error
        note(name, await call(session, "now") + await call(session, "now"))


async def test_stdio() -> None:
    async with stdio_client(STDIO) as streams:
        await use("stdio", streams)


async def test_made_before_the_test() -> None:
    async with MADE_BEFORE as streams:
        await use("made", streams)


@pytest.mark.parametrize("n", [1, 2])
async def test_parametrised(n: int) -> None:
    async with stdio_client(STDIO) as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        assert await call(session, "add", a=n, b=n) == str(2 * n)


async def test_streamable_http() -> None:
    async with streamable_http.streamable_http_client(URL) as streams:
        await use("http", streams)


@pytest.mark.llm_replay(http="all")
async def test_streamable_http_where_all_http_is_recorded() -> None:
    async with streamable_http.streamable_http_client(URL) as streams:
        await use("all", streams)


async def test_sse() -> None:
    async with sse_client(f"http://127.0.0.1:{SSE}/sse") as streams:
        await use("sse", streams)


@pytest.mark.skipif(not IS_FIRST, reason="2.x has dropped it")
async def test_the_old_name_of_streamable_http() -> None:
    async with streamable_http.streamablehttp_client(URL, headers={"x-own": "1"}) as streams:
        await use("old", streams)
        assert streams[2]() is None or isinstance(streams[2](), str)


@pytest.mark.skipif(IS_FIRST, reason="1.x has none")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("place", ["stdio", "http"])
async def test_client(mode: str, place: str) -> None:
    from mcp import Client  # noqa: PLC0415

    server: Any = STDIO if place == "stdio" else URL
    async with Client(server, mode=mode) as client:
        note(f"client-{mode}-{place}", await call(client, "now"))


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared() -> AsyncIterator[Any]:
    """A session of several tests; the SDK wants it closed in the task that opened it."""
    opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def own() -> None:
        async with stdio_client(STDIO) as streams, ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            opened.set_result(session)
            await over.wait()

    task = asyncio.create_task(own())
    yield await opened
    over.set()
    await task


@pytest.mark.asyncio(loop_scope="module")
async def test_a_shared_session_first(shared: Any) -> None:
    assert await call(shared, "add", a=10, b=1) == "11"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_shared_session_second(shared: Any) -> None:
    assert await call(shared, "add", a=10, b=2) == "12"
