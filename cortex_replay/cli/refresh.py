"""``cortex-replay refresh``."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import click

from cortex_replay.adapters import LlmAdapter
from cortex_replay.canonical import JsonValue, compact
from cortex_replay.cli import options, output
from cortex_replay.cli.progress import call_progress
from cortex_replay.cli.runs import open_recording
from cortex_replay.engine.fixtures import FixtureMaker, meta_of
from cortex_replay.engine.redaction import redact_answer
from cortex_replay.engine.tape import Tape, answer_from
from cortex_replay.errors import LlmError, RecordingRefused
from cortex_replay.modes import Mode
from cortex_replay.redact.redactor import Hit
from cortex_replay.run import Run
from cortex_replay.store import Answer, Fixture
from cortex_replay.store.changes import essence_of_answer
from cortex_replay.store.store import StoredFixture
from cortex_replay.types import LlmRequest

__all__ = ["refresh_command"]

_ONE_SERVER: Final = ("claude", "ollama", "scripted", "echo")
"""Adapters whose name is that of the one provider they ask unless told otherwise."""
_Skip = tuple[StoredFixture, str]


@options.command(
    "refresh",
    epilog="""Examples:

  cortex-replay refresh --check                        has a model changed its mind? (exit 4)
  cortex-replay refresh --model 'claude-*' --jobs 8    ask again, and write what changed
  cortex-replay refresh --provider ollama --check --json | jq '.changed[].path'

Exit status:
  0  asked again; what differs is written, or with --check nothing differs
  1  a call failed, the budget is spent, or an answer could not be written; the others are
  2  wrong usage
  4  with --check: an answer differs
  5  the store is not what its index says
""",
)
@options.store_option
@click.option("--model", "pattern", metavar="PATTERN", help="Only fixtures of these models: 'claude-*'.")
@click.option("--check", is_flag=True, help="Only report, and write nothing.")
@options.adapter_options
@options.jobs_option
@options.raw_option
@options.json_option
@click.pass_context
def refresh_command(
    ctx: click.Context,
    /,
    store: Path | None,
    pattern: str | None,
    check: bool,
    raw: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Ask again what is recorded, show what changed, and write it.

    Each fixture is asked of the provider that answered it, unless --provider names one. Fixtures that cannot
    be asked again are listed with the reason. A fixture is replaced only if all of its answers came.
    """
    run = open_recording(options.store_root(ctx, store), flags, record_failures=False, makes_store=False)
    items, skipped = _plan(run, flags["provider"], "*" if pattern is None else pattern)
    asyncio.run(_ask_all(run, items))
    if not as_json:
        with output.tolerate_broken_pipe():
            for item in items:
                if item.has_changed:
                    output.echo("\n".join(_difference(item, raw)), raw=raw)
    if not check:
        # Not before it was shown: what is staged, the next run would take over.
        _write(run, items)
    failed = [item.error.exit_code for item in items if item.error is not None]
    has_drifted = check and any(item.has_changed for item in items)
    status = max(failed) if failed else options.DRIFT if has_drifted else 0
    options.settle(ctx, status)
    if as_json:
        output.print_json(_as_json(items, skipped))
    else:
        _print(items, skipped, is_written=not check)
    ctx.exit(status)


@dataclass
class _Refresh:
    """One fixture that is asked again, and what became of it."""

    stored: StoredFixture
    fixture: Fixture
    provider: str
    adapter_id: str = ""
    after: list[tuple[Answer, list[Hit]]] = field(default_factory=list)
    """The answers of today, redacted as those that are recorded are, and what was cut out of them."""
    error: LlmError | None = None

    @property
    def pairs(self) -> list[tuple[Answer, Answer]]:
        return list(zip(self.fixture.answers, (answer for answer, _ in self.after), strict=False))

    @property
    def has_changed(self) -> bool:
        return self.error is None and any(
            essence_of_answer(before) != essence_of_answer(after) for before, after in self.pairs
        )


def _plan(run: Run, provider: str | None, pattern: str) -> tuple[list[_Refresh], list[_Skip]]:
    """The fixtures that can be asked again, and those that cannot, with the reason."""
    items: list[_Refresh] = []
    skipped: list[_Skip] = []
    for stored in run.store.list():
        if fnmatchcase(stored.model, pattern):
            fixture = run.store.get(stored.model, stored.prompt_hash)
            name = provider or _provider_of(run, fixture)
            if reason := _reason_to_skip(fixture, name):
                skipped.append((stored, reason))
            else:
                items.append(_Refresh(stored, fixture, name))
    return items, skipped


def _reason_to_skip(fixture: Fixture, provider: str) -> str | None:
    """Why a fixture cannot be asked again, or ``None``."""
    if fixture.request is None:
        return "it does not hold its request"
    if fixture.is_request_redacted:
        return "a secret was cut out of its request"
    if (fixture.meta or {}).get("normalisers"):
        return "its request holds placeholders"
    if '"blake3":' in compact(fixture.request.to_dict()["messages"]):
        return "its request holds only the hash of some data"
    return None if provider else "it does not say who answered; name one with --provider"


def _provider_of(run: Run, fixture: Fixture) -> str:
    """Who answered, where the recording says so and there is such a provider; else nobody.

    Many servers speak OpenAI's API, so that a recording that only says this may come from any of them.
    """
    meta = fixture.meta or {}
    name = meta.get("provider")
    if isinstance(name, str) and name in run.settings.providers:
        return name
    adapter = str(meta.get("adapter"))
    return adapter if adapter in _ONE_SERVER else ""


async def _ask_all(run: Run, items: list[_Refresh]) -> None:
    places = asyncio.Semaphore(run.settings.jobs)
    done = failed = 0
    async with contextlib.AsyncExitStack() as stack:
        providers = {
            name: await stack.enter_async_context(run.adapter(name, run.open_scope(mode=Mode.LIVE)))
            for name in {item.provider for item in items}
        }
        show = stack.enter_context(call_progress(len(items), lambda: run.budget.tokens))

        async def ask(item: _Refresh) -> None:
            nonlocal done, failed
            llm = providers[item.provider]
            item.adapter_id = llm.adapter_id
            async with places:
                try:
                    for before in item.fixture.answers:
                        answer = await _ask(run, llm, item.fixture, before)
                        item.after.append(redact_answer(answer, run.redactor))
                except LlmError as error:
                    item.error = error
                    failed += 1
            done += 1
            show(done, failed)

        await asyncio.gather(*map(ask, items))


async def _ask(run: Run, llm: LlmAdapter, fixture: Fixture, before: Answer) -> Answer:
    """The answer of today, streamed if the recorded one was."""
    request = fixture.request or LlmRequest(fixture.key.model)
    request = replace(request, timeout_ms=run.settings.timeout_ms)
    if not before.stream:
        return answer_from(await llm.complete(request), request.model)
    tape = Tape(request.model)
    async for chunk in llm.stream(request):
        tape.add(chunk)
    return tape.answer()


def _write(run: Run, items: list[_Refresh]) -> None:
    """Put the new answers in place of the recorded ones, where all of a fixture came and one differs.

    One that is refused has failed, and does not keep the others from being written.
    """
    for item in items:
        if item.has_changed:
            origin: dict[str, JsonValue] = {"adapter": item.adapter_id, "provider": item.provider}
            maker = FixtureMaker(run.store, run.redactor)
            answers = [replace(answer, meta=meta_of(origin, hits)) for answer, hits in item.after]
            try:
                maker.stage_answers(item.fixture.key, item.fixture.request, answers, overwrite=True)
            except RecordingRefused as error:
                item.error = error
    run.commit()


def _print(items: list[_Refresh], skipped: list[_Skip], *, is_written: bool) -> None:
    failed = [item for item in items if item.error is not None]
    for item in failed:
        output.talk(f"{output.escape(item.stored.path)}: {output.escape(str(item.error))}")
    for stored, reason in skipped:
        output.talk(f"{output.escape(stored.path)}: not asked: {reason}")
    changed = sum(item.has_changed for item in items)
    verb = "replaced" if is_written else "differ"
    counts = f"{len(items)} asked again, {changed} {verb}, {len(failed)} failed"
    output.echo(f"{counts}, {len(skipped)} not asked")


def _difference(item: _Refresh, raw: bool) -> Iterator[str]:
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


def _as_json(items: list[_Refresh], skipped: list[_Skip]) -> dict[str, Any]:
    return {
        "asked": len(items),
        "changed": [
            {
                **item.stored._asdict(),
                "before": [*map(_json_of, item.fixture.answers)],
                "after": [_json_of(answer) for answer, _ in item.after],
            }
            for item in items
            if item.has_changed
        ],
        "failed": [{**i.stored._asdict(), "message": str(i.error)} for i in items if i.error is not None],
        "not_asked": [{**stored._asdict(), "reason": reason} for stored, reason in skipped],
    }
