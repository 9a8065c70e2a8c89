"""Tests with fastmcp's client, which stands on the SDK's transports."""

# mypy: disable-error-code="import-not-found,untyped-decorator,attr-defined,type-arg,call-overload"

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport

pytestmark = [pytest.mark.llm_replay, pytest.mark.asyncio]
URL = f"http://127.0.0.1:{os.environ.get('HTTP_PORT', '1')}/mcp"
SSE = f"http://127.0.0.1:{os.environ.get('SSE_PORT', '1')}/sse"
TOOLS = str(Path(__file__).with_name("tools.py"))
STARTS = {"STARTS": os.environ.get("STARTS", os.devnull)}


@pytest.mark.parametrize("name", ["stdio", "config", "http", "sse"])
async def test_client(name: str) -> None:
    command: dict[str, Any] = {"command": sys.executable, "args": [TOOLS, "stdio"], "env": STARTS}
    servers: dict[str, Any] = {
        "stdio": StdioTransport(sys.executable, [TOOLS, "stdio"], env=STARTS),
        "config": {"mcpServers": {"tools": command}},
        "http": URL,
        "sse": SSE,
    }
    async with Client(servers[name]) as client:
        result = await client.call_tool("now", {})
    (Path(os.environ["RESULTS"]) / name).write_text(result.content[0].text)


@pytest.mark.llm_replay(allow_no_calls=True)
async def test_a_server_of_the_test_itself_runs() -> None:
    app = FastMCP("own")

    @app.tool
    def five() -> int:
        return 5

    async with Client(app) as client:
        assert (await client.call_tool("five", {})).data == 5
