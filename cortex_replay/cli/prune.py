"""``cortex-replay prune``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.config.ages import parse_age
from cortex_replay.store import Store
from cortex_replay.store.prune import (
    PruneCriteria,
    PrunePlan,
    plan_prune,
    read_unused,
    read_unused_calls,
)
from cortex_replay.store.tool_calls import StoredCall

__all__ = ["prune_command"]


@command(
    "prune",
    epilog="""Examples:

  cortex-replay prune --unused-from a.json --unused-from b.json --dry-run
  cortex-replay prune --model 'claude-*-4-*'
  cortex-replay prune --older-than 90d --path 'fixtures/gpt-*'
  cortex-replay prune --scope 'tests/test_gone.py::*'
  cortex-replay prune --server files --tool 'write_*'

A fixture goes when it fits every criterion that is given. A report of unused fixtures is a JSON
object {"used": [...], "unused": [...]} of {"model", "prompt_hash"}, with "scope" for what a scope
has of its own; with several, a fixture is unused when some report says so and none has used it.
So are recorded calls to MCP servers, by "unused_calls" and "used_exchanges".
A file goes with the last scope that has it. What continues a recording that goes keeps its whole
request. With --server or --tool it is the recorded calls of
tools that go, and fixtures stay.

Exit status:
  0  done, or with --dry-run: this is what would be done
  1  the store could not be written
  2  wrong usage: no criterion, or a report that is none
  5  the store is not what its index says; nothing was removed
""",
)
@store_option
@click.option(
    "--unused-from",
    "reports",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A report of unused fixtures; several are merged.",
)
@click.option("--model", metavar="PATTERN", help="Models that match this pattern ('*' and '?').")
@click.option("--path", "pattern", metavar="PATTERN", help="Files whose path matches this pattern.")
@click.option("--scope", metavar="PATTERN", help="What scopes (tests) whose names match have of their own.")
@click.option("--older-than", "age", metavar="AGE", help="Recorded longer ago than this: 36h, 30d, 8w.")
@click.option("--server", metavar="PATTERN", help="Calls to MCP servers whose names match.")
@click.option("--tool", metavar="PATTERN", help="Calls to MCP tools whose names match.")
@click.option("--dry-run", is_flag=True, help="Print the plan and change nothing.")
@json_option
@click.pass_context
def prune_command(
    ctx: click.Context,
    store: Path | None,
    reports: tuple[Path, ...],
    model: str | None,
    pattern: str | None,
    scope: str | None,
    age: str | None,
    server: str | None,
    tool: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove recordings: print the plan, then act. The index goes first, the files after it."""
    contents = [report.read_bytes() for report in reports]
    try:
        criteria = PruneCriteria(
            read_unused(contents) if contents else None,
            model,
            pattern,
            datetime.now(UTC) - parse_age(age) if age else None,
            scope,
            server,
            tool,
            read_unused_calls(contents) if contents else None,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if criteria.is_empty:
        raise click.UsageError(
            "say what is to go: --unused-from, --model, --path, --scope, --older-than, --server or --tool"
        )
    if criteria.is_about_calls and model:
        raise click.UsageError("--server and --tool are about tools, --model is about models")
    with progress_bar("reading") as progress:
        opened = Store.open(store_root(ctx, store), progress=progress)
    plan = plan_prune(opened, criteria)
    with output.tolerate_broken_pipe():
        if as_json:
            output.print_json(_as_json(plan, dry_run=dry_run))
        else:
            for item in plan.going:
                of = f"  (of {output.escape(item.scope)})" if item.scope else ""
                output.echo(f"remove  {output.escape(item.path)}{of}")
    parts = [] if dry_run else plan.apply(opened)
    verb = "would be removed" if dry_run else "removed"
    going = _count(plan, is_about_calls=criteria.is_about_calls)
    undated = f", {plan.undated} of them because nobody knows when they were recorded" if plan.undated else ""
    output.talk(f"{going} ({plan.going_bytes:,} bytes) {verb}, {plan.staying} stay{undated}")
    if parts:
        output.talk(f"{output.count(parts, 'part')} that no recording names any more removed")


def _count(plan: PrunePlan, *, is_about_calls: bool) -> str:
    calls = sum(isinstance(item, StoredCall) for item in plan.going)
    fixtures = output.count(len(plan.going) - calls, "fixture")
    if is_about_calls:
        return output.count(calls, "call")
    return f"{fixtures} and {output.count(calls, 'call')} to MCP servers" if calls else fixtures


def _as_json(plan: PrunePlan, *, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "removed": [item._asdict() for item in plan.going],
        "removed_bytes": plan.going_bytes,
        "staying": plan.staying,
        "undated": plan.undated,
    }
