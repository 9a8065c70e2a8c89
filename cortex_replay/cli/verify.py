"""``cortex-replay verify``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import ExampleCommand, json_option, settle, store_option, the_store
from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.store.check import CheckReport, check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.staged import check_staged

__all__ = ["verify_command"]


@click.command(
    "verify",
    cls=ExampleCommand,
    epilog="""Examples:

  cortex-replay verify                    the store in this folder
  cortex-replay verify tests/llm --json   another one, for a program
  cortex-replay verify --staged           what git would commit (for a pre-commit hook)

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
@click.option("--staged", is_flag=True, help="Check what git has staged, and that it has every listed file.")
@json_option
@click.pass_context
def verify_command(
    ctx: click.Context,
    path: Path | None,
    store: Path | None,
    quick: bool,
    strict: bool,
    staged: bool,
    as_json: bool,
) -> None:
    """Check that a store is what its index says.

    PATH is short for --store PATH. Prints every finding, and nothing when all is well.
    """
    if staged and quick:
        raise click.UsageError("--staged and --quick exclude each other")
    root = the_store(ctx, path, store)
    if staged:
        report = check_staged(root)
    else:
        with output.progress_bar("verifying") as progress:
            report = check_store(DirectorySource(root), content=not quick, progress=progress)
    if strict:
        report.findings += [
            Finding("request-redacted", name, "its request cannot be checked: a secret was cut out of it")
            for name in report.redacted_requests
        ]
    status = 0 if report.is_trusted else FixtureIntegrityFailed.exit_code
    settle(ctx, status)
    if as_json:
        output.print_json(_as_json(report))
    else:
        _print(report)
    ctx.exit(status)


def _as_json(report: CheckReport) -> dict[str, object]:
    return {
        "ok": report.is_trusted,
        "layout": report.layout.value,
        "fixtures": len(report.index.fixtures),
        "exchanges": len(report.index.exchanges),
        "files_checked": report.files_checked,
        "bytes_checked": report.bytes_checked,
        "redacted_requests": report.redacted_requests,
        "findings": [asdict(finding) for finding in report.findings],
    }


def _print(report: CheckReport) -> None:
    output.print_findings(report.findings)
    if report.redacted_requests:
        many = output.counted(report.redacted_requests, "stored request")
        output.talk(f"{many} cannot be checked, because a secret was cut out (--strict refuses that)")
    if not report.is_trusted:
        output.talk(f"{output.counted(report.findings, 'finding')}; nothing from this store will be replayed")
    elif output.is_terminal(sys.stderr):
        output.talk(f"ok: {report.files_checked} files, {report.bytes_checked:,} bytes")
