"""``cortex-replay push``."""

from __future__ import annotations

from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.sharing.placement import plan_move_out
from cortex_replay.sharing.push import plan_push
from cortex_replay.sharing.shared_store import SharedStore

__all__ = ["push_command"]


@command(
    "push",
    epilog="""Examples:

  cortex-replay push               what the bucket lacks
  cortex-replay push --dry-run     what that would be
  cortex-replay push --json        for a program

Each file is put as an object under its BLAKE3, where there is none yet. With keep = "remote", or
"large-remote", files that are kept in the bucket then leave the work tree, each after its object was
read back and found right. Run it before you push the commit that lists them.

Exit status:
  0  the bucket has every file that INDEX.toml names
  1  there is no remote, or the bucket cannot be written
  2  wrong usage
  5  a file is not what its index says, or cannot be had anywhere
""",
)
@store_option
@click.option("--dry-run", is_flag=True, help="Ask the bucket what it lacks, and put nothing.")
@json_option
@click.pass_context
def push_command(ctx: click.Context, store: Path | None, dry_run: bool, as_json: bool) -> None:
    """Send the files of the store that the remote lacks."""
    shared = SharedStore.open(store_root(ctx, store))
    plan = plan_push(shared)
    move = plan_move_out(shared)
    if not dry_run:
        with progress_bar("pushing") as progress:
            plan.apply(progress)
        move.apply()
    if as_json:
        output.print_json(
            {
                "dry_run": dry_run,
                "url": shared.remote.url,
                "pushed": [{"path": row.path, "blake3": row.blake3} for row in plan.lacking],
                "pushed_bytes": plan.pushed_bytes,
                "present": plan.present,
                "moved_out": [row.path for row in move.out],
            }
        )
        return
    for row in plan.lacking:
        output.echo(f"push  {output.escape(row.path)}")
    verb = "would go" if dry_run else "went"
    size = "" if dry_run else f" ({plan.pushed_bytes:,} bytes)"
    objects = output.count(plan.lacking, "object")
    output.talk(f"{objects}{size} {verb} to {output.escape(shared.remote.url)}, {plan.present} were there")
    if move.out:
        leave = "would leave" if dry_run else "left"
        output.talk(f"{output.count(move.out, 'file')} {leave} the work tree, as `keep` says")
