"""``cortex-replay mcp``."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cortex_replay.cli import options
from cortex_replay.engine.mcp.link import Outgoing
from cortex_replay.modes import Mode
from cortex_replay.run import Run
from cortex_replay.run.mcp.desk import Desk
from cortex_replay.run.mcp.process import ProcessLink

__all__ = ["mcp_command"]


@options.command(
    "mcp",
    epilog="""Examples:

  cortex-replay mcp files -- npx -y @modelcontextprotocol/server-filesystem .

Exit status:
  0  the client has left
  1  the store could not be opened
  2  wrong usage
  5  the store is not what its index says
""",
    runs_command=True,
)
@click.argument("name")
@options.store_option
@click.option("--mode", type=click.Choice([mode.value for mode in Mode]), help="What to do with a call.")
@click.pass_context
def mcp_command(ctx: click.Context, /, name: str, store: Path | None, **flags: Any) -> None:
    """Stand in for a server of MCP: record what it says, or replay it without the server."""
    command = options.command_after_dashes(ctx)
    if not command:
        raise click.UsageError("give the server behind --: cortex-replay mcp files -- npx some-server")
    run = Run.open(mode=flags["mode"], store=options.store_root(ctx, store))
    asyncio.run(_serve(run, name, command))
    if run.mode.writes:
        run.commit()


async def _serve(run: Run, name: str, command: Sequence[str]) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def send(out: Outgoing) -> None:
        os.write(1, out.frame if out.closes else out.frame + b"\n")
        if out.closes:
            reader.feed_eof()

    session = Desk(run).open_session(name, lambda: ProcessLink.start(command), send)
    while line := await reader.readline():
        if frame := line.strip():
            await session.take(frame)
    await session.close()
