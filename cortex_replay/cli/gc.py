"""``cortex-replay gc``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.config.ages import parse_age
from cortex_replay.sharing.garbage import GarbagePlan, bucket_time, known_digests, plan_garbage
from cortex_replay.sharing.shared_store import SharedStore

__all__ = ["gc_command"]


@command(
    "gc",
    epilog="""Examples:

  cortex-replay gc --remote                           the plan, for all branches and tags
  git fetch --all && cortex-replay gc --remote --apply
  cortex-replay gc --remote --ref main --ref v2 --older-than 60d

An object stays if any INDEX.toml of the repository names it, at any branch or tag that this clone
knows (those of its remotes, too), in the staging area or in the work tree; or if it is younger
than --older-than, by the bucket's own clock. What runs have published stays as long as they live.
Objects with other names stay. Without --apply nothing is deleted. Fetch first, and give each
repository a folder of its own in the bucket: what another repository names is not known here.

Exit status:
  0  done, or without --apply: this is what would be done
  1  there is no remote or no repository, this clone does not know all branches, or the bucket refuses
  2  wrong usage
  5  the store is not what its index says; nothing was deleted
""",
)
@store_option
@click.option("--remote", "is_remote", is_flag=True, help="Clean up the bucket; required.")
@click.option(
    "--ref",
    "references",
    multiple=True,
    metavar="REF",
    help="Keep what the index names at this commit; only these count then. Repeatable.",
)
@click.option(
    "--older-than", "age", default="14d", show_default=True, metavar="AGE", help="Delete no younger object."
)
@click.option("--apply", "is_applied", is_flag=True, help="Delete what the plan says.")
@json_option
@click.pass_context
def gc_command(
    ctx: click.Context,
    store: Path | None,
    is_remote: bool,
    references: tuple[str, ...],
    age: str,
    is_applied: bool,
    as_json: bool,
) -> None:
    """Delete objects of the remote that no commit needs: print the plan, then act."""
    if not is_remote:
        raise click.UsageError("say where: cortex-replay gc --remote")
    now = datetime.now(UTC)
    try:
        grace = parse_age(age)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--older-than") from None
    root = store_root(ctx, store)
    shared = SharedStore.open(root)
    named, commits = known_digests(root, references)
    bucket = shared.remote.bucket
    plan = plan_garbage(bucket, named, commits, now=bucket_time(bucket) if is_applied else now, grace=grace)
    if is_applied:
        plan.apply(bucket)
    if as_json:
        output.print_json(_as_json(plan, is_applied=is_applied))
        return
    for entry in plan.going:
        output.echo(f"delete  {output.escape(entry.name)}")
    verb = "deleted from" if is_applied else "would be deleted (--apply) from"
    going = output.count(plan.going, "object")
    output.talk(
        f"{going} ({plan.going_bytes:,} bytes) {verb} {output.escape(plan.url)}; "
        f"{plan.kept} are named at {output.count(plan.commits, 'commit')}, {plan.young} are young"
        + (f", {plan.unknown} are none of ours" if plan.unknown else "")
    )


def _as_json(plan: GarbagePlan, *, is_applied: bool) -> dict[str, object]:
    return {
        "applied": is_applied,
        "url": plan.url,
        "commits": plan.commits,
        "deleted": [{"name": entry.name, "size": entry.size} for entry in plan.going],
        "deleted_bytes": plan.going_bytes,
        "runs": plan.runs,
        "kept": plan.kept,
        "young": plan.young,
        "unknown": plan.unknown,
    }
