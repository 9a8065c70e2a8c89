"""``cortex-replay cache``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from cortex_replay.cli import output
from cortex_replay.cli.fixtures import end_without_fixture
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.config import load_settings
from cortex_replay.errors import LlmError
from cortex_replay.gc_pause import pause_gc
from cortex_replay.history.cache_report import CacheReport, CallReport, RunCosts, report_cache
from cortex_replay.history.calls import HistoryCall, read_calls
from cortex_replay.history.replay import TooManyBlocks
from cortex_replay.history.runs import ALL, LATEST, UnknownRun, choose_calls, runs_of
from cortex_replay.prompt.cache.calls import CacheOutcome, Provider
from cortex_replay.prompt.cache.costs import Cost
from cortex_replay.prompt.cache.simulator import SIMULATORS
from cortex_replay.store import Store

__all__ = ["cache_command"]

_ROWS_SHOWN: Final = 40
_LOSSES_SHOWN: Final = 10
_RUNS_SHOWN: Final = 5
_MODEL_SHOWN: Final = 28
_MOST_COMPLETED: Final = 1000
"""In a larger store, completing names would take too long."""


def _complete_run(ctx: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """The runs and the tests that begin with what was typed."""
    try:
        store = Store.open(store_root(ctx, ctx.params.get("store")), verify="on-read")
        calls = read_calls(store).calls if len(store) <= _MOST_COMPLETED else ()
    except (LlmError, click.UsageError):
        return []
    names = {run.id: output.count(run.calls, "call") for run in reversed(runs_of(calls))}
    names |= {LATEST: "the latest run", ALL: "every recorded call"}
    names |= {scope: "a test" for call in calls for scope in call.scopes}
    return [
        CompletionItem(output.escape(name), help=text)
        for name, text in names.items()
        if name.startswith(typed)
    ]


@command(
    "cache",
    epilog="""Examples:

  cortex-replay cache                               the latest run that recorded something
  cortex-replay cache 20261116T0630                 the run whose id begins so
  cortex-replay cache 'tests/test_agent.py::*'      what these tests recorded, in whatever run
  cortex-replay cache all --as anthropic            every call, by Anthropic's rules
  cortex-replay cache --json | jq .costs

Exit status:
  0  the report is printed
  1  the store could not be opened
  2  wrong usage, or more calls than can be replayed soon
  3  nothing is recorded, or no run and no test has this name
  5  the store is not what its index says
""",
)
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=_complete_run)
@store_option
@click.option(
    "--as",
    "provider",
    type=click.Choice(sorted(SIMULATORS)),
    help="Follow the rules of this provider's cache, whatever the recordings say.",
)
@click.option(
    "--calls",
    "most",
    type=click.IntRange(0),
    default=_ROWS_SHOWN,
    show_default=True,
    help="How many calls to show; of more, those that tell most.",
)
@json_option
@click.pass_context
@pause_gc()
def cache_command(
    ctx: click.Context,
    runs: tuple[str, ...],
    store: Path | None,
    provider: Provider | None,
    most: int,
    as_json: bool,
) -> None:
    """Show what a prompt cache did with recorded calls, and what would cost less.

    For each call you see what a simulated cache reads, writes and charges beside what the provider reported,
    and why the two may differ. At the end you see what was paid again, and what other markers would cost.

    RUN is the id of a recording run or the start of one, the name of a test (or a pattern), `latest`, `all`,
    or `before`: what was recorded before runs had ids. You can name several. By default it is the latest run.

    The calls go through a simulator of their provider's cache, in their order and at their times;
    nothing is sent. Costs are in money where the settings have prices for all models, else in input tokens.
    """
    with progress_bar("reading") as progress:
        recorded = read_calls(Store.open(store_root(ctx, store), verify="on-read"), progress)
    if not recorded.calls:
        why = "no recording holds its request (crtx-llm writes none)" if recorded.without_request else None
        end_without_fixture(ctx, why or "nothing is recorded here; `cortex-replay record` records calls")
    try:
        chosen = choose_calls(recorded.calls, runs)
    except UnknownRun as error:
        end_without_fixture(ctx, output.escape(str(error)))
    settings = load_settings(Path(), os.environ).settings
    try:
        report = report_cache(chosen, settings.prices, settings.currency, provider)
    except TooManyBlocks as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        every = [{"run": run.id, "calls": len(run.calls)} for run in runs_of(recorded.calls)]
        output.print_json({"runs": _names(chosen), "recorded_runs": every, **report.to_dict()})
        return
    output.echo_lines(_lines(report, most))
    _talk_of_others(recorded.calls, chosen, recorded.without_request)


def _names(calls: Sequence[HistoryCall]) -> list[str]:
    return list(dict.fromkeys(call.run for call in calls))


def _talk_of_others(
    every: Sequence[HistoryCall], chosen: Sequence[HistoryCall], without_request: int
) -> None:
    """For a person: what else there is."""
    if without_request:
        output.talk(f"{output.count(without_request, 'recording')} without a request left out")
    shown = {*_names(chosen)}
    others = [run for run in reversed(runs_of(every)) if run.id not in shown]
    if others and output.is_terminal(sys.stderr):
        named = ", ".join(f"{run.id} ({output.count(run.calls, 'call')})" for run in others[:_RUNS_SHOWN])
        more = f" and {len(others) - _RUNS_SHOWN} more" if others[_RUNS_SHOWN:] else ""
        output.talk(f"other runs: {named}{more}")


def _lines(report: CacheReport, most: int) -> Iterator[str]:
    calls = report.calls
    names = _names([call.recorded for call in calls])
    runs = f"run {names[0]}" if len(names) == 1 else f"{len(names)} runs"
    yield click.style(
        f"{runs}: {output.count(calls, 'call')} in {_time(calls[-1].seconds if calls else 0)}", bold=True
    )
    shown = _choose_rows(calls, most)
    if shown:
        yield ""
        yield from _call_lines(shown)
    if len(shown) < len(calls):
        rest = len(calls) - len(shown)
        yield f"{output.count(rest, 'call')} not shown here (--calls {len(calls)} shows all)"
    if report.differences:
        yield ""
        yield f"The provider's numbers differ for {output.count(report.differences, 'call')} (marked !)."
    yield from _loss_lines(report)
    if report.costs is not None:
        yield from _cost_lines(report.costs)
    for note in report.notes:
        yield ""
        yield output.escape(note)


def _choose_rows(calls: Sequence[CallReport], most: int) -> list[CallReport]:
    """All calls, or those that differ or lost most, in their order."""
    if len(calls) <= most:
        return list(calls)

    def rank(call: CallReport) -> tuple[bool, int, int]:
        lost = sum(loss.reason.tokens for loss in call.losses)
        return not call.differs, -lost, call.number

    return sorted(islice(sorted(calls, key=rank), most), key=lambda call: call.number)


def _call_lines(calls: Sequence[CallReport]) -> Iterator[str]:
    heads = ["call", "after", "prompt", "read", "written", "paid", "read", "written", "paid", ""]
    rows = [_cells(call) for call in calls]
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    left, right = sum(widths[:3]) + 4, sum(widths[3:6]) + 4
    yield click.style(f"{'':{left}}  {'simulated':>{right}}  {'reported':>{sum(widths[6:9]) + 4}}", dim=True)
    for row, call in zip([heads, *rows], [None, *calls], strict=True):
        line = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        if call is None:
            yield click.style(f"{line}  model", dim=True)
            continue
        model = output.escape(call.recorded.model)
        shown = model if len(model) <= _MODEL_SHOWN else f"{model[: _MODEL_SHOWN - 1]}…"
        yield f"{line.ljust(sum(widths) + 2 * len(widths) - 2)}  {shown}".rstrip()
        for text in (*map(str, call.losses), *call.explanations):
            yield f"{'':{widths[0]}}  {output.escape(text)}"


def _cells(call: CallReport) -> list[str]:
    about = "~" if call.is_estimate else ""
    return [
        str(call.number),
        _time(call.seconds),
        f"{'' if call.is_counted else '~'}{call.tokens:,}",
        *_outcome_cells(call.simulated, call.simulated_cost, about),
        *_outcome_cells(call.reported, call.reported_cost, ""),
        "!" if call.differs else "",
    ]


def _outcome_cells(outcome: CacheOutcome | None, cost: Cost | None, about: str) -> list[str]:
    if outcome is None:
        return ["-", "-", "-"]
    written = outcome.write_5m + outcome.write_1h
    return [f"{about}{outcome.read:,}", f"{about}{written:,}", "-" if cost is None else _amount(cost)]


def _amount(cost: Cost) -> str:
    """Without the unit, which the table's last lines have."""
    return f"{round(cost.value):,}" if cost.unit == "tokens" else f"{float(cost.value):,.4f}"


def _loss_lines(report: CacheReport) -> Iterator[str]:
    if not report.losses:
        return
    yield ""
    yield click.style("What was paid again, and why", bold=True)
    shown = report.losses[:_LOSSES_SHOWN]
    rows = [(f"{loss.calls:,}", f"{loss.tokens:,}", _amount(loss.cost)) for loss in shown]
    heads = ("calls", "tokens", "extra cost")
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    yield click.style(
        "  ".join(head.rjust(width) for head, width in zip(heads, widths, strict=True)), dim=True
    )
    for row, loss in zip(rows, shown, strict=True):
        cells = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        where = f"call {loss.first}" if loss.calls == 1 else f"from call {loss.first} on"
        yield f"{cells}  {output.escape(str(loss))} ({where})"
    if len(report.losses) > len(shown):
        yield f"and {len(report.losses) - len(shown)} more, which --json has"


def _cost_lines(costs: RunCosts) -> Iterator[str]:
    other = costs.alternatives
    rows = [("as the provider reported it", costs.reported), ("simulated", other.given.cost)]
    if costs.can_mark:
        rows += [
            ("with no marker", other.no_marker.cost),
            ("with an hour instead of five minutes", other.hour.cost),
            ("with the best placement of four markers", other.best.cost),
        ]
    yield ""
    unit = "input tokens" if other.given.cost.unit == "tokens" else other.given.cost.currency or "your prices"
    yield click.style(f"What {output.count(costs.calls, 'call')} cost, in {output.escape(unit)}", bold=True)
    width = max(len(_amount(cost)) for _, cost in rows)
    for i, (name, cost) in enumerate(rows):
        beside = "" if i < 2 else f"  {_percent(cost, other.given.cost)}"
        yield f"  {name:<40}{_amount(cost):>{width}}{beside}".rstrip()
    if costs.assumed:
        names = ", ".join(costs.assumed)
        yield f"  You set no price for {names}: it is the provider's factor times `input`."
    yield ""
    if costs.advice is None:
        yield "No single change to the prompts would make this run cheaper."
    else:
        yield click.style(output.escape(str(costs.advice)), bold=True)


def _percent(cost: Cost, given: Cost) -> str:
    if not given.value:
        return ""
    if cost.value == given.value:
        return "the same"
    return f"{100 * (float(cost.value / given.value) - 1):+.1f} %"


def _time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
