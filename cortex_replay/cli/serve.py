"""``cortex-replay serve``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import click

from cortex_replay.cli import options, output
from cortex_replay.cli.runs import open_run, rpc_for, tell_repeats, warn_of_dropped
from cortex_replay.disk import PRIVATE, write_file
from cortex_replay.faults import Fault, Faults
from cortex_replay.modes import Mode
from cortex_replay.run import Run
from cortex_replay.store import Store

__all__ = ["serve_command"]


def _serve_stdio(run: Run, name: str | None) -> None:
    """Answer the admin RPC on standard input and output, for one caller."""
    from cortex_replay.admin.stdio import FileReader, FileWriter, serve_lines  # noqa: PLC0415

    rpc = rpc_for(run)
    if rpc is None or name is None:
        known = ", ".join(run.settings.callers) or "none; docs/admin.md tells how to name one"
        raise click.UsageError(f"--stdio needs --caller NAME; the configured callers are: {known}")
    caller = rpc.callers.by_name(name)

    async def serve() -> None:
        task = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel if task else lambda: None)
        try:
            await serve_lines(rpc.dispatcher, caller, FileReader(0), FileWriter(1))
        finally:
            await rpc.aclose()

    try:
        with contextlib.suppress(asyncio.CancelledError):  # whoever ends it wants it to end well
            asyncio.run(serve())
    finally:
        if run.mode.writes:
            warn_of_dropped(run.commit())


@options.command(
    "serve",
    epilog="""Examples:

  cortex-replay serve                                  replay, on a free port of this machine
  cortex-replay serve --mode once --port 8100          record what is missing
  cortex-replay serve --upstream openai=http://127.0.0.1:8080/v1 --mode record
  cortex-replay serve --upstream mcp:docs=https://docs.example/mcp --mode record
  ANTHROPIC_BASE_URL=http://127.0.0.1:8100/anthropic npm test
  cortex-replay serve --stdio --caller ci              the admin RPC, one message a line (docs/admin.md)

A client's base URL is what is printed, with /anthropic, /openai, /ollama, /gemini or the name of a configured
provider behind it, or /mcp/NAME for an MCP server; /s-NAME before that gives a test its own count of
answers. Ctrl-C commits and ends.

Exit status:
  0  it was stopped, and what it recorded is committed
  1  the store cannot be opened or written, or the port is taken
  2  wrong usage
  5  the store is not what its index says
""",
)
@options.store_option
@click.option(
    "--mode",
    type=click.Choice([*map(str, Mode)]),
    help="replay: never ask; once: ask what is missing; record: ask all.  [default: replay]",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Where to listen.  [default: a free one]"
)
@click.option("--allow-remote", is_flag=True, help="Let other machines reach it, with the token.")
@click.option(
    "--allowed-host", "allowed_hosts", multiple=True, metavar="HOST:PORT", help="A further name for it."
)
@click.option(
    "--url-file", type=click.Path(path_type=Path), help="Write the URL, token and all, to this file (0600)."
)
@click.option("--stdio", is_flag=True, help="Speak JSON-RPC over standard input and output instead.")
@click.option("--caller", metavar="NAME", help="With --stdio: who is calling, of the configured callers.")
@click.option("--record-failures", is_flag=True, help="Record errors of providers as answers, too.")
@options.every_answer_option
@click.option("--budget-tokens", type=click.IntRange(0), help="No more tokens than this.")
@click.option("--budget-calls", type=click.IntRange(0), help="No more live calls than this.")
@click.option("--timeout-ms", type=click.IntRange(1), help="What one live call may take.  [default: 600000]")
@options.pace_option
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="NAME=URL",
    help="The server of a provider: openai=http://127.0.0.1:8080/v1, or of MCP: mcp:NAME=URL. Repeatable.",
)
@options.fault_option
@options.json_option
@click.pass_context
def serve_command(
    ctx: click.Context,
    /,
    store: Path | None,
    host: str,
    port: int,
    allow_remote: bool,
    allowed_hosts: tuple[str, ...],
    url_file: Path | None,
    faults: tuple[str, ...],
    stdio: bool,
    caller: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Serve recorded answers to any SDK, or record what it asks.

    The first line on standard output is the URL, once it accepts connections. In every mode but replay it
    holds a token, without which nobody is served.
    """
    from cortex_replay.gateway import Gateway, Pace  # noqa: PLC0415 - a server, which no help needs
    from cortex_replay.run.mcp.desk import Desk  # noqa: PLC0415
    from cortex_replay.run.mcp.stdio.socket import RunSocket  # noqa: PLC0415

    root = options.store_root(ctx, store)
    pace = Pace.parse(flags.pop("pace"))
    how = shlex.join(["cortex-replay", "serve", "--store", str(root), "--mode", "once", "--port", str(port)])
    run = open_run(root, flags, default="replay", how_to_record=how)
    if stdio:
        _serve_stdio(run, caller)
        return
    gateway = Gateway(
        run,
        host=host,
        port=port,
        pace=pace,
        allow_remote=allow_remote,
        allowed_hosts=allowed_hosts,
        faults=Faults(map(Fault.parse, faults)),
        rpc=rpc_for(run),
    )
    if url_file is not None:
        write_file(url_file, gateway.url().encode(), mode=PRIVATE)
    facts = {
        "url": gateway.url(),
        "control": gateway.url("-"),
        "rpc": gateway.rpc_url,
        "mode": run.mode,
        "port": gateway.port,
        "pid": os.getpid(),
    }
    try:
        with gateway.stop_on_signals(), RunSocket.open(Desk(run)) as served:
            facts["mcp"] = None if served is None else served.path
            output.print_address(json.dumps(facts) if as_json else gateway.url())
            there = _describe_size(run.store)
            output.talk(f"{run.mode}: {there} in {output.escape(str(root))}; Ctrl-C ends it")
            gateway.serve_here()
    finally:
        if run.mode.writes:
            warn_of_dropped(run.commit())
            tell_repeats(run.ledger)
            output.talk(f"recorded {run.ledger.recorded}")
        if costs := run.ledger.cost_facts():
            output.talk(", ".join(map(output.escape, costs)))


def _describe_size(store: Store) -> str:
    """What there is in a store, unless the first call would have to wait until it was counted."""
    if store.is_sharded:
        return "a sharded store"
    calls = len(store.list_exchanges())
    others = f" and {output.count(calls, 'other call')}" if calls else ""
    return f"{output.count(len(store), 'fixture')}{others}"
