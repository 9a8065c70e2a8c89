"""``cortex-replay refresh``."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import Any, Final

import click

from cortex_replay.behaviour.differences import Tier
from cortex_replay.cli import options, output
from cortex_replay.cli.drift_page import write_drift_page
from cortex_replay.cli.drift_text import print_drift, print_end, summarise_drift, tier_counts
from cortex_replay.cli.progress import call_progress
from cortex_replay.cli.questions import question_of
from cortex_replay.cli.runs import open_recording, overrides_in
from cortex_replay.cli.sampling import Sampling, sample_options
from cortex_replay.config.files import shown_path
from cortex_replay.redact.process import process_redactor
from cortex_replay.run import Run
from cortex_replay.run.refresh.asking import Samples, ask_all
from cortex_replay.run.refresh.items import Refresh
from cortex_replay.run.refresh.outcome import Outcome
from cortex_replay.run.refresh.planning import plan_refresh
from cortex_replay.run.refresh.writing import write
from cortex_replay.store import Store
from cortex_replay.store.paths import INDEX_NAME, SHARDS_FOLDER
from cortex_replay.view.documents.cutter import Cutter
from cortex_replay.view.documents.drift import drift_document

__all__ = ["refresh_command"]

_TIERS: Final = {tier.word: tier for tier in (Tier.CONTRACT, Tier.BEHAVIOUR, Tier.WORDS)}
_MOST_SAMPLES: Final = 100


@options.command(
    "refresh",
    epilog="""Examples:

  cortex-replay refresh --check                        does a model do something else now? (exit 4)
  cortex-replay refresh --check --sample 10% --by use  only those that most tests use
  cortex-replay refresh --check --write --page drift.html   and record what it does now
  cortex-replay refresh --model 'claude-*' --jobs 8    ask again, and write what changed
  cortex-replay refresh --scope 'tests/test_chat.py::*'  also what these tests have of their own
  cortex-replay refresh --provider ollama --check --json | jq '.changed[].path'
  OPENAI_BASE_URL=http://127.0.0.1:8080/v1 cortex-replay refresh --check    another server

Differences have tiers: contract (a schema, a tool, a refusal, a finish reason), behaviour (arguments,
order, values) and words. A question whose answer differs in more than words is asked up to 5 times in
all, at temperature 0 twice: what varies, or varied when it was recorded, is no drift.

Exit status:
  0  asked again; what differs is written, or with --check nothing has drifted
  1  nothing could be asked; with --strict: not everything
  1  a call failed, the budget is spent, or an answer could not be written; the others are
  2  wrong usage
  4  with --check: a contract or a behaviour has drifted, or what --fail-on says; also if a call failed
  5  the store is not what its index says
""",
)
@options.store_option
@click.option("--model", "pattern", metavar="PATTERN", help="Only fixtures of these models: 'claude-*'.")
@click.option(
    "--scope", metavar="PATTERN", help="What these scopes (tests) recorded; by default what is shared."
)
@click.option("--check", is_flag=True, help="Judge what differs, fail if it matters, and write nothing.")
@click.option(
    "--fail-on",
    type=click.Choice([*_TIERS]),
    help="With --check: fail from this tier on.  [default: behaviour]",
)
@click.option(
    "--samples",
    type=click.IntRange(1, _MOST_SAMPLES),
    help="With --check: ask each question this many times.  [default: once, and again if it differs]",
)
@click.option("--write", "is_written", is_flag=True, help="With --check: record the answers that drifted.")
@click.option("--words", is_flag=True, help="With --check: show rewordings; with --write, record them.")
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write what differs as a page to look at.",
)
@click.option("--strict", is_flag=True, help="Fail if a recording could not be asked.")
@sample_options
@options.adapter_options
@click.option(
    "--upstream", "upstreams", multiple=True, metavar="NAME=URL", help="A provider's server. Repeatable."
)
@options.jobs_option
@options.raw_option
@options.json_option
@click.pass_context
def refresh_command(
    ctx: click.Context,
    /,
    store: Path | None,
    pattern: str | None,
    scope: str | None,
    check: bool,
    fail_on: str | None,
    samples: int | None,
    is_written: bool,
    words: bool,
    page: Path | None,
    strict: bool,
    upstreams: tuple[str, ...],
    raw: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Ask again what is recorded, show what changed, and write it.

    Each recording is asked of the provider that answered it, with your key, unless --provider names another.
    OPENAI_BASE_URL, ANTHROPIC_BASE_URL and OLLAMA_HOST hold as they do for your SDKs. A recording that cannot
    be asked again is listed with the reason. It is replaced only if all of its answers came.
    """
    _check_usage(ctx)
    sampling = Sampling(flags)
    run = open_recording(
        options.store_root(ctx, store),
        flags,
        record_failures=False,
        makes_store=False,
        servers=overrides_in(upstreams),
        is_check=check,
    )
    keeps = Tier.SAME if not check else None if not is_written else Tier.WORDS if words else Tier.BEHAVIOUR
    plan = plan_refresh(run, flags["provider"], pattern, flags["timeout_ms"], scope)
    outcome = Outcome(plan, sampling.choose(run, plan), sampling.is_given, check)
    if not as_json:
        sampling.tell(outcome.choice)
    asyncio.run(_ask(run, outcome.choice.items, _samples(samples, keeps, is_check=check)))
    least = _TIERS[fail_on or Tier.BEHAVIOUR.word]
    if not as_json:
        with output.tolerate_broken_pipe():
            print_drift(outcome, words=words or not check or least is Tier.WORDS, raw=raw)
    if keeps is not None:
        # Not before it was shown: what is staged, the next run would take over.
        write(run, outcome.choice.items, keeps)
    status = _status(outcome, least if check else None, strict=strict)
    options.settle(ctx, status)
    summarise_drift(outcome, run.ledger, least=least)
    cut = Cutter(process_redactor())
    document = drift_document(outcome, sampling.to_dict(outcome.choice), run.ledger, question_of, cut)
    if page is not None and not write_drift_page(page, document):
        status = status or 1
    if as_json:
        output.print_json(document)
    else:
        print_end(outcome, run.ledger, is_check=check)
        if check and outcome.written:
            _tell_written(outcome, run.store)
    if not outcome.asked:
        output.talk(f"error: {_why_nothing(run, outcome, pattern)}")
    ctx.exit(status)


def _check_usage(ctx: click.Context) -> None:
    """Refuse options that would do nothing, and a page that could not be written when all is paid for."""
    given = ctx.params
    needs_check = {
        "--fail-on": "fail_on",
        "--samples": "samples",
        "--write": "is_written",
        "--words": "words",
    }
    if not given.get("check"):
        for option, name in needs_check.items():
            if given.get(name):
                raise click.UsageError(f"{option} goes with --check; without it, every new answer is written")
    page = given.get("page")
    if page is not None and not page.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(page.parent)!r}", param_hint="--page")


def _samples(given: int | None, keeps: Tier | None, *, is_check: bool) -> Samples:
    if not is_check:
        return Samples(keeps=keeps)
    return Samples(given or 1, given, keeps)


async def _ask(run: Run, items: list[Refresh], samples: Samples) -> None:
    with call_progress(len(items), lambda: run.budget.tokens) as show:
        await ask_all(run, items, samples, show)


def _status(outcome: Outcome, least: Tier | None, *, strict: bool) -> int:
    """What it all comes to. Drift that was seen counts more than a call that failed.

    Args:
        outcome: What was asked.
        least: From which tier on a check fails; ``None`` for no check.
        strict: Whether everything must have been asked.
    """
    if least is not None and outcome.drifted(least):
        return options.DRIFT
    errors = (item.error or item.refusal for item in outcome.failed)
    failed = [error.exit_code for error in errors if error is not None]
    is_short = not outcome.asked or (strict and bool(outcome.plan.skipped))
    return max(failed, default=int(is_short))


def _tell_written(outcome: Outcome, store: Store) -> None:
    """Say what to do with a working tree that holds the answers of today."""
    written = outcome.written
    message = f"Record {output.count(written, 'answer')} anew: {', '.join(tier_counts(written))}"
    paths = [path for item in written for path in (item.stored.path, item.written_to or "")]
    names = {
        INDEX_NAME,
        *([SHARDS_FOLDER] if store.is_sharded else []),
        *(path.split("/")[0] for path in paths),
    }
    add = shlex.join(["git", "add", "--", *(shown_path(store.root / name) for name in sorted(names))])
    commit = shlex.join(["git", "commit", "-m", message])
    output.echo(f"{output.count(written, 'recording')} written; cortex-replay diff shows them. To keep them:")
    output.echo(f"  {output.escape(add)} && {output.escape(commit)}")


def _why_nothing(run: Run, outcome: Outcome, pattern: str | None) -> str:
    if outcome.beyond:
        return "the budget is too small for a single recording; nothing was checked"
    plan = outcome.plan
    if plan.skipped:
        return f"none of {output.count(plan.skipped, 'recording')} could be asked again; nothing was checked"
    models = sorted({stored.model for stored in run.store.list()})
    if pattern is None or not models:
        return "there is no recording of a model's answer here; nothing was checked"
    return (
        f"no recording is of a model {output.escape(pattern)!r}; there are {output.escape(', '.join(models))}"
    )
