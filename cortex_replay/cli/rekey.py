"""``cortex-replay rekey``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import command, json_option, settle, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.config import key_rules_for
from cortex_replay.engine.rule_renewal import RuleRenewal
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.rekey import RekeyPlan, apply_rekey, plan_rekey

__all__ = ["rekey_command"]


@command(
    "rekey",
    epilog="""Examples:

  cortex-replay rekey --dry-run    which fixtures would get another key
  cortex-replay rekey              give it to them, in one commit
  cortex-replay rekey --accept-changed   after editing stored requests by hand

Exit status:
  0  every stored request stands under its key now
  1  the store could not be written, or two different answers would get one key
  2  wrong usage
  5  the store has other faults than keys that do not fit; nothing was changed
""",
)
@store_option
@click.option(
    "--accept-changed", is_flag=True, help="Also take files that were edited since they were listed."
)
@click.option("--dry-run", is_flag=True, help="Print the plan and change nothing.")
@json_option
@click.pass_context
def rekey_command(
    ctx: click.Context, store: Path | None, accept_changed: bool, dry_run: bool, as_json: bool
) -> None:
    """Compute keys anew from stored requests, without asking any model.

    For after a change of what goes into the key. A stored request that was edited by hand needs
    --accept-changed too, since its file is not what the index vouches for. Fixtures that do
    not hold their request keep their key and are listed.
    """
    root = store_root(ctx, store)
    source, rules = DirectorySource(root), key_rules_for(root)
    with progress_bar("reading") as progress:
        look = partial(
            plan_rekey, source, RuleRenewal(rules), accept_changed=accept_changed, progress=progress
        )
        plan = look()
        if (plan.moving or plan.exchanges) and not dry_run:
            plan = apply_rekey(source, plan, look)
    status = 1 if plan.colliding else 0
    settle(ctx, status)
    with output.tolerate_broken_pipe():
        _print(plan, dry_run=dry_run, as_json=as_json)
    if plan.colliding:
        output.talk("error: two different answers would get one key; delete one of each pair first")
    verb = "would get" if dry_run or plan.colliding else "got"
    output.talk(f"{output.count(plan.moving, 'fixture')} {verb} another key, {plan.unchanged} keep theirs")
    ctx.exit(status)


def _print(plan: RekeyPlan, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        output.print_json(
            {
                "dry_run": dry_run,
                "moving": [
                    {"path": item.path, "old": item.old.prompt_hash, "new": item.fixture.key.prompt_hash}
                    for item in plan.moving
                ]
                + [{"path": call.path, "old": call.old, "new": call.exchange.key} for call in plan.exchanges],
                "unchanged": plan.unchanged,
                "without_request": plan.without_request,
                "colliding": plan.colliding,
            }
        )
    else:
        for item in plan.moving:
            old, new = item.old.prompt_hash[:16], item.fixture.key.prompt_hash[:16]
            output.echo(f"rekey      {old} -> {new}  {output.escape(item.path)}")
        for call in plan.exchanges:
            new = (call.exchange.key or "")[:16]
            output.echo(f"rekey      {call.old[:16]} -> {new}  {output.escape(call.path)}")
        for path in plan.without_request:
            output.echo(f"no request {output.escape(path)}")
        for one, other in plan.colliding:
            output.echo(f"collision  {output.escape(one)} and {output.escape(other)} answer differently")
