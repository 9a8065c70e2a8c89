"""``cortex-replay refresh``."""

from __future__ import annotations

import asyncio
import difflib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from cortex_replay.canonical import compact
from cortex_replay.cli import options, output
from cortex_replay.cli.progress import call_progress
from cortex_replay.cli.runs import open_recording, overrides_in
from cortex_replay.cli.sampling import Sampling, sample_options
from cortex_replay.run import Run
from cortex_replay.run.refresh.asking import ask_all
from cortex_replay.run.refresh.items import Plan, Refresh
from cortex_replay.run.refresh.outcome import Outcome
from cortex_replay.run.refresh.planning import plan_refresh
from cortex_replay.run.refresh.writing import write
from cortex_replay.store import Answer
from cortex_replay.store.changes import essence_of_answer

__all__ = ["refresh_command"]

_MOST_NAMED: Final = 3
"""Of the recordings that cannot be asked for one reason; ``--json`` names all."""


@options.command(
    "refresh",
    epilog="""Examples:

  cortex-replay refresh --check                        has a model changed its mind? (exit 4)
  cortex-replay refresh --check --sample 10% --by use  only those that most tests use
  cortex-replay refresh --model 'claude-*' --jobs 8    ask again, and write what changed
  cortex-replay refresh --scope 'tests/test_chat.py::*'  also what these tests have of their own
  cortex-replay refresh --provider ollama --check --json | jq '.changed[].path'
  OPENAI_BASE_URL=http://127.0.0.1:8080/v1 cortex-replay refresh --check    another server

Exit status:
  0  asked again; what differs is written, or with --check nothing differs
  1  nothing could be asked; with --strict: not everything
  1  a call failed, the budget is spent, or an answer could not be written; the others are
  2  wrong usage
  4  with --check: an answer differs
  5  the store is not what its index says
""",
)
@options.store_option
@click.option("--model", "pattern", metavar="PATTERN", help="Only fixtures of these models: 'claude-*'.")
@click.option(
    "--scope", metavar="PATTERN", help="What these scopes (tests) recorded; by default what is shared."
)
@click.option("--check", is_flag=True, help="Only report, and write nothing.")
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
    sampling = Sampling(flags)
    run = open_recording(
        options.store_root(ctx, store),
        flags,
        record_failures=False,
        makes_store=False,
        servers=overrides_in(upstreams),
        is_check=check,
    )
    plan = plan_refresh(run, flags["provider"], pattern, flags["timeout_ms"], scope)
    choice = sampling.choose(run, plan)
    items = choice.items
    if not as_json:
        sampling.tell(choice)
    asyncio.run(_ask(run, items))
    if not as_json:
        with output.tolerate_broken_pipe():
            for item in items:
                if item.has_changed:
                    output.echo("\n".join(_difference(item, raw)), raw=raw)
    if not check:
        # Not before it was shown: what is staged, the next run would take over.
        write(run, items)
    outcome = Outcome(plan, choice, sampling.is_given)
    failed = [item.error.exit_code for item in outcome.failed if item.error is not None]
    is_short = not outcome.asked or (strict and bool(plan.skipped))
    status = max(failed) if failed else options.DRIFT if check and outcome.changed else int(is_short)
    options.settle(ctx, status)
    if as_json:
        spent = {"cached_tokens": run.ledger.cached_tokens, "money": run.ledger.money()}
        output.print_json(_as_json(outcome) | {"sample": sampling.to_dict(choice)} | spent)
    else:
        _print(run, outcome, is_written=not check)
    if not outcome.asked:
        output.talk(f"error: {_why_nothing(run, outcome, pattern)}")
    ctx.exit(status)


async def _ask(run: Run, items: list[Refresh]) -> None:
    with call_progress(len(items), lambda: run.budget.tokens) as show:
        await ask_all(run, items, show)


def _print(run: Run, outcome: Outcome, *, is_written: bool) -> None:
    for item in outcome.failed:
        output.talk(f"{output.escape(item.stored.path)}: {output.escape(str(item.error))}")
    _print_skipped(outcome.plan)
    verb = "replaced" if is_written else "differ"
    facts = [
        f"{len(outcome.asked)} asked again",
        f"{len(outcome.changed)} {verb}",
        f"{len(outcome.failed)} failed",
        f"{len(outcome.plan.skipped)} not asked",
    ]
    if outcome.beyond:
        facts.append(f"{len(outcome.beyond)} beyond the budget")
    output.echo(", ".join([*facts, *map(output.escape, run.ledger.cost_facts())]))


def _print_skipped(plan: Plan) -> None:
    """Each reason once, with some of the recordings that it is true of."""
    for reason, count in Counter(reason for _, reason in plan.skipped).items():
        paths = [stored.path for stored, other in plan.skipped if other == reason]
        named = ", ".join(map(output.escape, paths[:_MOST_NAMED]))
        more = f" and {count - _MOST_NAMED} more" if count > _MOST_NAMED else ""
        output.talk(f"not asked: {named}{more}: {output.escape(reason)}")
    if plan.exchanges:
        many = output.count(plan.exchanges, "exchange")
        output.talk(f"not asked: {many}: embeddings, lists of models and the like stay as they were recorded")
    if plan.tools:
        many = output.count(plan.tools, "call")
        output.talk(
            f"not asked: {many} to MCP servers: a tool may do something each time. To record them again, "
            "run what calls them in mode record"
        )


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


def _difference(item: Refresh, raw: bool) -> Iterator[str]:
    yield click.style(
        output.escape(f"{item.stored.model} {item.stored.prompt_hash[:16]}  {item.stored.path}"), bold=True
    )
    for number, (before, after) in enumerate(item.pairs, start=1):
        if essence_of_answer(before) == essence_of_answer(after):
            continue
        if len(item.pairs) > 1:
            yield f"answer {number}"
        lines = difflib.unified_diff(
            before.text.splitlines(), after.text.splitlines(), "recorded", "now", lineterm=""
        )
        yield from (output.quote(line, raw=raw) for line in lines)
        now = _facts(after)
        for name, fact in _facts(before).items():
            if fact != now[name]:
                yield f"{name}: {output.escape(fact)} -> {output.escape(now[name])}"


def _facts(answer: Answer) -> dict[str, str]:
    calls = [f"{call.name}({compact(call.arguments)})" for call in answer.tool_calls]
    usage = answer.usage
    return {
        "tool calls": ", ".join(calls) or "none",
        "finish reason": answer.finish_reason or "none",
        "usage": "unknown" if usage is None else f"{usage.prompt_tokens} + {usage.completion_tokens} tokens",
    }


def _json_of(answer: Answer) -> dict[str, Any]:
    return {
        "text": answer.text,
        "tool_calls": [call.to_dict() for call in answer.tool_calls],
        "finish_reason": answer.finish_reason,
        "usage": None if answer.usage is None else answer.usage.to_dict(),
    }


def _as_json(outcome: Outcome) -> dict[str, Any]:
    plan = outcome.plan
    return {
        "asked": len(outcome.asked),
        "changed": [
            {
                **item.stored._asdict(),
                "provider": item.target.provider,
                "before": [*map(_json_of, item.fixture.answers)],
                "after": [_json_of(answer) for answer, _ in item.after],
            }
            for item in outcome.changed
        ],
        "failed": [{**item.stored._asdict(), "message": str(item.error)} for item in outcome.failed],
        "not_asked": [{**stored._asdict(), "reason": reason} for stored, reason in plan.skipped],
        "beyond_budget": [item.stored._asdict() for item in outcome.beyond],
        "exchanges": plan.exchanges,
        "tools": plan.tools,
    }
