"""``cortex-replay resolve``."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import command, json_option, settle, store_option, store_root
from cortex_replay.config.files import shown_path
from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.store.check import CheckReport, check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.index.index import ScopedRow, content_key
from cortex_replay.store.merge.resolve import Choice, Resolution, Side, apply_resolution, plan_resolution

__all__ = ["resolve_command"]


@command(
    "resolve",
    epilog="""Examples:

  cortex-replay resolve                     keep what both branches recorded
  cortex-replay resolve --theirs            where one question has two answers, take theirs
  cortex-replay resolve --take fixtures/m/3f2a91-0c.json     take this one of the two
  cortex-replay resolve --dry-run           only say what would be done

In a rebase, git calls the branch that you rebase onto "ours" and your own commits "theirs".

Exit status:
  0  resolved and verified, or there was no conflict
  1  the store could not be read or written; nothing was changed
  2  wrong usage
  5  a side of the conflict is no index, or the result does not verify: each finding is printed
""",
)
@store_option
@click.option("--ours", "side", flag_value="ours", help="Keep our answer where one question has two.")
@click.option("--theirs", "side", flag_value="theirs", help="Keep their answer where one question has two.")
@click.option("--take", multiple=True, metavar="PATH", help="Keep this one of two answers. Repeatable.")
@click.option("--dry-run", is_flag=True, help="Write nothing; print what would be done.")
@json_option
@click.pass_context
def resolve_command(
    ctx: click.Context,
    store: Path | None,
    side: Side | None,
    take: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Resolve a merge conflict in INDEX.toml: keep what both branches recorded.

    Where one question has two answers, it keeps ours and says how to take the other; until you run
    `git add`, you can run it again and choose differently. It adds nothing to git itself.
    """
    root = store_root(ctx, store)
    source = DirectorySource(root)
    plan = plan_resolution(source, side, take)
    if plan is not None and not dry_run:
        apply_resolution(source, plan)
    report = None if dry_run else check_store(source)
    status = FixtureIntegrityFailed.exit_code if report and report.findings else 0
    settle(ctx, status)
    if as_json:
        output.print_json(_as_json(plan, report))
    else:
        _print(plan, report, root)
    ctx.exit(status)


def _print(plan: Resolution | None, report: CheckReport | None, root: Path) -> None:
    if plan is None:
        output.talk("nothing to resolve: git knows of no conflict in INDEX.toml, or you have resolved it")
    else:
        for choice in plan.choices:
            _print_choice(choice, root)
        for path in plan.restored:
            output.echo(f"restored  {output.escape(path)}")
        for path in plan.removed:
            output.echo(f"removed   {output.escape(path)}")
    if report is None:
        return
    output.print_findings(report.findings)
    if report.findings:
        output.talk(f"{output.count(report.findings, 'finding')} left; mend them, then `git add` the store")
    elif plan is not None:
        rows = output.count(len(plan.index.rows) - len(plan.index.parts), "recording")
        add = output.escape(f"git add -A -- {shlex.quote(shown_path(root))}")
        output.talk(f"resolved: {rows}, verified. Next: {add}")


def _print_choice(choice: Choice, root: Path) -> None:
    row = choice.kept or choice.dropped
    model, prompt_hash = content_key(row)[:2] if row else (None, None)
    key = f"{model} {(prompt_hash or '')[:16]}" if model else "a call"
    key += f" of {row.scope}" if isinstance(row, ScopedRow) else ""
    kept = choice.kept.path if choice.kept else "its removal"
    output.echo(output.escape(f"kept      {kept}  ({key} has two answers)"))
    if choice.dropped:
        other = shlex.join(["--store", shown_path(root), "--take", choice.dropped.path])
        output.echo(output.escape(f"          for the other: cortex-replay resolve {other}"))


def _as_json(plan: Resolution | None, report: CheckReport | None) -> dict[str, object]:
    return {
        "conflict": plan is not None,
        "written": plan is not None and report is not None,
        "rows": len(plan.index.rows) if plan else None,
        "choices": [_choice_as_json(choice) for choice in plan.choices] if plan else [],
        "restored": list(plan.restored) if plan else [],
        "removed": plan.removed if plan else [],
        "ok": report.is_trusted if report else None,
        "findings": [asdict(finding) for finding in report.findings] if report else [],
    }


def _choice_as_json(choice: Choice) -> dict[str, object]:
    return {
        "kept": choice.kept._asdict() if choice.kept else None,
        "dropped": choice.dropped._asdict() if choice.dropped else None,
    }
