"""``cortex-replay keep``."""

from __future__ import annotations

from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.config.remote import Keep
from cortex_replay.sharing.keeping import plan_keep
from cortex_replay.sharing.shared_store import SharedStore

__all__ = ["keep_command"]


@command(
    "keep",
    epilog="""Examples:

  cortex-replay keep remote --dry-run   what would move
  cortex-replay keep remote             files leave the work tree; the bucket has them
  cortex-replay keep large-remote       only those of at least remote.large bytes leave it
  cortex-replay keep git                all of them come back

Sets remote.keep in the configuration of the store, pushes what the bucket lacks, and moves files. A file
leaves the work tree only after its object was read back from the bucket and found right. If it is
interrupted, run it again. Then commit what git shows: files that went or came, the configuration, and
.gitignore, which with "remote" has a line for fixtures.

Exit status:
  0  every file is where it is kept, or with --dry-run: this is what would be done
  1  there is no remote, or the bucket or the disk refuses
  2  wrong usage, or a configuration that cannot be changed
  5  a file or an object is not what the index says; it stays where it is
""",
)
@click.argument("where", type=click.Choice(["git", "remote", "large-remote"]))
@store_option
@click.option("--dry-run", is_flag=True, help="Say what would move, and change nothing.")
@json_option
@click.pass_context
def keep_command(ctx: click.Context, where: Keep, store: Path | None, dry_run: bool, as_json: bool) -> None:
    """Move the files of the store to the remote, or back into git."""
    shared = SharedStore.open(store_root(ctx, store))
    plan = plan_keep(shared, where)
    if not dry_run:
        with progress_bar("moving") as progress:
            plan.apply(progress)
    if as_json:
        output.print_json(
            {
                "dry_run": dry_run,
                "keep": where,
                "url": shared.remote.url,
                "pushed": [row.path for row in plan.push.lacking],
                "moved_out": [row.path for row in plan.move.out],
                "moved_in": [row.path for row in plan.move.into],
                "changed": plan.changed,
            }
        )
        return
    for row in plan.move.out:
        output.echo(f"out  {output.escape(row.path)}")
    for row in plan.move.into:
        output.echo(f"in   {output.escape(row.path)}")
    would = "would " if dry_run else ""
    output.talk(
        f"{output.count(plan.push.lacking, 'object')} {would}go to {output.escape(shared.remote.url)}, "
        f"{output.count(plan.move.out, 'file')} {would}leave the work tree, "
        f"{len(plan.move.into)} {would}come back"
    )
    for path in plan.changed:
        output.talk(f"{'would change' if dry_run else 'changed'}: {output.escape(path)}")
