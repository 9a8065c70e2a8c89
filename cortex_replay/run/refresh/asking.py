"""Asking what was chosen, and how often."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Final

from cortex_replay.adapters import LlmAdapter
from cortex_replay.behaviour.differences import Tier
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.bound_answers import bind_answer
from cortex_replay.engine.http.wire_client import WireClient
from cortex_replay.engine.redaction import redact_answer
from cortex_replay.engine.run_names import now_in_milliseconds
from cortex_replay.engine.tape import Tape, answer_from
from cortex_replay.errors import BudgetSpent, LlmError
from cortex_replay.modes import Mode
from cortex_replay.run.refresh.items import Refresh
from cortex_replay.run.refresh.writing import cache_notes
from cortex_replay.run.run import Run
from cortex_replay.run.targets import Target
from cortex_replay.store import Answer
from cortex_replay.types import LlmRequest
from cortex_replay.wire.diagnostics import cache_miss_reason

__all__ = ["Samples", "ask_all"]

_MOST: Final = 5
_MOST_AT_ZERO: Final = 2
"""Servers that answer many at once are not quite the same twice, even then."""
_Way = Callable[[Answer], Awaitable[tuple[Answer, str]]]
"""Asks once, as a recorded answer was asked for; gives the answer, and when that was."""


@dataclass(frozen=True)
class Samples:
    """How often each question is asked."""

    first: int = 1
    """So often in any case."""
    most: int | None = 1
    """So often in all, as long as what came differs in more than words: has the model drifted, or does it
    vary? ``None`` for a number that fits the temperature."""
    keeps: Tier | None = Tier.SAME
    """From which tier on answers are written, so that as many are needed as are recorded; ``None``: never."""

    def most_for(self, request: LlmRequest) -> int:
        """How often a question is asked at the most. Providers choose a temperature above 0 by themselves."""
        if self.most is not None:
            return self.most
        return _MOST_AT_ZERO if request.temperature == 0 else _MOST


async def ask_all(
    run: Run, items: Iterable[Refresh], samples: Samples, show: Callable[[int, int], None]
) -> None:
    """Ask every item of its target, some at a time, in the order in which they are given.

    Args:
        run: Whose settings and budget hold.
        items: What to ask; each is told what became of it.
        samples: How often each is asked.
        show: Is told how many are done, and how many of them failed.
    """
    places = asyncio.Semaphore(run.settings.jobs)
    done = failed = 0
    async with AsyncExitStack() as stack:
        askers = _Askers(run, stack)

        async def ask(item: Refresh) -> None:
            nonlocal done, failed
            async with places:
                try:
                    await _ask(run, askers, item, samples)
                    item.arrange()
                except LlmError as error:
                    item.error = error
                    failed += 1
            done += 1
            show(done, failed)

        await asyncio.gather(*map(ask, items))


class _Askers:
    """What asks each target, made when it is first needed."""

    def __init__(self, run: Run, stack: AsyncExitStack) -> None:
        self._run = run
        self._stack = stack
        self._adapters: dict[str, LlmAdapter] = {}
        self._clients: dict[tuple[str, str], WireClient] = {}

    def adapter(self, target: Target) -> LlmAdapter:
        name = target.provider
        if name not in self._adapters:
            made = self._run.adapter(name, self._run.open_scope(mode=Mode.LIVE))
            self._stack.push_async_callback(made.aclose)
            self._adapters[name] = made
        return self._adapters[name]

    def client(self, target: Target, protocol: str) -> WireClient:
        server, settings = target.server, self._run.settings
        assert server is not None  # noqa: S101 - what speaks a wire has one
        if (server.name, protocol) not in self._clients:
            made = WireClient(
                server,
                protocol,
                settings.providers.get(target.provider),
                os.environ,
                max_retries=settings.max_retries,
                max_sensitivity=settings.max_sensitivity,
                rate=self._run.rate_of(target.provider),
            )
            self._stack.push_async_callback(made.aclose)
            self._clients[server.name, protocol] = made
        return self._clients[server.name, protocol]


async def _ask(run: Run, askers: _Askers, item: Refresh, samples: Samples) -> None:
    """Ask for the answers of an item, each in the way that a recorded one came, and compare them."""
    way = _way_to(run, askers, item)
    recorded = cycle(item.fixture.answers)

    async def ask() -> None:
        _take(run, item, *await way(next(recorded)))

    def compare() -> Tier:
        return item.compare(lambda text: run.redactor.text(text)[0])

    while len(item.after) < samples.first:
        await ask()
    try:
        while compare() > Tier.WORDS and len(item.after) < samples.most_for(item.request):
            await ask()
    except BudgetSpent:  # what was seen is not to be lost
        item.is_confirmed = False
        return
    if samples.keeps is not None and item.tier >= samples.keeps:
        while len(item.after) < len(item.fixture.answers):
            await ask()
        compare()


def _way_to(run: Run, askers: _Askers, item: Refresh) -> _Way:
    """How an item is asked; it is told who answers."""
    request, protocol = item.request, item.protocol
    if protocol is None:
        adapter = askers.adapter(item.target)
        item.origin = {**adapter.origin, "provider": item.target.provider}

        async def ask_adapter(before: Answer) -> tuple[Answer, str]:
            asked_at = now_in_milliseconds()
            return await _ask_adapter(adapter, request, before), asked_at

        return ask_adapter
    client = askers.client(item.target, protocol)
    item.origin = {"wire": protocol, **(item.target.server.origin if item.target.server else {})}
    scope = run.open_scope(mode=Mode.LIVE)

    async def ask_server(before: Answer) -> tuple[Answer, str]:
        async with (
            scope.turn(lambda: request, item.look, request.timeout_ms, {}) as turn,
            turn.ask() as attempt,
        ):
            asked_at = now_in_milliseconds()
            answer, usage = await client.ask(request, before)
            attempt.keep(answer, usage)
        return answer, asked_at

    return ask_server


def _take(run: Run, item: Refresh, answer: Answer, asked_at: str) -> None:
    """Note an answer of today, as it would be stored."""
    request = item.request
    answer, hits = redact_answer(answer, run.redactor, needs_wire=request.extra.get("n", 1) != 1)
    meta: dict[str, JsonValue] = {"asked_at": asked_at}
    if (bound := item.look.bind(request)) is not None:
        answer = bind_answer(answer, bound.binding, request.model)
        if bound.names:
            meta["bindings"] = [*bound.names]
    if answer.wire is not None and (reason := cache_miss_reason(answer.wire)) is not None:
        meta["cache"] = {**cache_notes(item.fixture.meta), "reason": reason}
    item.after.append((replace(answer, meta=meta), hits))


async def _ask_adapter(llm: LlmAdapter, request: LlmRequest, before: Answer) -> Answer:
    """The answer of today, streamed if the recorded one was."""
    if not before.stream and (before.wire or {}).get("stream") is not True:
        return answer_from(await llm.complete(request), request.model)
    tape = Tape(request.model)
    async for chunk in llm.stream(request):
        tape.add(chunk)
    return tape.answer()
