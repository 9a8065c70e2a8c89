"""``cortex-replay index``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.abandoned import warn_of_unmarked
from cortex_replay.cli.options import DRIFT, command, json_option, settle, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.store import Store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.reindex import ReindexPlan, apply_reindex, plan_reindex

__all__ = ["index_command"]


@command(
    "index",
    epilog="""Examples:

  cortex-replay index                    adopt new files, follow moved ones, mend line ends
  cortex-replay index --check            in CI: is the index what it should be?
  cortex-replay index --accept-changed   also take answers that were changed by hand
  cortex-replay index --adopt-staged     also commit what a run that died had recorded

After a merge conflict in INDEX.toml, run `cortex-replay resolve`.

Exit status:
  0  the index fits the files
  1  the store could not be read or written
  2  wrong usage
  4  with --check: it does not, but the command without --check would make it fit
  5  something is left that needs a person: each is printed
""",
)
@store_option
@click.option(
    "--accept-changed", is_flag=True, help="List files whose bytes differ from the index as they are now."
)
@click.option("--drop-missing", is_flag=True, help="Drop rows whose file is gone.")
@click.option("--adopt-staged", is_flag=True, help="Commit what runs that died had staged.")
@click.option("--discard-staged", is_flag=True, help="Drop what runs that died had staged.")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; fail if something is to do.")
@click.option("--dry-run", is_flag=True, help="Write nothing; print what would be done.")
@json_option
@click.pass_context
def index_command(
    ctx: click.Context,
    store: Path | None,
    accept_changed: bool,
    drop_missing: bool,
    adopt_staged: bool,
    discard_staged: bool,
    only_check: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Rebuild INDEX.toml from the files, after showing what that changes.

    New files are listed. A file that was changed needs --accept-changed, a row whose file is gone
    --drop-missing: those are other answers, not other bookkeeping.
    """
    if adopt_staged and discard_staged:
        raise click.UsageError("--adopt-staged and --discard-staged exclude each other")
    root = store_root(ctx, store)
    source = DirectorySource(root)
    with progress_bar("reading") as progress:
        plan = plan_reindex(source, progress)
    # An index that says nothing is only replaced when somebody says so: it may still be mended by hand.
    writes = not (only_check or dry_run or (plan.unreadable and not accept_changed))
    left = bool(plan.refused or (plan.changed and not accept_changed) or (plan.missing and not drop_missing))
    status = FixtureIntegrityFailed.exit_code if left else 0
    if only_check and not left and not plan.is_current():
        status = DRIFT
    settle(ctx, status)
    with output.tolerate_broken_pipe():
        if as_json:
            output.print_json(_as_json(plan, written=writes))
        else:
            _print(plan, accept_changed=accept_changed, drop_missing=drop_missing)
    if writes:
        # Before anything is committed on top: a commit wants a sound index below it.
        apply_reindex(source, plan, accept_changed=accept_changed, drop_missing=drop_missing)
        if (adopt_staged or discard_staged) and not left:
            _settle_staged(root, adopt=adopt_staged)
    ctx.exit(status)


def _settle_staged(root: Path, *, adopt: bool) -> None:
    opened = Store.open(root, verify="on-read")
    count = opened.adopt_abandoned()
    warn_of_unmarked(opened.abandoned(), root)
    answers = output.count(count, "answer")
    if not adopt:
        opened.discard()
        output.talk(f"dropped {answers} of a run that died")
        return
    summary = opened.commit()
    dropped = f", {summary.dropped} of them dropped for what is recorded already" if summary.dropped else ""
    output.talk(f"committed {answers} of a run that died{dropped}")


def _print(plan: ReindexPlan, *, accept_changed: bool, drop_missing: bool) -> None:
    if plan.unreadable:
        output.talk(
            f"the index cannot be read ({output.escape(plan.unreadable)}): "
            "every file that it may have listed counts as changed"
        )
    for row in plan.adopted:
        output.echo(f"new       {output.escape(row.path)}")
    for before, moved in plan.moved:
        output.echo(f"moved     {output.escape(before)} -> {output.escape(moved.path)}")
    for path in plan.mended:
        output.echo(f"mended    {output.escape(path)} (line ends)")
    for _, after in plan.changed:
        note = "" if accept_changed else "  (--accept-changed takes it)"
        output.echo(f"changed   {output.escape(after.path)}{note}")
    for row in plan.missing:
        note = "" if drop_missing else "  (--drop-missing drops its row)"
        output.echo(f"missing   {output.escape(row.path)}{note}")
    output.print_findings(plan.refused)


def _as_json(plan: ReindexPlan, *, written: bool) -> dict[str, object]:
    return {
        "written": written,
        "current": plan.is_current(),
        "unreadable": plan.unreadable,
        "kept": len(plan.kept),
        "new": [row.path for row in plan.adopted],
        "moved": [{"from": before, "to": row.path} for before, row in plan.moved],
        "mended": list(plan.mended),
        "changed": [after.path for _, after in plan.changed],
        "missing": [row.path for row in plan.missing],
        "refused": [asdict(finding) for finding in plan.refused],
    }
