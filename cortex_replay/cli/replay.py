"""``cortex-replay replay``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cortex_replay.cli import options
from cortex_replay.cli.command_run import run_command
from cortex_replay.cli.forking import check_fork_options, prepare_fork

__all__ = ["replay_command"]


@options.command(
    "replay",
    epilog="""Examples:

  cortex-replay replay -- npm test
  cortex-replay replay --fail-on unused -- pytest tests/agents
  cortex-replay replay --allow-miss -- ./agent  it may ask what is not recorded
  cortex-replay replay --store tests/llm --report used.json -- go test ./...
  cortex-replay replay --proxy -- ./agent      its client reads no base URL
  cortex-replay replay -- claude -p "fix it"   with the MCP servers of .mcp.json, which are not started
  cortex-replay replay --from 6 --live --as terser -- ./agent   turns 1 to 6 as recorded, then live
  cortex-replay replay --scope terser -- ./agent                that road again, from the store
  cortex-replay replay --fault 429@2 --fault cut:1@3 -- npm test     what if the model fails?

Exit status:
  0  the command ended well, and with it the run
  1  no call came to the gateway, or fewer than --from says
  2  wrong usage, or no key for --live; the command was not run
  3  it ended well, but asked what is not recorded (not with --allow-miss); or no such --scope
  4  unused fixtures or live calls, with --fail-on
  5  the store is not what its index says
""",
    runs_command=True,
)
@options.store_option
@options.pace_option
@options.recorded_upstream_option
@options.proxy_options
@click.option("--no-guard", is_flag=True, help="Let the command reach other hosts, as it could without us.")
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="HOST[:PORT]",
    help="Let the command reach this host, while all others are refused. Repeatable.",
)
@options.pass_env_option
@options.mcp_options
@options.fault_option
@click.option(
    "--from",
    "past_calls",
    type=click.IntRange(0),
    metavar="N",
    help="Replay the first N calls to models only; with --live the others are asked and recorded.",
)
@click.option("--live", "is_live", is_flag=True, help="With --from: ask models from then on, which costs.")
@click.option("--as", "road", metavar="NAME", help="With --from: what the new road is called.")
@click.option("--scope", metavar="NAME", help="Replay the road that --from recorded under this name.")
@click.option("--no-key", is_flag=True, help="With --from: run the command without a key; it brings its own.")
@click.option("--budget-calls", type=click.IntRange(0), help="With --from: stop before more live calls.")
@click.option("--budget-tokens", type=click.IntRange(0), help="With --from: stop before more tokens.")
@click.option("--allow-miss", is_flag=True, help="Accept calls that nothing is recorded for.")
@options.fail_on_option
@options.report_option
@options.json_option
@click.pass_context
def replay_command(ctx: click.Context, /, store: Path | None, allow_miss: bool, **flags: Any) -> None:
    """Run a command with every model call answered from the store.

    A gateway is started, and the command's SDKs are pointed at it. Variables that hold secrets are withheld
    from it (by name: API_KEY, GH_TOKEN, PGPASSWORD, ...; by value: a key of a well-known service, a URL with
    a password); SDKs get dummy keys. A call that goes around the gateway is refused and named. If the command
    fails, its status is ours. If it ends well although one of its calls is not recorded, the status is 3.
    """
    command = options.command_after_dashes(ctx)
    if not command:
        raise click.UsageError("give the command behind --: cortex-replay replay -- npm test")
    options.check_proxy_options(flags)
    check_fork_options(flags)
    if allow_miss and "miss" in flags["fail_on"]:
        raise click.UsageError("--allow-miss and --fail-on miss exclude each other")
    if not allow_miss:
        flags["fail_on"] = (*flags["fail_on"], "miss")
    flags["mode"] = "replay" if flags["past_calls"] is None else "record"
    root, prepare = options.store_root(ctx, store), prepare_fork(ctx, flags)
    ctx.exit(run_command(command, root, flags, default="replay", prepare=prepare))
