"""``cortex-replay repack``."""

from __future__ import annotations

from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.index.forms import convert_index
from cortex_replay.store.repack import RepackPlan, plan_repack

__all__ = ["repack_command"]


@command(
    "repack",
    epilog="""Examples:

  cortex-replay repack --dry-run    what would change, and how much smaller the store would be
  cortex-replay repack              store each conversation once
  cortex-replay repack --whole      give every recording its whole request again
  cortex-replay repack --index single   one index file instead of shards

A recording whose request continues another one then holds what is new in it; large system texts
and tools stand in files of their own, once. No key changes, and --whole gives back the same files
to the byte. New recordings are stored so anyway; files that you named or wrote yourself stay.

--index changes the form of the index alone, and no recording. A store gets shards by itself when it
passes 20,000 rows, and again with the first recording after you took them away.

Exit status:
  0  done, or with --dry-run: this is what would be done
  1  the store could not be written, or its index cannot have this form
  2  wrong usage
  5  the store is not what its index says; nothing was changed
""",
)
@store_option
@click.option(
    "--whole", "is_whole", is_flag=True, help="Store every request whole, in the file of its answer."
)
@click.option(
    "--index",
    "index_form",
    type=click.Choice(["single", "sharded"]),
    help="Change the index alone: to one file, or to shards.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan and change nothing.")
@json_option
@click.pass_context
def repack_command(
    ctx: click.Context,
    store: Path | None,
    is_whole: bool,
    index_form: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Store each conversation once, or every request whole; keys stay as they are.

    One commit: at every instant, and after a crash, there is the store from before or the one from after.
    """
    if is_whole and index_form is not None:
        raise click.UsageError("--index changes the index alone; run repack --whole by itself")
    source = DirectorySource(store_root(ctx, store))
    if index_form is not None:
        _convert_index(source, index_form, dry_run=dry_run, as_json=as_json)
        return
    with progress_bar("reading") as progress:
        plan = plan_repack(source, is_whole=is_whole, progress=progress)
    with output.tolerate_broken_pipe():
        if as_json:
            output.print_json(_as_json(plan, is_whole=is_whole, dry_run=dry_run))
        else:
            for item in plan.rewritten:
                sizes = f"{item.size:,} -> {item.new_size:,} bytes"
                output.echo(
                    f"repack  {output.escape(item.path)} -> {output.escape(item.new_path)}  ({sizes})"
                )
    if not dry_run:
        plan.apply(source)
    _summarise(plan, dry_run=dry_run)


def _convert_index(source: DirectorySource, form: str, *, dry_run: bool, as_json: bool) -> None:
    changed = convert_index(source, is_sharded=form == "sharded", dry_run=dry_run)
    if as_json:
        output.print_json({"dry_run": dry_run, "index": form, "changed": changed})
    name = "one file" if form == "single" else "shards"
    if changed:
        output.talk(f"the index {'would become' if dry_run else 'is now'} {name}; no recording changes")
    else:
        output.talk(f"nothing to do: the index is {name} already, or has no rows")


def _summarise(plan: RepackPlan, *, dry_run: bool) -> None:
    if plan.is_empty:
        output.talk(
            f"nothing to do: {output.count(plan.unchanged, 'recording')}, {plan.bytes_before:,} bytes"
        )
        return
    verb = "would be written" if dry_run else "written"
    output.talk(
        f"{output.count(plan.rewritten, 'recording')} {verb} anew, {plan.unchanged} as before; "
        f"{output.count(plan.new_parts, 'part')} added, {len(plan.old_parts)} removed"
    )
    output.talk(f"the store: {plan.bytes_before:,} bytes before, {plan.bytes_after:,} bytes after")


def _as_json(plan: RepackPlan, *, is_whole: bool, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "form": "whole" if is_whole else "short",
        "rewritten": [item._asdict() for item in plan.rewritten],
        "unchanged": plan.unchanged,
        "new_parts": [row.path for row in plan.new_parts],
        "old_parts": [row.path for row in plan.old_parts],
        "bytes_before": plan.bytes_before,
        "bytes_after": plan.bytes_after,
    }
