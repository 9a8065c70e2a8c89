"""``cortex-replay record --refresh``."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import click

from cortex_replay.canonical import compact
from cortex_replay.cli import output
from cortex_replay.cli.recording import Session
from cortex_replay.errors import LlmError
from cortex_replay.recorder import RecordingAdapter
from cortex_replay.recorder.tape import answer_from
from cortex_replay.store import Answer, Fixture
from cortex_replay.store.changes import essence_of_answer
from cortex_replay.store.store import StoredFixture
from cortex_replay.types import LlmRequest

__all__ = ["refresh"]

_DRIFT: Final = 4
_PROVIDERS: Final = {
    "claude": "claude",
    "ollama": "ollama",
    "openai-compat": "openai",
    "scripted": "scripted",
    "echo": "echo",
}
"""The provider that a recording is asked of again, by the adapter that it says it came from."""


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
    before: tuple[Answer, ...]
    after: list[Answer] = field(default_factory=list)
    error: LlmError | None = None

    @property
    def has_changed(self) -> bool:
        return self.error is None and [essence_of_answer(a) for a in self.before] != [
            essence_of_answer(a) for a in self.after
        ]


async def refresh(
    session: Session, provider: str | None, model: str | None, *, check: bool, as_json: bool, raw: bool
) -> int:
    """Ask again what is recorded; gives the exit status."""
    todo, left = _sorted_out(session, provider, model)
    done = await _asked_again(session, todo)
    if as_json:
        output.print_json(_as_json(done, left))
    else:
        _print(done, left, raw=raw, is_written=not check)
    if check:
        session.store.discard()
    else:
        session.store.commit()
    failed = [item.error.exit_code for item in done if item.error is not None]
    has_drifted = check and any(item.has_changed for item in done)
    return max(failed) if failed else _DRIFT if has_drifted else 0


def _sorted_out(session: Session, provider: str | None, model: str | None) -> tuple[list[_Job], list[_Left]]:
    """The fixtures that can be asked again, and those that cannot, with the reason."""
    todo: list[_Job] = []
    left: list[_Left] = []
    for stored in session.store.list():
        if model is None or fnmatchcase(stored.model, model):
            fixture = session.store.get(stored.model, stored.prompt_hash)
            name = provider or _PROVIDERS.get(str((fixture.meta or {}).get("adapter")), "")
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
        for line in _difference(item, raw):
            click.echo(line)
    for item in failed:
        output.talk(f"{output.escaped(item.stored.path)}: {output.escaped(str(item.error))}")
    for stored, reason in left:
        output.talk(f"{output.escaped(stored.path)}: not asked: {reason}")
    verb = "replaced" if is_written else "differ"
    counts = f"{len(done)} asked again, {len(changed)} {verb}, {len(failed)} failed"
    click.echo(f"{counts}, {len(left)} not asked")


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


async def _asked_again(session: Session, todo: list[_Job]) -> list[_Refreshed]:
    refreshing = Session(
        session.settings, session.store, "record", session.redactor, session.meter, session.record_failures
    )
    places = asyncio.Semaphore(session.settings.jobs)
    async with contextlib.AsyncExitStack() as stack:
        recorders = {
            name: await stack.enter_async_context(refreshing.recorder(refreshing.provider(name)))
            for name in {name for _, _, name in todo}
        }

        async def one(stored: StoredFixture, fixture: Fixture, name: str) -> _Refreshed:
            item = _Refreshed(stored, fixture.answers)
            async with places:
                try:
                    for answer in fixture.answers:
                        item.after.append(await _asked(recorders[name], fixture, answer))
                except LlmError as error:
                    item.error = error
            return item

        return list(await asyncio.gather(*(one(*job) for job in todo)))


async def _asked(recorder: RecordingAdapter, fixture: Fixture, before: Answer) -> Answer:
    """The answer of today, streamed if the recorded one was."""
    request = fixture.request
    if not isinstance(request, LlmRequest):
        raise TypeError(request)
    if not before.stream:
        return answer_from(await recorder.complete(request), request.model)
    response = None
    async for chunk in recorder.stream(request):
        response = chunk.response or response
    if response is None:
        raise TypeError(response)
    return answer_from(response, request.model)


def _difference(item: _Refreshed, raw: bool) -> Iterator[str]:
    yield click.style(
        output.escaped(f"{item.stored.model} {item.stored.prompt_hash[:16]}  {item.stored.path}"), bold=True
    )
    for number, (before, after) in enumerate(zip(item.before, item.after, strict=True), start=1):
        if essence_of_answer(before) == essence_of_answer(after):
            continue
        if len(item.before) > 1:
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
            {**item.stored._asdict(), "before": answers(item.before), "after": answers(item.after)}
            for item in done
            if item.has_changed
        ],
        "failed": [{**i.stored._asdict(), "message": str(i.error)} for i in done if i.error is not None],
        "not_asked": [{**stored._asdict(), "reason": reason} for stored, reason in left],
    }
