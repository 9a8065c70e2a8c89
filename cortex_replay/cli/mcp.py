"""``cortex-replay mcp``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import socket
from pathlib import Path
from typing import Any, Final

import click

from cortex_replay import shim
from cortex_replay.cli import options, output
from cortex_replay.cli.mcp_command import McpCommand
from cortex_replay.cli.runs import open_run, warn_of_dropped
from cortex_replay.modes import Mode
from cortex_replay.run.mcp.desk import Desk
from cortex_replay.run.mcp.stdio.client import StdioClient, problem_of_name, serve_client

__all__ = ["mcp_command"]

_SIGNALLED: Final = 128


@options.command(
    "mcp",
    epilog="""Examples:

  cortex-replay mcp files -- npx -y @modelcontextprotocol/server-filesystem .
  cortex-replay mcp files --mode once -- npx -y @modelcontextprotocol/server-filesystem .
  cortex-replay mcp check files -- npx -y @modelcontextprotocol/server-filesystem .
  cortex-replay record -- claude -p "..."      servers behind this command are recorded, too

Put it where your client's configuration has the server's command. Within `record -- COMMAND`,
`replay -- COMMAND`, `serve` or a test, it uses the mode and the store of that run.
`cortex-replay mcp check --help` describes the check.

Exit status:
  0  the client has left
  1  a failure: the run that it belongs to has ended, for one
  2  wrong usage
  5  the store is not what its index says
""",
    cls=McpCommand,
)
@click.argument("name")
@options.store_option
@click.option(
    "--mode",
    type=click.Choice([*map(str, Mode)]),
    help="replay: start no server; once: start it for what is missing; record: ask all.  [default: replay]",
)
@click.option("--scope", default="", metavar="NAME", help="Count the calls of this client on their own.")
@click.pass_context
def mcp_command(ctx: click.Context, /, name: str, store: Path | None, scope: str, **flags: Any) -> None:
    """Stand in for an MCP server: record what it says, or replay it without the server.

    The server's own command stands behind --. It gets the environment that the client gives to this one.
    """
    command = options.command_after_dashes(ctx)
    if not command:
        raise click.UsageError("give the server behind --: cortex-replay mcp files -- npx some-server")
    if problem := problem_of_name(name):
        raise click.BadParameter(problem, ctx, param_hint="NAME")
    root = options.store_root(ctx, store)
    parent, status = _detach()
    if status is not None:
        ctx.exit(status)
    how = shlex.join(["cortex-replay", "mcp", name, "--mode", "once", "--store", str(root), "--", *command])
    run = open_run(root, flags, default="replay", how_to_record=how)
    client = StdioClient(name, tuple(command), dict(os.environ), scope=scope)
    try:
        asyncio.run(_serve(Desk(run), client, parent))
    finally:
        if run.mode.writes:
            warn_of_dropped(run.commit())
            output.talk(f"recorded {run.ledger.recorded}")


def _detach() -> tuple[socket.socket | None, int | None]:
    """Go on in a process of our own, which no signal of the client reaches, and follow it from here.

    A client may kill what it has started at any time; what it has seen is kept all the same, and servers are
    ended. The new process gets a connection to the old one, and the old one the status of the new.
    """
    if not hasattr(os, "fork"):
        return None, None
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child:
        ours.close()
        followed = shim.follow(theirs)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if not code and isinstance(followed, int) and followed > _SIGNALLED:
            code = followed
        return None, code if code >= 0 else _SIGNALLED - code
    theirs.close()
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    return ours, None


async def _serve(desk: Desk, client: StdioClient, parent: socket.socket | None) -> None:
    loop = asyncio.get_running_loop()

    async def end() -> None:
        if parent is None:
            await asyncio.Event().wait()
            return
        parent.setblocking(False)
        with contextlib.suppress(ConnectionError):
            await loop.sock_recv(parent, 1)

    def note(group: int, is_there: bool) -> None:
        if parent is not None:
            with contextlib.suppress(OSError):
                parent.send(f"{'+' if is_there else '-'}{group}\n".encode())

    await serve_client(desk, client, end(), note)
