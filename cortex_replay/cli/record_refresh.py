"""``cortex-replay record --refresh``."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import click

from cortex_replay.adapters import LlmAdapter
from cortex_replay.canonical import JsonValue, compact
from cortex_replay.cli import output
from cortex_replay.cli.options import settle
from cortex_replay.cli.recording import Session
from cortex_replay.engine.fixtures import FixtureMaker
from cortex_replay.engine.redaction import redacted_answer
from cortex_replay.engine.tape import Tape, answer_from
from cortex_replay.errors import LlmError
from cortex_replay.redact.redactor import Hit
from cortex_replay.store import Answer, Fixture
from cortex_replay.store.changes import essence_of_answer
from cortex_replay.store.store import StoredFixture
from cortex_replay.types import LlmRequest

__all__ = ["refresh"]

_DRIFT: Final = 4
_ONE_SERVER: Final = ("claude", "ollama", "scripted", "echo")
"""Adapters whose name is that of the one provider they ask unless told otherwise."""


class _Job(NamedTuple):
    stored: StoredFixture
    fixture: Fixture
    provider: str


class _Left(NamedTuple):
    stored: StoredFixture
    reason: str


@dataclass
class _Refreshed:
    """One fixture that was asked again."""

    stored: StoredFixture
    fixture: Fixture
    origin: Mapping[str, JsonValue]
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


async def refresh(
    ctx: click.Context,
    session: Session,
    provider: str | None,
    model: str | None,
    *,
    check: bool,
    as_json: bool,
    raw: bool,
) -> int:
    """Ask again what is recorded; gives the exit status.

    Nothing is staged before it was shown: what is staged, the next run would take over.
    """
    todo, left = _sorted_out(session, provider, model)
    done = await _asked_again(session, todo)
    failed = [item.error.exit_code for item in done if item.error is not None]
    has_drifted = check and any(item.has_changed for item in done)
    status = max(failed) if failed else _DRIFT if has_drifted else 0
    settle(ctx, status)
    with output.even_if_nobody_reads():
        if as_json:
            output.print_json(_as_json(done, left))
        else:
            _print(done, left, raw=raw, is_written=not check)
    if not check:
        _write(session, done)
    return status


def _write(session: Session, done: list[_Refreshed]) -> None:
    """Put the new answers in place of the recorded ones, where all of a fixture came and one differs."""
    for item in done:
        if item.has_changed:
            maker = FixtureMaker(session.store, session.redactor, item.origin, record_failures=False)
            answers = [replace(answer, meta=maker.meta(hits)) for answer, hits in item.after]
            maker.stage_answers(item.fixture.key, item.fixture.request, answers, overwrite=True)
    session.store.commit()


def _sorted_out(session: Session, provider: str | None, model: str | None) -> tuple[list[_Job], list[_Left]]:
    """The fixtures that can be asked again, and those that cannot, with the reason."""
    todo: list[_Job] = []
    left: list[_Left] = []
    for stored in session.store.list():
        if model is None or fnmatchcase(stored.model, model):
            fixture = session.store.get(stored.model, stored.prompt_hash)
            name = provider or _provider_of(session, fixture)
            reason = _why_not(fixture, name)
            if reason is None:
                todo.append(_Job(stored, fixture, name))
            else:
                left.append(_Left(stored, reason))
    return todo, left


def _print(done: list[_Refreshed], left: list[_Left], *, raw: bool, is_written: bool) -> None:
    changed = [item for item in done if item.has_changed]
    failed = [item for item in done if item.error is not None]
    for item in changed:
        output.echo("\n".join(_difference(item, raw)), raw=raw)
    for item in failed:
        output.talk(f"{output.escaped(item.stored.path)}: {output.escaped(str(item.error))}")
    for stored, reason in left:
        output.talk(f"{output.escaped(stored.path)}: not asked: {reason}")
    verb = "replaced" if is_written else "differ"
    counts = f"{len(done)} asked again, {len(changed)} {verb}, {len(failed)} failed"
    output.echo(f"{counts}, {len(left)} not asked")


def _why_not(fixture: Fixture, provider: str) -> str | None:
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


def _provider_of(session: Session, fixture: Fixture) -> str:
    """Who answered, where the recording says so and there is such a provider; else nobody.

    Many servers speak OpenAI's API, so that a recording that only says this may come from any of them.
    """
    meta = fixture.meta or {}
    name = meta.get("provider")
    if isinstance(name, str) and name in session.settings.providers:
        return name
    adapter = str(meta.get("adapter"))
    return adapter if adapter in _ONE_SERVER else ""


async def _asked_again(session: Session, todo: list[_Job]) -> list[_Refreshed]:
    places = asyncio.Semaphore(session.settings.jobs)
    async with contextlib.AsyncExitStack() as stack:
        providers = {
            name: await stack.enter_async_context(session.provider(name))
            for name in {job.provider for job in todo}
        }

        async def one(job: _Job) -> _Refreshed:
            origin: dict[str, JsonValue] = {
                "adapter": providers[job.provider].adapter_id,
                "provider": job.provider,
            }
            item = _Refreshed(job.stored, job.fixture, origin)
            async with places:
                try:
                    for before in job.fixture.answers:
                        answer = await _asked(session, providers[job.provider], job.fixture, before)
                        item.after.append(redacted_answer(answer, session.redactor))
                except LlmError as error:
                    item.error = error
            return item

        return list(await asyncio.gather(*map(one, todo)))


async def _asked(session: Session, llm: LlmAdapter, fixture: Fixture, before: Answer) -> Answer:
    """The answer of today, streamed if the recorded one was."""
    asked = fixture.request or LlmRequest(fixture.key.model)
    request = replace(asked, timeout_ms=session.settings.timeout_ms)
    if not before.stream:
        return answer_from(await llm.complete(request), request.model)
    tape = Tape(request.model)
    async for chunk in llm.stream(request):
        tape.add(chunk)
    return tape.answer()


def _difference(item: _Refreshed, raw: bool) -> Iterator[str]:
    yield click.style(
        output.escaped(f"{item.stored.model} {item.stored.prompt_hash[:16]}  {item.stored.path}"), bold=True
    )
    for number, (before, after) in enumerate(item.pairs, start=1):
        if essence_of_answer(before) == essence_of_answer(after):
            continue
        if len(item.pairs) > 1:
            yield f"answer {number}"
        lines = difflib.unified_diff(
            before.text.splitlines(), after.text.splitlines(), "recorded", "now", lineterm=""
        )
        yield from (output.quoted(line, raw=raw) for line in lines)
        for name, one, other in _facts(before, after):
            if one != other:
                yield f"{name}: {output.escaped(one)} -> {output.escaped(other)}"


def _facts(before: Answer, after: Answer) -> Iterator[tuple[str, str, str]]:
    def calls(answer: Answer) -> str:
        return ", ".join(f"{call.name}({compact(call.arguments)})" for call in answer.tool_calls) or "none"

    def usage(answer: Answer) -> str:
        if answer.usage is None:
            return "unknown"
        return f"{answer.usage.prompt_tokens} + {answer.usage.completion_tokens} tokens"

    yield "tool calls", calls(before), calls(after)
    yield "finish reason", before.finish_reason or "none", after.finish_reason or "none"
    yield "usage", usage(before), usage(after)


def _as_json(done: list[_Refreshed], left: list[_Left]) -> dict[str, Any]:
    def answers(given: tuple[Answer, ...] | list[Answer]) -> list[dict[str, Any]]:
        return [
            {
                "text": answer.text,
                "tool_calls": [call.to_dict() for call in answer.tool_calls],
                "finish_reason": answer.finish_reason,
                "usage": None if answer.usage is None else answer.usage.to_dict(),
            }
            for answer in given
        ]

    return {
        "asked": len(done),
        "changed": [
            {
                **item.stored._asdict(),
                "before": answers(item.fixture.answers),
                "after": answers([answer for answer, _ in item.after]),
            }
            for item in done
            if item.has_changed
        ],
        "failed": [{**i.stored._asdict(), "message": str(i.error)} for i in done if i.error is not None],
        "not_asked": [{**stored._asdict(), "reason": reason} for stored, reason in left],
    }
