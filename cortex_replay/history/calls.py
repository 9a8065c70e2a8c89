"""The recorded calls of a store, each with what was asked, when, and what the provider counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from cortex_replay import validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import Finding, FixtureIntegrityFailed, InvalidRequest
from cortex_replay.gc_pause import pause_gc
from cortex_replay.history.origins import BEFORE, run_in, scopes_with, seconds_in
from cortex_replay.progress import Progress
from cortex_replay.prompt.breakpoint_notes import restore_plan
from cortex_replay.store import Answer, Fixture, Store, StoredFixture
from cortex_replay.store.fixture import bindings_in
from cortex_replay.store.fixture_json import FixtureError, fixture_in, read_document
from cortex_replay.store.requests.assembly import Assembly
from cortex_replay.store.trust import Untrusted
from cortex_replay.types import LlmMessage, LlmRequest, PromptCachePlan, TokenUsage

__all__ = ["BEFORE", "History", "HistoryCall", "read_calls", "times_of"]

_LONGEST_REASON: Final = 500
_LONGEST_WAIT_MS: Final = 86_400_000
_PROGRESS_STEP: Final = 256
_FIRST_EVENTS: Final = 3
"""Those that name a response."""


@dataclass(frozen=True, slots=True)
class HistoryCall:
    """One call to a model and its answer."""

    request: LlmRequest
    """What was asked, as it is stored, with its cache plan."""
    prompt_hash: str
    path: str
    """The file, as the index names it."""
    answer: int
    """Which of the answers to its key, from 1."""
    usage: TokenUsage | None
    at: float | None
    """When it was asked, in seconds since 1970; ``None`` if that is not known."""
    ready: float | None
    """When its answer began, or at the latest: when it was whole."""
    order: int
    """Its number among the calls of its scope, or of the cassette that it was in, for those of one moment."""
    run: str
    scopes: tuple[str, ...]
    """Whose call it was: the scope that recorded it, and those that it is kept for."""
    meta: Mapping[str, JsonValue]
    said: Answer | None = None
    """What was answered, as it is stored."""

    @property
    def model(self) -> str:
        return self.request.model

    @property
    def cache_reason(self) -> str:
        """What the provider itself said about a cache miss."""
        notes = self.meta.get("cache")
        reason = notes.get("reason") if isinstance(notes, dict) else None
        return reason[:_LONGEST_REASON] if isinstance(reason, str) else ""

    @property
    def is_imported(self) -> bool:
        """Whether it comes from a cassette, which does not say when it was asked."""
        return self.meta.get("adapter") == "import"

    @property
    def bindings(self) -> tuple[str, ...]:
        """The bound values in it: the provider saw others than the recording has."""
        return bindings_in(self.meta)


@dataclass(frozen=True, slots=True)
class History:
    """The calls of a store, in the order in which they were asked."""

    calls: tuple[HistoryCall, ...]
    without_request: int = 0
    """How many recordings do not hold what was asked."""


@pause_gc()
def read_calls(
    store: Store,
    progress: Progress | None = None,
    *,
    damaged: list[Finding] | None = None,
    is_light: bool = False,
) -> History:
    """Every recorded call to a model. Failures, and calls that asked no model, are none.

    Equal messages and tools of two requests are one value, so that each has to be looked at once.

    Args:
        store: Where from. Only bytes that its index vouches for are read.
        progress: Called now and then with the number of recordings read so far, and of all.
        damaged: Gets what is wrong with files that are not what the index says, which are left out then.
            Without it, the first one ends the reading.
        is_light: Whether to keep only the first pieces of a stream and its last one: enough for times and
            names, and a fraction of the memory.

    Raises:
        FixtureIntegrityFailed: A file is not what the index says.
    """
    scopes: dict[str, list[str]] = {}
    places: dict[str, StoredFixture] = {}
    for stored in store.list(scoped=True):
        places.setdefault(stored.path, stored)
        scopes.setdefault(stored.path, []).extend([stored.scope] if stored.scope else [])
    reader = _Reader(store)
    read: list[tuple[StoredFixture, Fixture]] = []
    for done, (stored, data) in enumerate(store.contents(places.values(), damaged), start=1):
        with _damage_to(damaged):
            fixture = reader.read(stored, data)
            read.append((stored, _lighten(fixture) if is_light else fixture))
        if progress and done % _PROGRESS_STEP == 0:
            progress(done, len(places))
    # All of them before any gets a plan, which is its own.
    whole: list[tuple[StoredFixture, Fixture, LlmRequest | None]] = []
    for stored, fixture in read:
        with _damage_to(damaged):
            whole.append((stored, fixture, reader.whole_request(stored, fixture)))
    calls: list[HistoryCall] = []
    for stored, fixture, request in whole:
        if request is not None:
            calls += _calls_in(reader, fixture, request, stored.path, scopes[stored.path])
    calls.sort(key=_place_in_time)
    return History(tuple(calls), len([request for *_, request in whole if request is None]))


@contextmanager
def _damage_to(damaged: list[Finding] | None) -> Iterator[None]:
    """Note what is wrong with a file, if there is a place for it."""
    try:
        yield
    except FixtureIntegrityFailed as error:
        if damaged is None:
            raise
        damaged += error.issues


def _lighten(fixture: Fixture) -> Fixture:
    """A fixture whose streams have their ends only."""
    return replace(fixture, answers=tuple(map(_lighten_answer, fixture.answers)))


def _lighten_answer(answer: Answer) -> Answer:
    wire = answer.wire
    if wire is not None and isinstance(events := wire.get("events"), list):
        wire = {**wire, "events": [*events[:_FIRST_EVENTS], *events[_FIRST_EVENTS:][-1:]]}
    return replace(answer, stream=(*answer.stream[:1], *answer.stream[1:][-1:]), wire=wire)


def _place_in_time(call: HistoryCall) -> tuple[bool, float, str, int, str, int]:
    """What is imported has the time of its import: one moment for all, cassette after cassette."""
    cassette = call.meta.get("cassette")
    is_known = isinstance(cassette, str)
    return (
        call.at is None,
        call.at or 0.0,
        str(cassette) if is_known else "",
        call.order,
        call.path,
        call.answer,
    )


class _Reader:
    """Reads fixtures; what two of them have in common is one value."""

    def __init__(self, store: Store) -> None:
        self._assembly = Assembly(store.part)
        self._messages: dict[object, LlmMessage] = {}
        self._tools: dict[bytes, tuple[JsonValue, ...]] = {}
        self._plans: dict[tuple[bytes, str], PromptCachePlan | None] = {}

    def read(self, stored: StoredFixture, data: bytes) -> Fixture:
        """A fixture; one that continues another has what is new, and its link."""
        try:
            document = read_document(data)
            request = document.get("request")
            if isinstance(request, dict) and isinstance(request.get("parts"), dict):
                request = document["request"] = self._with_parts(stored.path, request, request["parts"])
            tools = self._share(request) if isinstance(request, dict) else ()
            fixture = fixture_in(document)
        except FixtureError as error:
            raise FixtureIntegrityFailed([Finding(error.code, stored.path, str(error))]) from None
        except Untrusted as error:
            raise FixtureIntegrityFailed([error.finding]) from None
        if fixture.request is not None and tools:
            check.keep(fixture.request, "tools", tools)  # a request would make a copy of its own
        self._assembly.add(stored.path, fixture, stored.scope)
        return fixture

    def whole_request(self, stored: StoredFixture, fixture: Fixture) -> LlmRequest | None:
        """The request of a fixture, once all were read."""
        try:
            return self._assembly.request(stored.path, fixture)
        except Untrusted as error:
            raise FixtureIntegrityFailed([error.finding]) from None

    def _with_parts(self, path: str, request: dict[str, JsonValue], parts: Any) -> dict[str, JsonValue]:
        """A request with what it names instead of having it."""
        whole = {name: value for name, value in request.items() if name != "parts"}
        return whole | {name: self._assembly.part(path, name, str(given)) for name, given in parts.items()}

    def _share(self, request: dict[str, JsonValue]) -> tuple[JsonValue, ...]:
        """Put known messages into a request, and take its tools out."""
        messages = request.get("messages")
        if isinstance(messages, list):
            request["messages"] = self._read_messages(messages)  # type: ignore[assignment]
        tools = request.get("tools")
        if not isinstance(tools, list):
            return ()
        written = orjson.dumps(tools)
        known = self._tools.get(written)
        if known is None:
            with suppress(InvalidRequest):  # then it stays, and reading the request says what is wrong
                known = self._tools[written] = check.free_tuple(tools, "tools")
        if known is None:
            return ()
        del request["tools"]
        return known

    def _read_messages(self, messages: list[JsonValue]) -> list[JsonValue | LlmMessage]:
        known = self._messages
        found: list[JsonValue | LlmMessage] = []
        for message in messages:
            if not isinstance(message, dict):
                found.append(message)
                continue
            key = _short_key(message) or orjson.dumps(message)
            made = known.get(key)
            if made is None:
                try:
                    made = known[key] = check.from_mapping(LlmMessage, message)
                except InvalidRequest:  # reading the request says what is wrong with it
                    found.append(message)
                    continue
            found.append(made)
        return found

    def with_plan(self, request: LlmRequest, meta: Mapping[str, JsonValue], *, is_only: bool) -> LlmRequest:
        """A request with the plan that its recording notes; all else in it is shared.

        Args:
            request: As it was read here.
            meta: Of the recording.
            is_only: Whether no other answer is to this request, so that it can have the plan itself.
        """
        notes = meta.get("cache")
        if isinstance(notes, dict):
            known = orjson.dumps(notes), request.system  # whose blocks the notes are about
            if known not in self._plans:
                self._plans[known] = restore_plan(request, meta)
            plan = self._plans[known]
        else:
            plan = restore_plan(request, meta) if "breakpoints" in meta else None
        if plan is None:
            return request
        planned = request if is_only else copy(request)
        check.keep(planned, "cache", plan)  # a new request would check everything again
        return planned


def _short_key(message: Mapping[str, JsonValue]) -> object:
    """A key for most messages, at a third of the time that encoding them takes; ``None`` for the others."""
    role, content = message.get("role"), message.get("content")
    if role.__class__ is content.__class__ is str:
        if len(message) == 2:
            return role, content
        call = message.get("tool_call_id")
        if len(message) == 3 and call.__class__ is str:
            return role, content, call
    return None


def _calls_in(
    reader: _Reader, fixture: Fixture, request: LlmRequest, path: str, scopes: Sequence[str]
) -> Iterator[HistoryCall]:
    for number, answer in enumerate(fixture.answers, start=1):
        meta = (fixture.meta if number == 1 else answer.meta) or {}
        owner = meta.get("scope", (fixture.meta or {}).get("scope"))
        at, ready = times_of(answer, meta)
        order = meta.get("call", meta.get("interaction"))
        yield HistoryCall(
            request=reader.with_plan(request, meta or fixture.meta or {}, is_only=len(fixture.answers) == 1),
            prompt_hash=fixture.key.prompt_hash,
            path=path,
            answer=number,
            usage=answer.usage or _usage_in(meta),
            at=at,
            ready=ready,
            order=order if isinstance(order, int) else 0,
            run=run_in(meta),
            scopes=scopes_with(owner, scopes),
            meta=meta,
            said=answer,
        )


def times_of(answer: Answer, meta: Mapping[str, JsonValue]) -> tuple[float | None, float | None]:
    """When an answer was asked for, and when it began, in seconds since 1970; ``None`` if unknown."""
    recorded, asked = seconds_in(meta, "recorded_at"), seconds_in(meta, "asked_at")
    if asked is None:
        return recorded, None
    return asked, _ready(answer, asked, recorded, meta.get("answered_ms"))


def _ready(answer: Answer, asked: float, recorded: float | None, wait: JsonValue) -> float | None:
    """When an answer began; of one that came whole, when it was there."""
    if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait <= _LONGEST_WAIT_MS:
        return asked + wait / 1000
    events = (answer.wire or {}).get("events")
    first: object = None
    if answer.stream:
        first = answer.stream[0].at_ms
    elif isinstance(events, list) and events and isinstance(events[0], dict):
        first = events[0].get("at_ms")
    if isinstance(first, int | float):
        return asked + first / 1000
    return recorded if recorded is not None and recorded > asked else None


def _usage_in(meta: Mapping[str, JsonValue]) -> TokenUsage | None:
    """What an equal call was counted, where this one was not."""
    usage = meta.get("usage")
    with suppress(InvalidRequest, TypeError):
        return TokenUsage(**usage) if isinstance(usage, dict) else None  # type: ignore[arg-type]
    return None
