"""Asking again what is recorded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final

from cortex_replay.adapters import LlmAdapter
from cortex_replay.bindings import Binder, Filling
from cortex_replay.bindings.placeholders import name_of
from cortex_replay.bindings.requests import rewrite_value
from cortex_replay.canonical import JsonValue, compact
from cortex_replay.engine.block_ends import move_ends
from cortex_replay.engine.bound_answers import bind_answer
from cortex_replay.engine.fixtures import FixtureMaker, meta_of
from cortex_replay.engine.http.wire_client import WireClient
from cortex_replay.engine.lookup import LookUp
from cortex_replay.engine.redaction import redact_answer
from cortex_replay.engine.run_names import now_in_milliseconds
from cortex_replay.engine.tape import Tape, answer_from
from cortex_replay.errors import InvalidRequest, LlmError, RecordingRefused
from cortex_replay.modes import Mode
from cortex_replay.prompt.breakpoint_notes import restore_breakpoints
from cortex_replay.redact.redactor import Hit
from cortex_replay.redact.sensitivity import Sensitivity, refuse_above
from cortex_replay.run.renewal import renew
from cortex_replay.run.run import Run
from cortex_replay.run.targets import Target, Targets
from cortex_replay.store import Answer, Fixture
from cortex_replay.store.changes import essence_of_answer
from cortex_replay.store.fixture import bindings_in
from cortex_replay.store.store import StoredFixture
from cortex_replay.store.tool_calls import tool_call_keys
from cortex_replay.types import LlmRequest, PromptCachePlan
from cortex_replay.wire import WIRES
from cortex_replay.wire.diagnostics import cache_miss_reason

__all__ = ["Plan", "Refresh", "ask_all", "plan_refresh", "write"]

_OF_ONE_ANSWER: Final = frozenset(
    [
        "recorded_at",
        "run",
        "asked_at",
        "answered_ms",
        "version",
        "redactions",
        "normalisers",
        "bindings",
        "usage",
    ]
)
"""What ``meta`` says of an answer that another takes the place of."""
_SDK_TIMEOUT_MS: Final = 600_000
"""What SDKs give a call by themselves."""
_ADAPTERS: Final = frozenset(["claude", "ollama", "openai-compat", "scripted", "echo"])
"""Those that have asked themselves, and do it again: they know a model by the digest of its bytes, say."""


@dataclass
class Refresh:
    """One fixture that is asked again, and what became of it."""

    stored: StoredFixture
    fixture: Fixture
    request: LlmRequest
    """What to ask: with the values of today."""
    target: Target
    look: LookUp
    """What is bound in it."""
    origin: dict[str, JsonValue] = field(default_factory=dict)
    """Who answers today."""
    after: list[tuple[Answer, list[Hit]]] = field(default_factory=list)
    """The answers of today, redacted and bound as those that are recorded are, and what was cut out."""
    error: LlmError | None = None

    @property
    def pairs(self) -> list[tuple[Answer, Answer]]:
        return list(zip(self.fixture.answers, (answer for answer, _ in self.after), strict=False))

    @property
    def has_changed(self) -> bool:
        return self.error is None and any(
            essence_of_answer(before) != essence_of_answer(after) for before, after in self.pairs
        )

    @property
    def protocol(self) -> str | None:
        """The wire that it is asked over; ``None`` where an adapter asks."""
        wire, meta = self.fixture.answers[0].wire, self.fixture.meta or {}
        protocol = meta.get("wire") if wire is None else wire.get("protocol")
        if wire is None and meta.get("adapter") in _ADAPTERS:
            return None
        return str(protocol) if protocol in WIRES and self.target.speaks(protocol) else None


@dataclass(frozen=True)
class Plan:
    """What is asked again, and what is not."""

    items: list[Refresh]
    skipped: list[tuple[StoredFixture, str]]
    """What cannot be asked, each with the reason."""
    exchanges: list[str]
    """The files of calls that are recorded as they are, such as embeddings; those are never asked again."""
    tools: list[str]
    """The files of calls of tools, which may do something each time."""


def plan_refresh(
    run: Run, provider: str | None, pattern: str | None, timeout_ms: int | None, scope: str | None = None
) -> Plan:
    """The fixtures that can be asked again, and those that cannot.

    Args:
        run: Whose store and settings hold.
        provider: Who is asked for all of them; by default who answered each.
        pattern: Of the models; ``None`` for all, and for the exchanges, which have none.
        timeout_ms: What a call may take, if not what the settings or an SDK say.
        scope: Pattern of the scopes whose answers are asked again, those that they share too; by default what
            is shared.
    """
    targets = Targets(run.settings, run.engine().upstreams, os.environ, provider)
    is_all = pattern is None and scope is None
    recorded = run.store.exchange_keys() if is_all else {}
    called = tool_call_keys(run.store) if is_all else frozenset()
    plan = Plan(
        [],
        [],
        sorted(path for key, path in recorded.items() if key not in called),
        sorted(path for key, path in recorded.items() if key in called),
    )
    for stored in run.store.list(scoped=scope is not None):
        if (pattern is None or fnmatchcase(stored.model, pattern)) and _is_of(run, stored, scope):
            found = _plan_one(run, stored, targets, timeout_ms or _SDK_TIMEOUT_MS)
            if isinstance(found, str):
                plan.skipped.append((stored, found))
            else:
                plan.items.append(found)
    return plan


def _is_of(run: Run, stored: StoredFixture, scope: str | None) -> bool:
    """Whether a recording is to be asked again for these scopes: one of their own, or one that they share."""
    if scope is None:
        return True
    meta = run.store.get(stored.model, stored.prompt_hash, stored.scope).meta or {}
    owner = stored.scope or str(meta.get("scope", ""))
    return bool(owner) and fnmatchcase(owner, scope)


def _plan_one(run: Run, stored: StoredFixture, targets: Targets, timeout_ms: int) -> Refresh | str:
    """One recording to be asked again, or why it cannot be."""
    fixture = run.store.get(stored.model, stored.prompt_hash, stored.scope)
    binder = run.binder(run.store.key_rules.bindings)
    target = _problem_with_request(fixture) or targets.find(_here(fixture, binder))
    if isinstance(target, str):
        return target
    request, look = fixture.request or LlmRequest(stored.model), LookUp(fixture.key)
    if names := bindings_in(fixture.meta):
        renewed = renew(request, names, binder)
        if isinstance(renewed, str):
            return renewed
        request, look = renewed.request, LookUp(fixture.key, binder, renewed.binding)
    elif (bound := binder.bind(request)).request == request:  # what is bound now was not bound then
        look = LookUp(fixture.key, binder, bound.binding)
    plan = _cache_plan(fixture, request, binder)
    request = replace(request, timeout_ms=run.settings.timeout_ms, cache=plan)
    item = Refresh(stored, fixture, request, target, look)
    try:
        refuse_above(request, Sensitivity.of(run.settings.max_sensitivity))
        if item.protocol is not None:
            WIRES[item.protocol].lower(request)
            item.request = replace(request, timeout_ms=timeout_ms)
    except InvalidRequest as error:
        return f"its request cannot be sent: {error}"
    return item


def _cache_plan(fixture: Fixture, request: LlmRequest, binder: Binder) -> PromptCachePlan | None:
    """The cache plan of a recorded request, for the same request with the values of today."""
    stored = fixture.request
    plan = None if stored is None else restore_breakpoints(stored, fixture.meta).cache
    if stored is None or plan is None:
        return None

    def renew_system(text: str) -> str | None:
        renewed = renew(replace(stored, system=text), bindings_in(fixture.meta), binder)
        return None if isinstance(renewed, str) else renewed.request.system

    ends = move_ends(stored.system, [end for end, _ in plan.system_cuts], request.system, renew_system)
    cuts = zip(ends or (), (time for _, time in plan.system_cuts), strict=False)
    # What is noted of the key is its hash, which groups nothing at the provider.
    return replace(plan, key=None, system_cuts=tuple(cuts))


def _here(fixture: Fixture, binder: Binder) -> Fixture:
    """A recording that says who answered in terms of this place."""
    known = binder.surroundings.tokens()
    names = {name_of(token) for token in known}
    meta = rewrite_value(fixture.meta, lambda text: Filling(known).text(text, names))
    return replace(fixture, meta=meta) if isinstance(meta, dict) else fixture


def _problem_with_request(fixture: Fixture) -> str | None:
    """Why what was asked cannot be asked again, or ``None``."""
    if fixture.request is None:
        return "it does not hold its request"
    if fixture.is_request_redacted:
        return "a secret was cut out of its request"
    if (fixture.meta or {}).get("normalisers"):
        return "its request holds placeholders"
    if '"blake3":' in compact(fixture.request.to_dict()["messages"]):
        return "its request holds only the hash of some data"
    return None


async def ask_all(run: Run, items: Iterable[Refresh], show: Callable[[int, int], None]) -> None:
    """Ask every item of its target, some at a time.

    Args:
        run: Whose settings and budget hold.
        items: What to ask; each is told what became of it.
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
                    await _ask(run, askers, item)
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


async def _ask(run: Run, askers: _Askers, item: Refresh) -> None:
    """Ask for each answer of an item, in the way that the recorded one came."""
    request, protocol = item.request, item.protocol
    if protocol is None:
        adapter = askers.adapter(item.target)
        item.origin = {**adapter.origin, "provider": item.target.provider}
        for before in item.fixture.answers:
            asked_at = now_in_milliseconds()
            _take(run, item, await _ask_adapter(adapter, request, before), asked_at)
        return
    client = askers.client(item.target, protocol)
    item.origin = {"wire": protocol, **(item.target.server.origin if item.target.server else {})}
    scope = run.open_scope(mode=Mode.LIVE)
    for before in item.fixture.answers:
        async with (
            scope.turn(lambda: request, item.look, request.timeout_ms, {}) as turn,
            turn.ask() as attempt,
        ):
            asked_at = now_in_milliseconds()
            answer, usage = await client.ask(request, before)
            attempt.keep(answer, usage)
        _take(run, item, answer, asked_at)


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
        meta["cache"] = {**_cache_notes(item.fixture.meta), "reason": reason}
    item.after.append((replace(answer, meta=meta), hits))


async def _ask_adapter(llm: LlmAdapter, request: LlmRequest, before: Answer) -> Answer:
    """The answer of today, streamed if the recorded one was."""
    if not before.stream and (before.wire or {}).get("stream") is not True:
        return answer_from(await llm.complete(request), request.model)
    tape = Tape(request.model)
    async for chunk in llm.stream(request):
        tape.add(chunk)
    return tape.answer()


def write(run: Run, items: Iterable[Refresh]) -> None:
    """Put the new answers in place of the recorded ones, where all of a fixture came and one differs.

    One that is refused has failed, and does not keep the others from being written.
    """
    for item in items:
        if item.has_changed:
            maker = FixtureMaker(run.store, run.redactor, item.stored.scope)
            origin = {**_lasting(item.fixture.meta or {}), **item.look.bind_origin(item.origin)}
            origin["run"] = run.name
            later = {name: value for name, value in origin.items() if name != "call"}
            answers = [
                replace(answer, meta={**meta_of(later if n else origin, hits), **(answer.meta or {})})
                for n, (answer, hits) in enumerate(item.after)
            ]
            try:
                maker.stage_answers(item.fixture.key, item.fixture.request, answers, overwrite=True)
            except RecordingRefused as error:
                item.error = error
    run.commit()


def _lasting(meta: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What a recording says that stays true of another answer: which tests it is for, and the like."""
    lasting = {name: value for name, value in meta.items() if name not in (*_OF_ONE_ANSWER, "cache")}
    notes = _cache_notes(meta)
    return {**lasting, "cache": notes} if notes else lasting


def _cache_notes(meta: Mapping[str, JsonValue] | None) -> dict[str, JsonValue]:
    """The notes on the cache without the provider's reason, which was about the answer before."""
    notes = (meta or {}).get("cache")
    plain = notes if isinstance(notes, dict) else {}
    return {name: value for name, value in plain.items() if name != "reason"}
