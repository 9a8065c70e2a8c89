"""``cortex-replay diff``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from cortex_replay.behaviour.differences import Tier
from cortex_replay.behaviour.report import ChangeReport, report_changes
from cortex_replay.cli import output
from cortex_replay.cli.change_formats import FORMATS
from cortex_replay.cli.change_sides import Sides, review_between
from cortex_replay.cli.change_text import has_likely_leftovers, summary
from cortex_replay.cli.options import DRIFT, command, json_option, settle, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.disk import write_file
from cortex_replay.errors import Finding, FixtureIntegrityFailed

__all__ = ["diff_command"]

_TIERS: Final = {tier.word: tier for tier in (Tier.CONTRACT, Tier.BEHAVIOUR, Tier.WORDS)}


@command(
    "diff",
    epilog="""Examples:

  cortex-replay diff                               the working tree since the last commit
  cortex-replay diff main                          since main
  cortex-replay diff main feature                  one branch and another; main..feature is the same
  cortex-replay diff main...feature                since the branch left main
  cortex-replay diff main --all                    rewordings one by one, too
  cortex-replay diff main --json | jq '.items[] | select(.tier == "contract")'
  cortex-replay diff main --fail-on behaviour      for CI: fail if the program goes another way
  cortex-replay diff main --format markdown        for a comment on a pull request
  cortex-replay diff main --format html --output change.html   a page to look at, side by side

Exit status:
  0  the difference is shown
  1  the store could not be opened, there is no repository, or git knows no such commit
  2  wrong usage
  4  something changed that --fail-on names
  5  a side of the store is not what its index says
""",
)
@click.argument("base", default="HEAD", metavar="[BASE]")
@click.argument("head", required=False, metavar="[HEAD]")
@store_option
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    help="How it is written.  [default: text]",
)
@click.option(
    "--output",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write it to this file, and a summary to the terminal.",
)
@click.option(
    "--fail-on",
    type=click.Choice(list(_TIERS)),
    help="Fail with 4 if something changed in this tier or above: contract, behaviour, words.",
)
@click.option("--all", "everything", is_flag=True, help="List what changes no behaviour, too, one by one.")
@json_option
@click.pass_context
def diff_command(
    ctx: click.Context,
    base: str,
    head: str | None,
    store: Path | None,
    form: str | None,
    file: Path | None,
    fail_on: str | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Show what changed since a commit: behaviour first, rewordings in one line.

    BASE is the commit to compare with, by default the last one. HEAD is a second commit; without it, your
    working tree is compared.

    Each recording is judged by what its answers do. contract: code that worked may break, since an output
    no longer fits its schema, another tool is called, a required argument is missing, or the model refuses.
    behaviour: the program goes another way, with other arguments, values or turns. words: only the wording.
    """
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} exclude each other")
    root = store_root(ctx, store)
    chosen = FORMATS["json" if as_json else form or "text"]
    sides = Sides.of(root, base, head)
    with progress_bar("checking") as progress:
        review, findings, is_new = review_between(root, sides, progress)
    report = report_changes(review, sides.name, sides.head_name, output.redact)
    status = _status(report, findings, fail_on)
    settle(ctx, status)
    document = chosen.render(report, findings, everything)
    if file is None:
        chosen.show(document)
    else:
        write_file(file, click.unstyle(chosen.clean(document)).encode())
    if chosen.is_talkative or file is not None:
        _talk(report, findings, is_new)
    ctx.exit(status)


def _status(report: ChangeReport, findings: list[Finding], fail_on: str | None) -> int:
    if findings:
        return FixtureIntegrityFailed.exit_code
    return DRIFT if fail_on is not None and report.tier >= _TIERS[fail_on] else 0


def _talk(report: ChangeReport, findings: list[Finding], is_new: bool) -> None:
    output.print_findings(findings, err=True)
    if findings:
        output.talk(f"{output.count(findings, 'finding')}; what it concerns is not compared")
    if is_new:
        output.talk(f"there is no store at {output.escape(report.base)}, so everything is new")
    if report.items or not findings:
        output.talk(summary(report))
    if has_likely_leftovers(report):
        output.talk(
            "hint: nothing was removed. If the added calls take the place of others, remove those first: "
            "`cortex-replay prune --unused-from REPORT` (docs/review.md)"
        )
