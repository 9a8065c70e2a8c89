"""``cortex-replay verify``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.abandoned import warn_of_unmarked
from cortex_replay.cli.options import command, json_option, settle, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.store.check import CheckReport, check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.git import index_at
from cortex_replay.store.git_staging import check_staged
from cortex_replay.store.index import Row
from cortex_replay.store.merge import IndexComparison, compare_indexes
from cortex_replay.store.merge_driver import mend_driver
from cortex_replay.store.staging import Abandoned, find_abandoned
from cortex_replay.store.state import state_problem

__all__ = ["verify_command"]


@command(
    "verify",
    epilog="""Examples:

  cortex-replay verify                    the store in this folder
  cortex-replay verify tests/llm --json   another one, for a program
  cortex-replay verify --staged           what git would commit (for a pre-commit hook)
  cortex-replay verify --base main        and what changed since main, for a review

Exit status:
  0  every byte is what INDEX.toml vouches for
  1  the store could not be opened
  2  wrong usage
  5  it is not; each finding is printed
""",
)
@click.argument("path", required=False, type=click.Path(path_type=Path))
@store_option
@click.option("--quick", is_flag=True, help="Check index, listing and hashes, but not what the files say.")
@click.option(
    "--strict", is_flag=True, help="Also refuse requests that cannot be checked (a secret was cut out)."
)
@click.option(
    "--base", metavar="REF", help="Also list what was added, changed and removed since this commit."
)
@click.option("--staged", is_flag=True, help="Check what git has staged, and that it has every listed file.")
@json_option
@click.pass_context
def verify_command(
    ctx: click.Context,
    path: Path | None,
    store: Path | None,
    quick: bool,
    strict: bool,
    base: str | None,
    staged: bool,
    as_json: bool,
) -> None:
    """Check that a store is what its index says.

    PATH is short for --store PATH. Prints every finding, and nothing when all is well.
    """
    if staged and quick:
        raise click.UsageError("--staged and --quick exclude each other")
    root = store_root(ctx, path, store)
    source = DirectorySource(root)
    if staged:
        report = check_staged(root)
    else:
        with progress_bar("verifying") as progress:
            report = check_store(source, content=not quick, progress=progress)
    if strict:
        report.findings += [
            Finding("request-redacted", name, "its request cannot be checked: a secret was cut out of it")
            for name in report.redacted_requests
        ]
    status = 0 if report.is_trusted else FixtureIntegrityFailed.exit_code
    settle(ctx, status)
    since = compare_indexes(index_at(root, base), report.index) if base else None
    left = find_abandoned(source)
    if mended := mend_driver(root):
        output.talk(output.escape(mended))
    if as_json:
        output.print_json(_as_json(report, since, left))
    else:
        if since:
            _print_comparison(since)
        _print(report)
        _explain_state(report, source, left)
    ctx.exit(status)


def _print_comparison(since: IndexComparison) -> None:
    for row in since.added:
        output.echo(f"added    {_name_of(row)}")
    for before, after in since.changed:
        output.echo(f"changed  {_name_of(after)} (was {output.escape(before.path)})")
    for row in since.removed:
        output.echo(f"removed  {_name_of(row)}")


def _name_of(row: Row) -> str:
    key = f"{row.model} {(row.prompt_hash or '')[:16]}  " if row.model is not None else ""
    return output.escape(f"{key}{row.path}")


def _explain_state(report: CheckReport, source: DirectorySource, left: Abandoned) -> None:
    """What a crash left is no finding, but somebody should know; what a stranger may have put there is for a
    person to look at."""
    if report.journal.is_open:
        output.talk("a commit is under way or was cut short; the next one brings it to its end")
    if left.answers:
        answers = output.count(left.answers, "recorded answer")
        output.talk(
            f"a run that died left {answers} in staging: "
            "`cortex-replay index --adopt-staged` commits, --discard-staged drops"
        )
    if problem := state_problem(source):
        output.talk(f"warning: nobody can record here: {output.escape(problem)}")
    else:
        warn_of_unmarked(left, source.root)


def _as_json(report: CheckReport, since: IndexComparison | None, left: Abandoned) -> dict[str, object]:
    compared: dict[str, object] = {}
    if since:
        compared["since"] = {
            "added": [row._asdict() for row in since.added],
            "changed": [{"before": one._asdict(), "after": two._asdict()} for one, two in since.changed],
            "removed": [row._asdict() for row in since.removed],
        }
    return compared | {
        "ok": report.is_trusted,
        "layout": report.layout.value,
        "fixtures": len(report.index.fixtures),
        "exchanges": len(report.index.exchanges),
        "files_checked": report.files_checked,
        "bytes_checked": report.bytes_checked,
        "redacted_requests": report.redacted_requests,
        "open_journal": report.journal.is_open,
        "leftovers": asdict(left),
        "findings": [asdict(finding) for finding in report.findings],
    }


def _print(report: CheckReport) -> None:
    output.print_findings(report.findings)
    if report.redacted_requests:
        many = output.count(report.redacted_requests, "stored request")
        output.talk(f"{many} cannot be checked, because a secret was cut out (--strict refuses that)")
    if not report.is_trusted:
        output.talk(f"{output.count(report.findings, 'finding')}; nothing from this store will be replayed")
    elif output.is_terminal(sys.stderr):
        output.talk(f"ok: {report.files_checked} files, {report.bytes_checked:,} bytes")
