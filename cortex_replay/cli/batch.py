"""``cortex-replay batch``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from cortex_replay.cli import options, output
from cortex_replay.cli.progress import call_progress
from cortex_replay.cli.runs import open_recording, warn_of_dropped
from cortex_replay.run import Run
from cortex_replay.run.batch import BatchReport, read_jobs, run_batch
from cortex_replay.store.writer import CommitSummary

__all__ = ["batch_command"]

_MOST_SHOWN: Final = 20
_INTERRUPTED: Final = 130


@options.command(
    "batch",
    epilog="""Examples:

  cortex-replay batch requests.jsonl --provider claude --jobs 8 --budget-calls 500
  cortex-replay batch requests.jsonl --requests-per-minute 50
  cortex-replay batch requests.jsonl --mode record     ask again what is recorded, too
  make-requests | cortex-replay batch - --json

A line is a request as JSON, with an optional provider:
  {"model": "m", "system": "", "messages": "Hi.", "max_tokens": 64, "provider": "ollama"}

Exit status:
  0  every request is answered and recorded
  1  a call failed, or the budget is spent
  2  wrong usage, or a line that is no request; nothing was asked
  5  the store is not what its index says
""",
)
@click.argument("file", type=options.InputFile())
@options.store_option
@options.adapter_options
@options.jobs_option
@options.mode_option
@options.record_failures_option
@options.json_option
@click.pass_context
def batch_command(
    ctx: click.Context,
    /,
    file: BinaryIO,
    store: Path | None,
    record_failures: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Record the answers to many requests.

    FILE holds one request a line, as JSON; - is standard input. All lines are read before the first is
    asked. A request that fails does not stop the others. Ctrl-C commits what was answered, and the same
    command goes on from there.
    """
    run = open_recording(
        options.store_root(ctx, store), flags, record_failures=record_failures, makes_store=True
    )
    report, summary, is_interrupted = asyncio.run(_record(run, file))
    status = _INTERRUPTED if is_interrupted else report.exit_code
    options.settle(ctx, status)
    if as_json:
        output.print_json(_as_json(run, report, summary.added))
    else:
        _print(run, report, len(summary.added), is_interrupted=is_interrupted)
        warn_of_dropped(summary)
    ctx.exit(status)


async def _record(run: Run, file: BinaryIO) -> tuple[BatchReport, CommitSummary, bool]:
    """Record every request of a file; what became of them, and whether it was interrupted.

    What was answered is committed in any case, also after Ctrl-C.
    """
    jobs = read_jobs(file, run.settings.timeout_ms)
    # A provider that does not exist ends it before the first call.
    recorders = {name: run.adapter(name) for name in {job.provider for job in jobs}}
    report = BatchReport(len(jobs))
    is_interrupted = False
    async with contextlib.AsyncExitStack() as stack:
        for recorder in recorders.values():
            await stack.enter_async_context(recorder)
        try:
            with call_progress(len(jobs), lambda: run.budget.tokens) as show:
                await run_batch(
                    report,
                    jobs,
                    recorders,
                    run.settings.jobs,
                    lambda now: show(now.done + len(now.failures) + now.unasked, len(now.failures)),
                )
        except asyncio.CancelledError:
            is_interrupted = True
        finally:
            summary = run.commit()
    return report, summary, is_interrupted


def _print(run: Run, report: BatchReport, added: int, *, is_interrupted: bool) -> None:
    for line, error in sorted(report.failures, key=lambda failure: failure[0])[:_MOST_SHOWN]:
        output.talk(f"line {line}: {output.escape(str(error))}")
    if len(report.failures) > _MOST_SHOWN:
        output.talk(f"and {len(report.failures) - _MOST_SHOWN} more failed")
    output.echo(
        f"{report.done} of {output.count(report.jobs, 'request')} answered, "
        f"{run.budget.calls} asked for, {run.budget.tokens:,} tokens, "
        + ", ".join([output.count(added, "new fixture"), *map(output.escape, run.ledger.cost_facts())])
    )
    if report.unasked:
        output.talk(f"the budget is spent: {output.count(report.unasked, 'request')} left")
    if is_interrupted:
        output.talk("interrupted; what was answered is committed, and the same command goes on from here")


def _as_json(run: Run, report: BatchReport, added: Sequence[str]) -> dict[str, object]:
    return {
        "requests": report.jobs,
        "answered": report.done,
        "calls": run.budget.calls,
        "tokens": run.budget.tokens,
        "cached_tokens": run.ledger.cached_tokens,
        "left": report.unasked,
        "added": list(added),
        "money": run.ledger.money(),
        "failures": [
            {"line": line, "error": type(error).__name__, "message": str(error)}
            for line, error in report.failures
        ],
    }
