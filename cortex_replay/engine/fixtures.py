"""From an answer to a staged fixture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.block_ends import BLANK_LINE, move_ends
from cortex_replay.engine.bound_answers import bind_answer, bind_wire
from cortex_replay.engine.lines import Line
from cortex_replay.engine.lookup import LookUp
from cortex_replay.engine.redaction import redact_answer
from cortex_replay.engine.staging import RedactingStager, clean_wire, redaction_entries
from cortex_replay.engine.turns import KeyState
from cortex_replay.errors import InvalidRequest, NoFixture, RecordingRefused
from cortex_replay.redact.redactor import Hit, Redactor
from cortex_replay.store import Answer, Fixture, FixtureKey, Store
from cortex_replay.store.changes import essence_of_answer
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import LlmRequest

__all__ = ["FixtureMaker", "answers_in", "is_first_for_all", "is_same_answer", "meta_of", "times_in"]

_TIMES: Final = ("recorded_at", "asked_at", "answered_ms")
_OF_THE_RUN: Final = ("run", *_TIMES)


class FixtureMaker:
    """Makes fixtures of answers: redacted, bound, dated, merged with what is recorded already, staged.

    Args:
        store: Where to.
        redactor: What to cut out.
        owner: The scope that records; "" for none in particular.
    """

    def __init__(self, store: Store, redactor: Redactor, owner: str = "") -> None:
        self._store = store
        self._redactor = redactor
        self._owner = owner
        self._stager = RedactingStager(store, redactor)

    def may_name_scope(self) -> bool:
        """Whether the name of the scope may be written: a test's parameter may be a key."""
        return self._stager.may_name(self._owner)

    def stage(
        self,
        request: LlmRequest,
        look: LookUp,
        state: KeyState[Answer],
        answer: Answer,
        origin: Mapping[str, JsonValue],
        *,
        overwrite: bool,
    ) -> Answer:
        """Stage the next answer of a key, with where it comes from; gives it as it is stored.

        Raises:
            RecordingRefused: A secret could not be cut out of it.
        """
        stored, answer = self.prepare(request, look, answer, origin)
        if (
            state.line is not None
            and (next_one := self._go_on(state.line, look.key, state, answer)) is not None
        ):
            return next_one
        before, given = state.successes, len(state.successes) + 1
        every = [*before, answer, *state.committed[given:]]
        answers = _collapse(every)
        if "scope" in (answers[0].meta or {}):  # it may go on from what another scope recorded
            meta = {name: value for name, value in (answers[0].meta or {}).items() if name != "scope"}
            answers = (replace(answers[0], meta=meta), *answers[1:])
        fixture, staged = self._stager.begin(
            self._fixture(look.key, stored, answers),
            overwrite=overwrite,
            scope=self._owner,
            instead_of=None if state.line is None else state.line.staged,
        )
        kept = fixture.answers[min(len(before), len(answers) - 1)]
        kept = kept if kept.meta is not None else replace(kept, meta=fixture.meta)
        state.line = Line.of(staged, given, self._redactor.version, kept, every)
        return kept

    def _go_on(self, line: Line, key: FixtureKey, state: KeyState[Answer], answer: Answer) -> Answer | None:
        """Stage the next answer alone; ``None`` if all of them have to be staged again."""
        if line.given != len(state.successes) or line.version != self._redactor.version:
            return None
        kept: Answer | None = None
        if line.tells_nothing_new(answer):
            kept = line.kept if self._store.is_staged(line.staged) else None
        elif line.stays_a_list(answer):
            kept = self._stager.grow(line.staged, line.given + 1, key, answer)
        if kept is not None:
            line.go_on(answer, kept)
        return kept

    def prepare(
        self, request: LlmRequest, look: LookUp, answer: Answer, origin: Mapping[str, JsonValue]
    ) -> tuple[LlmRequest, Answer]:
        """The request and the answer as they are stored, with where the answer comes from.

        Secrets go first: no value that is bound may hide a part of one.

        Raises:
            RecordingRefused: A secret could not be cut out of them.
        """
        self._stager.learn()
        answer, in_answer = redact_answer(answer, self._redactor, needs_wire=request.extra.get("n", 1) != 1)
        normal, rules = self._store.normalise(request)
        stored, in_request = self._without_secrets(normal)
        # The date in these is not one that the request says.
        when = {name: origin[name] for name in _OF_THE_RUN if name in origin}
        others = {name: value for name, value in origin.items() if name not in when}
        meta = meta_of({**look.bind_origin(others), **when}, in_answer, in_request, rules)
        if (bound := look.bind(normal)) is not None:
            answer = bind_answer(answer, bound.binding, request.model)
            cut = look.bind(stored) if in_request else None
            stored = (cut or bound).request
            if names := bound.names:
                meta["bindings"] = list(names)
        if cache := self._note_cache(request, look, stored, answer):
            meta["cache"] = cache
        return stored, replace(answer, meta=meta)

    def _note_cache(
        self, request: LlmRequest, look: LookUp, stored: LlmRequest, answer: Answer
    ) -> dict[str, JsonValue]:
        """The markers and settings that a client sent for the cache, and the provider's reason for a miss."""
        notes: dict[str, JsonValue] = {}
        if request.cache is not None:
            # Few requests have a plan.
            from cortex_replay.prompt.breakpoint_notes import block_ends, note_cache  # noqa: PLC0415

            ends, system = block_ends(request), stored.system
            # What is done to the system text seldom depends on the rest of a request, which may be long.
            alone = replace(request, messages=(), tools=())
            moved = move_ends(request.system, ends, system, partial(self._store_system, alone, look))
            if moved is None:
                moved = move_ends(request.system, ends, system, partial(self._store_system, request, look))
            # A label is cut where it is long, and no rule knows a secret by a piece of it.
            labels = tuple(self._redactor.text(label)[0] for label in request.cache.labels)
            notes = note_cache(replace(request, cache=replace(request.cache, labels=labels)), moved)
        if answer.wire is not None:
            from cortex_replay.wire.diagnostics import cache_miss_reason  # noqa: PLC0415 - adapters have no wire

            if (reason := cache_miss_reason(answer.wire)) is not None:
                notes["reason"] = reason
        return notes

    def _store_system(self, request: LlmRequest, look: LookUp, system: str) -> str | None:
        """What would be stored of another system text of a request."""
        try:
            stored, _ = self._without_secrets(self._store.normalise(replace(request, system=system))[0])
        except RecordingRefused:
            return None
        bound = look.bind(stored)
        return stored.system if bound is None else bound.request.system

    def stage_answers(
        self,
        key: FixtureKey,
        request: LlmRequest | None,
        answers: Sequence[Answer],
        *,
        overwrite: bool,
        is_exact: bool = False,
    ) -> Fixture:
        """Stage answers; gives the fixture as it is stored. See :meth:`stage`."""
        fixture = self._fixture(key, request, answers)
        return self._stager.stage(fixture, overwrite=overwrite, scope=self._owner, is_exact=is_exact)

    def _fixture(self, key: FixtureKey, request: LlmRequest | None, answers: Sequence[Answer]) -> Fixture:
        meta = answers[0].meta
        if self._owner:
            meta = {**(meta or {}), "scope": self._owner}
        return Fixture(key, tuple(answers), request, meta)

    def stage_failure(
        self, failure: Exchange, request: LlmRequest, look: LookUp, *, overwrite: bool
    ) -> Exchange:
        """Stage a failure of a request; gives it as it is stored."""
        failure = self.bind_failure(failure, request, look)
        return self._stager.stage_exchange(failure, overwrite=overwrite, scope=self._owner)

    def bind_failure(self, failure: Exchange, request: LlmRequest, look: LookUp) -> Exchange:
        """A failure with placeholders for what is bound in it."""
        bound = look.bind(self._store.normalise(request)[0])
        if bound is None:
            return failure
        self._stager.learn()
        wire = bind_wire(clean_wire(failure.wire, self._redactor), bound.binding)
        meta: dict[str, JsonValue] | None = {"bindings": [*bound.names]} if bound.names else None
        return replace(failure, wire=wire, meta=meta)

    def drop_failures(self, key: FixtureKey, n: int, *, and_later: bool) -> None:
        """Stage the removal of the failure that an answer takes the place of; and of those behind it, where
        no other answer follows."""
        if self._store.has_failures(*key, self._owner):
            for failed in self._store.failures(*key, self._owner):
                if failed == n or (and_later and failed > n):
                    self._store.remove_failure(*key, failed, self._owner)

    def _without_secrets(self, request: LlmRequest) -> tuple[LlmRequest, list[Hit]]:
        # The blocks of a system prompt are one text by now, with empty lines between them.
        blocks, across = self._redactor.pieces(request.system.split(BLANK_LINE))
        whole = {**request.to_dict(), "system": BLANK_LINE.join(blocks)} if across else request.to_dict()
        plain, hits = self._redactor.document(whole)
        hits = [*across, *hits]
        if not hits or not isinstance(plain, dict):
            return request, hits
        try:
            return LlmRequest.from_dict({"model": request.model, **plain}), hits
        except InvalidRequest as error:
            raise RecordingRefused([f"request.{error.field}"]) from None


def answers_in(store: Store, key: FixtureKey, scope: str = "") -> tuple[Answer, ...]:
    """What a store has under a key for a scope, each answer with its own meta."""
    try:
        fixture = store.get(*key, scope)
    except NoFixture:
        return ()
    first, *then = fixture.answers
    return (replace(first, meta=fixture.meta), *then)


def is_first_for_all(meta: Mapping[str, JsonValue] | None) -> bool:
    """Whether those who name no scope get the first of several answers: a scope recorded them, in its order.

    Earlier versions said so in a word of its own.
    """
    return meta is not None and ("scope" in meta or meta.get("without_scope") == "first")


def is_same_answer(one: Answer, other: Answer | Exchange | None) -> bool:
    """Whether two answers say the same, in whatever way they came."""
    return isinstance(other, Answer) and essence_of_answer(one) == essence_of_answer(other)


def times_in(meta: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """When an answer was recorded, asked for, and began, as far as its ``meta`` says."""
    return {name: meta[name] for name in _TIMES if meta.get(name) is not None}


def meta_of(
    origin: Mapping[str, JsonValue],
    in_answer: Iterable[Hit],
    in_request: Iterable[Hit] = (),
    rules: Sequence[str] = (),
) -> dict[str, JsonValue]:
    """What a recording says of itself: when, from whom, what was cut out of it, what was normalised."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    meta: dict[str, JsonValue] = {"recorded_at": now, **origin, "version": _version()}
    redactions = redaction_entries("request", in_request)
    redactions += redaction_entries("response", in_answer)
    if redactions:
        meta["redactions"] = redactions
    if rules:
        meta["normalisers"] = list(rules)
    return meta


def _collapse(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """One answer where all say the same: then it is the answer to every call. Where the first was a stream
    that nobody counted and another was counted, its meta says so."""
    if len({essence_of_answer(answer) for answer in answers}) > 1:
        return tuple(answers)
    first = answers[0]
    counted = next((answer.usage for answer in answers if answer.usage is not None), None)
    if first.usage is None and counted is not None:
        first = replace(first, meta={**(first.meta or {}), "usage": counted.to_dict()})
    return (first,)


@cache
def _version() -> str:
    import importlib.metadata  # noqa: PLC0415 - for recordings alone

    return importlib.metadata.version("cortex-replay")
