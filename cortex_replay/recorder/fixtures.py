"""From an answer to a staged fixture."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import NoFixture, RecordingRefused
from cortex_replay.recorder.redaction import redacted_answer
from cortex_replay.redact.redactor import Hit, Redactor
from cortex_replay.store import Answer, Fixture, FixtureKey, Store
from cortex_replay.store.changes import essence_of_answer
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import render_fixture
from cortex_replay.types import LlmRequest

__all__ = ["FixtureMaker"]


class FixtureMaker:
    """Makes fixtures of answers: redacted, dated, merged with what is recorded already, staged."""

    def __init__(self, store: Store, redactor: Redactor, adapter_id: str) -> None:
        self._store = store
        self._redactor = redactor
        self._adapter_id = adapter_id

    def committed(self, key: FixtureKey) -> Fixture | None:
        """What the store has under a key."""
        try:
            return self._store.get(*key)
        except NoFixture:
            return None

    def stage(
        self,
        request: LlmRequest,
        key: FixtureKey,
        before: Sequence[Answer],
        answer: Answer,
        committed: Fixture | None,
        *,
        overwrite: bool,
    ) -> Answer:
        """Stage an answer that comes after ``before``; gives it as it is stored.

        Raises:
            RecordingRefused: A secret that this process knows is still in it.
        """
        answer, in_answer = redacted_answer(answer, self._redactor)
        stored, rules = self._store.normalised(request)
        stored, in_request = self._without_secrets(stored)
        redactions = _entries("request", in_request) + _entries("response", in_answer)
        answer = replace(answer, meta=self._meta(redactions, rules))
        later = _with_own_meta(committed)[len(before) + 1 :] if committed is not None else ()
        answers = _collapsed([*before, answer, *later])
        fixture = Fixture(key, answers, stored, answers[0].meta)
        self._refuse_secrets(fixture)
        if overwrite:
            self._store.replace(fixture)
        else:
            self._store.add(fixture)
        return answer

    def stage_failure(self, failure: Exchange, *, overwrite: bool) -> None:
        """Stage a failure; see :meth:`stage`."""
        wire, _ = self._redactor.json(failure.wire)
        if isinstance(wire, dict):
            failure = replace(failure, wire=wire)
        places = self._redactor.left_in(failure.wire)
        if places:
            raise RecordingRefused(f"wire.{place}" for place in places)
        self._store.add_exchange(failure, overwrite=overwrite)

    def _without_secrets(self, request: LlmRequest) -> tuple[LlmRequest, list[Hit]]:
        plain, hits = self._redactor.json(request.to_dict())
        if not hits or not isinstance(plain, dict):
            return request, hits
        return LlmRequest.from_dict({"model": request.model, **plain}), hits

    def _meta(self, redactions: list[JsonValue], rules: Sequence[str]) -> dict[str, JsonValue]:
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        meta: dict[str, JsonValue] = {
            "recorded_at": now,
            "adapter": self._adapter_id,
            "version": _version(),
        }
        if redactions:
            meta["redactions"] = redactions
        if rules:
            meta["normalisers"] = list(rules)
        return meta

    def _refuse_secrets(self, fixture: Fixture) -> None:
        places = self._redactor.left_in(orjson.loads(render_fixture(fixture)))
        if places:
            raise RecordingRefused(places)


def _entries(where: str, hits: Iterable[Hit]) -> list[JsonValue]:
    counts: dict[str, int] = {}
    for hit in hits:
        counts[hit.rule] = counts.get(hit.rule, 0) + hit.count
    return [{"kind": "value", "where": where, "rule": rule, "count": count} for rule, count in counts.items()]


def _with_own_meta(fixture: Fixture) -> tuple[Answer, ...]:
    """A fixture's answers, the first with the meta that the fixture holds for it."""
    first, *then = fixture.answers
    return (replace(first, meta=fixture.meta), *then)


def _collapsed(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """One answer where all say the same: then it is the answer to every call."""
    is_one = len({essence_of_answer(answer) for answer in answers}) == 1
    return (answers[0],) if is_one else tuple(answers)


@cache
def _version() -> str:
    return importlib.metadata.version("cortex-replay")
