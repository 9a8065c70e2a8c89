"""``cortex-replay verify``."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from cortex_replay.cli import output
from cortex_replay.cli.abandoned import warn_of_unmarked
from cortex_replay.cli.ages import OF_SETTINGS, age_limit, ages_as_json, print_ages
from cortex_replay.cli.options import DRIFT, command, json_option, settle, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.cli.signatures import SignatureOptions, print_verdict, signature_options, verdict_as_json
from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.history.ages import Ages, judge_ages, recorded_time
from cortex_replay.sharing.objects import find_lacking
from cortex_replay.sharing.shared_store import SharedStore
from cortex_replay.store.check import CheckReport, check_store, forget
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Fixture
from cortex_replay.store.git.merge_driver import mend_driver
from cortex_replay.store.git.staging import check_staged
from cortex_replay.store.opening import is_about_index
from cortex_replay.store.review import Review
from cortex_replay.store.sides import CommitSide, SourceSide, review_sides
from cortex_replay.store.signing.judge import Verdict
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
  cortex-replay verify --remote           that the bucket has every file, without fetching any
  cortex-replay verify --max-age 90d      and that no recording is older
  cortex-replay verify --signers ~/.config/cortex-replay/signers   and who signed the index (docs/signing.md)

Exit status:
  0  every byte is what INDEX.toml vouches for
  1  the store could not be opened
  2  wrong usage
  4  with --max-age: a recording is older
  5  it is not, or with --signers: it is not signed, or older than what you have seen
""",
)
@click.argument("path", required=False, type=click.Path(path_type=Path))
@store_option
@click.option("--quick", is_flag=True, help="Check index, listing and hashes, but not what the files say.")
@click.option(
    "--strict", is_flag=True, help="Also refuse requests that cannot be checked (a secret was cut out)."
)
@click.option(
    "--base",
    metavar="REF",
    help="Also say what was added, changed and removed since this commit: question, model, what it replaces.",
)
@click.option(
    "--remote",
    "is_remote",
    is_flag=True,
    help="Check only that the remote has every listed file.",
)
@click.option("--staged", is_flag=True, help="Check what git has staged, and that it has every listed file.")
@click.option(
    "--max-age",
    is_flag=False,
    flag_value=OF_SETTINGS,
    metavar="[AGE]",
    help="Fail on recordings older than this (36h, 90d, 8w), or than the setting max_age.",
)
@signature_options
@json_option
@click.pass_context
def verify_command(
    ctx: click.Context,
    /,
    path: Path | None,
    store: Path | None,
    quick: bool,
    strict: bool,
    base: str | None,
    is_remote: bool,
    staged: bool,
    max_age: str | None,
    as_json: bool,
    **signed: Any,
) -> None:
    """Check that a store is what its index says.

    PATH is short for --store PATH. Prints every finding, and nothing when all is well. If the setting max_age
    is there, it warns of recordings that are older.
    """
    is_limited = max_age is not None
    wanted = SignatureOptions.of(**signed)
    _refuse_together(staged=staged, quick=quick, is_limited=is_limited)
    if is_remote and any((staged, quick, strict, base, is_limited, wanted)):
        raise click.UsageError("--remote looks at the bucket alone, and goes with no other check")
    root = store_root(ctx, path, store)
    if is_remote:
        _verify_remote(ctx, root, as_json=as_json)
        return
    source = DirectorySource(root)
    report, ages = _check(source, None if quick else age_limit(root, max_age), quick=quick, staged=staged)
    if strict:
        report.findings += [
            Finding("request-redacted", name, "its request cannot be checked: a secret was cut out of it")
            for name in report.redacted_requests
        ]
    verdict = wanted.judge(source, report, base, is_staged=staged) if wanted else Verdict([])
    is_replayed = report.is_trusted  # whoever signed it, or did not
    is_listed = not any(map(is_about_index, report.findings))  # else everything would seem to be gone
    report.findings += verdict.findings
    status = _status(report, ages if is_limited else None)
    settle(ctx, status)
    since = _review(root, base, report, source) if base and is_listed else None
    left = find_abandoned(source)
    if mended := mend_driver(root):
        output.talk(output.escape(mended))
    if as_json:
        output.print_json(
            _as_json(report, since, left) | {"ages": ages_as_json(ages)} | verdict_as_json(verdict)
        )
    else:
        if since:
            from cortex_replay.cli.review import print_review  # noqa: PLC0415 - most checks compare nothing

            print_review(since, str(base))
        _print(report, is_replayed=is_replayed)
        print_verdict(verdict)
        if ages is not None:
            print_ages(ages, fails=is_limited)
        _explain_state(report, source, left)
    if wanted and report.is_trusted and not staged:
        wanted.remember(verdict)
    ctx.exit(status)


def _refuse_together(*, staged: bool, quick: bool, is_limited: bool) -> None:
    if staged and quick:
        raise click.UsageError("--staged and --quick exclude each other")
    if quick and is_limited:
        raise click.UsageError("--quick does not read when a recording was made, and --max-age needs that")


def _check(
    source: DirectorySource, limit: timedelta | None, *, quick: bool, staged: bool
) -> tuple[CheckReport, Ages | None]:
    """Check a store; and where there is a limit, the age of its recordings."""
    times: dict[str, float | None] = {}

    def note_time(path: str, recording: Fixture | Exchange) -> None:
        times[path] = recorded_time(recording)

    note = forget if limit is None else note_time  # without one, no value is made of what files say
    if staged:
        report = check_staged(source.root, note)
    else:
        with progress_bar("verifying") as progress:
            report = check_store(source, content=not quick, progress=progress, note=note)
    if limit is None:
        return report, None
    listed = {row.path: times[row.path] for row in report.index.rows if row.path in times}
    return report, judge_ages(listed, limit, time.time())


def _status(report: CheckReport, ages: Ages | None) -> int:
    if not report.is_trusted:
        return FixtureIntegrityFailed.exit_code
    return DRIFT if ages is not None and ages.old else 0


def _verify_remote(ctx: click.Context, root: Path, *, as_json: bool) -> None:
    shared = SharedStore.open(root)
    findings = find_lacking(shared)
    status = FixtureIntegrityFailed.exit_code if findings else 0
    settle(ctx, status)
    if as_json:
        output.print_json(
            {
                "ok": not findings,
                "url": shared.remote.url,
                "files": len(shared.files),
                "findings": [asdict(finding) for finding in findings],
            }
        )
    else:
        output.print_findings(findings)
        url = output.escape(shared.remote.url)
        if findings:
            output.talk(f"{output.count(findings, 'object')} of {len(shared.files)} missing in {url}")
        elif output.is_terminal(sys.stderr):
            output.talk(f"ok: {url} has all {output.count(shared.files, 'object')}")
    ctx.exit(status)


def _review(root: Path, base: str, report: CheckReport, source: DirectorySource) -> Review:
    """What changed since a commit. What the working tree has counts only where the checked index vouches for
    it, staged or not."""
    with CommitSide(root, base) as then:
        return review_sides(then, SourceSide(report.index, source))


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


def _as_json(report: CheckReport, since: Review | None, left: Abandoned) -> dict[str, object]:
    compared: dict[str, object] = {}
    if since:
        from cortex_replay.cli.review import review_as_json  # noqa: PLC0415 - most checks compare nothing

        compared["since"] = review_as_json(since)
    return compared | {
        "ok": report.is_trusted,
        "layout": report.layout.value,
        "fixtures": len(report.index.fixtures),
        "exchanges": len(report.index.exchanges),
        "scoped": len(report.index.scoped),
        "parts": len(report.index.parts),
        "files_checked": report.files_checked,
        "bytes_checked": report.bytes_checked,
        "redacted_requests": report.redacted_requests,
        "open_journal": report.journal.is_open,
        "leftovers": asdict(left),
        "findings": [asdict(finding) for finding in report.findings],
    }


def _print(report: CheckReport, *, is_replayed: bool) -> None:
    output.print_findings(report.findings)
    if any(finding.code == "link-broken" for finding in report.findings):
        output.talk("after a merge, `cortex-replay resolve` brings back what requests continue or share")
    if report.redacted_requests:
        many = output.count(report.redacted_requests, "stored request")
        output.talk(f"{many} cannot be checked, because a secret was cut out (--strict refuses that)")
    if not report.is_trusted:
        nothing = (
            "the index is not one that you trust"
            if is_replayed
            else "nothing from this store will be replayed"
        )
        output.talk(f"{output.count(report.findings, 'finding')}; {nothing}")
    elif output.is_terminal(sys.stderr):
        parts = report.index.parts
        shared = f", {output.count(parts, 'part')} among them" if parts else ""
        output.talk(f"ok: {report.files_checked} files{shared}, {report.bytes_checked:,} bytes")
