"""Whole sequences that another tool recorded, staged for the scope that they are of.

Each scope keeps its own, to the byte: its test may look at ids, counts and texts of errors. What is equal is
stored once (`docs/store-format.md`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.exchange_lookup import look_up_exchange
from cortex_replay.engine.exchanges import join_answers
from cortex_replay.engine.fixtures import FixtureMaker, answers_in
from cortex_replay.engine.lookup import binder_of_nowhere, look_up
from cortex_replay.engine.outcomes import Outcome
from cortex_replay.engine.staging import RedactingStager
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Answer, FixtureKey, Store
from cortex_replay.store.changes import essence_of_exchange, exact_essence_of_answer
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.index.index import ScopedRow
from cortex_replay.types import LlmRequest

__all__ = ["Fate", "Outcomes", "SequenceStager", "StagedSequence"]

Outcomes = Sequence[tuple[Outcome, Mapping[str, JsonValue]]]
"""Answers and failures in the order of the calls, each with its origin; of a failure, the wire counts."""
_Said = tuple[tuple[bytes, ...], tuple[tuple[int, bytes], ...]]
"""What a sequence says: its answers, and its failures by number. Equal ones are the same to every caller."""


class Fate(Enum):
    """What became of one outcome."""

    NEW = auto()
    KNOWN = auto()
    """The store, or another scope of this import, has the same."""
    KEPT = auto()
    """The scope has something else in the store, which stays."""


class StagedSequence(NamedTuple):
    """What became of a sequence."""

    fates: list[Fate]
    redacted: int = 0
    """In how many of the new ones a secret was found and cut out."""
    overwrites: bool = False
    """Whether it takes the place of something else that the scope had."""


class _Fates(NamedTuple):
    fates: list[Fate]
    is_staged: bool


class SequenceStager:
    """Stages sequences; a class to know what it has staged for other scopes.

    Args:
        store: Where to; the caller commits.
        redactor: What to cut out.
        overwrite: Whether other answers that a scope has in the store give way, or stay.
    """

    def __init__(self, store: Store, redactor: Redactor, *, overwrite: bool = False) -> None:
        self._store = store
        self._redactor = redactor
        self._overwrite = overwrite
        self._stager = RedactingStager(store, redactor)
        self._binder = binder_of_nowhere(store)
        self._known: defaultdict[FixtureKey | str, set[_Said]] = defaultdict(set)

    def key(self, request: LlmRequest) -> FixtureKey:
        """What a request is staged under."""
        return look_up(self._store, self._binder, request).key

    def exchange_key(self, request: dict[str, JsonValue]) -> str:
        """What a call that is recorded as it is is staged under."""
        return look_up_exchange(self._binder, request).key

    def stage(self, scope: str, requests: Sequence[LlmRequest], outcomes: Outcomes) -> StagedSequence:
        """Stage all that a scope was answered to one question.

        Args:
            scope: Whose it is, as ``scope_name`` gives it.
            requests: What was asked, call by call: they have one key, and may differ in what is bound.
            outcomes: What came back, call by call: answers, and exchanges where it was no completion.

        Raises:
            RecordingRefused: A secret could not be cut out, or stands in the scope's name.
            FixtureIntegrityFailed: It would not be trusted once it is written.
        """
        looks = [look_up(self._store, self._binder, request) for request in requests]
        key = looks[0].key
        maker = FixtureMaker(self._store, self._redactor, scope)
        made: list[Outcome] = []
        redacted = 0
        stored = requests[0]
        calls = zip(requests, looks, outcomes, strict=True)
        for n, (request, look, (outcome, origin)) in enumerate(calls, start=1):
            if isinstance(outcome, Answer):
                stored, answer = maker.prepare(request, look, outcome, origin)
                made.append(answer)
                redacted += "redactions" in (answer.meta or {})
            else:
                failure = Exchange.failure(key, n, outcome.wire)
                clean = self._stager.clean_exchange(failure)
                made.append(maker.bind_failure(clean, request, look))
                redacted += clean != failure
        answers = _collapse([one for one in made if isinstance(one, Answer)])
        failures = {n: one for n, one in enumerate(made, start=1) if isinstance(one, Exchange)}
        old = self._own(scope, key)
        said = _said(answers, failures)
        fates = self._fates(key, [_essence(one) for one in made], said, old)
        is_staged = fates.is_staged
        if is_staged and old is not None and self._overwrite:
            self._store.remove(*key, scope)
        if is_staged and answers:
            maker.stage_answers(key, stored, answers, overwrite=self._overwrite, is_exact=True)
        for failure in failures.values() if is_staged else ():
            self._stager.stage_clean(failure, overwrite=self._overwrite, scope=scope, is_exact=True)
        return StagedSequence(fates.fates, redacted if is_staged else 0, is_staged and old is not None)

    def stage_exchange(
        self, scope: str, requests: Sequence[dict[str, JsonValue]], wires: Sequence[dict[str, JsonValue]]
    ) -> StagedSequence:
        """Stage all that a scope was answered to one call that is recorded as it is; see :meth:`stage`.

        Args:
            scope: Whose it is.
            requests: What was asked, call by call.
            wires: What came back, call by call.
        """
        redacted = 0
        answers = []
        for asked, wire in zip(requests, wires, strict=True):
            answer = self._stager.clean_exchange(Exchange(wire, request=asked))
            redacted += answer.wire != wire
            answers.append(look_up_exchange(self._binder, asked).bind(answer))
        essences = [essence_of_exchange(answer)[0] for answer in answers]
        clean = join_answers(answers, look_up_exchange(self._binder, requests[0]))
        old = self._own_exchange(scope, clean.key or "")
        fates = self._fates(clean.key or "", essences, (essence_of_exchange(clean), ()), old)
        if fates.is_staged:
            self._stager.stage_clean(clean, overwrite=self._overwrite, scope=scope, is_exact=True)
        return StagedSequence(
            fates.fates, redacted if fates.is_staged else 0, fates.is_staged and old is not None
        )

    def _own(self, scope: str, key: FixtureKey) -> _Said | None:
        """What a scope has in the store, if it is its own; what others share is noted."""
        store = self._store
        if not store.rows(*key, scope):
            return None
        answers, failures = answers_in(store, key, scope), store.failures(*key, scope)
        first = answers[0] if answers else failures[min(failures)]
        is_own = store.has_own(*key, scope) or (first.meta or {}).get("scope") == scope
        return self._note(key, _said(answers, failures), is_own=is_own)

    def _own_exchange(self, scope: str, key: str) -> _Said | None:
        there = self._store.exchange(key, scope)
        if there is None:
            return None
        is_own = isinstance(self._store.exchange_row(key, scope), ScopedRow)
        is_own = is_own or (there.meta or {}).get("scope") == scope
        return self._note(key, (essence_of_exchange(there), ()), is_own=is_own)

    def _note(self, key: FixtureKey | str, said: _Said, *, is_own: bool) -> _Said | None:
        self._known[key].add(said)
        return said if is_own else None

    def _fates(
        self, key: FixtureKey | str, essences: Sequence[bytes], new: _Said, old: _Said | None
    ) -> _Fates:
        """What becomes of each outcome, given what the sequence and that of the store say."""
        known = new in self._known[key]
        self._known[key].add(new)
        count = len(essences)
        if old is None:  # also where it is known: the scope gets rows of its own
            return _Fates([Fate.KNOWN if known else Fate.NEW] * count, is_staged=True)
        if old == new:
            return _Fates([Fate.KNOWN] * count, is_staged=False)
        if self._overwrite:
            return _Fates([Fate.NEW] * count, is_staged=True)
        there, failed = old
        if not failed and not new[1] and new[0][: len(there)] == there:
            return _Fates([Fate.KNOWN] * len(there) + [Fate.NEW] * (count - len(there)), is_staged=True)
        fates = [
            Fate.KNOWN if one == _nth(there, dict(failed), n) else Fate.KEPT
            for n, one in enumerate(essences, start=1)
        ]
        return _Fates(fates, is_staged=False)


def _said(answers: Sequence[Answer], failures: Mapping[int, Exchange]) -> _Said:
    failed = sorted((n, essence_of_exchange(failure)[0]) for n, failure in failures.items())
    return tuple(map(exact_essence_of_answer, answers)), tuple(failed)


def _nth(answers: Sequence[bytes], failures: Mapping[int, bytes], n: int) -> bytes | None:
    """What call ``n`` gets, as :func:`.outcomes.recorded_outcome` has it."""
    if n in failures or len(answers) == 1:
        return failures.get(n) or answers[0]
    position = n - 1 - sum(failed < n for failed in failures)
    return answers[position] if position < len(answers) else None


def _collapse(answers: Sequence[Answer]) -> Sequence[Answer]:
    """One answer where all are the same to the byte: then it is the answer to every call."""
    return answers[:1] if len(set(map(exact_essence_of_answer, answers))) == 1 else answers


def _essence(outcome: Outcome) -> bytes:
    if isinstance(outcome, Exchange):
        return essence_of_exchange(outcome)[0]
    return exact_essence_of_answer(outcome)
