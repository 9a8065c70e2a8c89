"""A client of the Python SDK that has server-everything echo texts: ``echo.py ERA FILE COMMAND ...``.

The file holds a list of texts as JSON. Prints what comes of each, one a line, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client


async def main(era: Any, file: str, command: list[str]) -> None:
    server = stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
    async with Client(server, mode=era) as client:
        for text in json.loads(Path(file).read_text()):
            try:
                answer: Any = (await client.call_tool("echo", {"message": text})).content[0]
                said = answer.text
            except MCPError as error:
                said = f"error: {error.error.message}"
            sys.stdout.write(json.dumps(said) + "\n")


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
