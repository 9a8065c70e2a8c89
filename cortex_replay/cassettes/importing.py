"""From interactions to what a store holds, staged to be committed at once.

A cassette is a scope, as a test is: the n-th interaction with a key is its answer n. Cassettes that have one
key share its answers; where they say something else, the first that was read is kept, and the other is
listed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.cassettes.documents import CassetteError, read_document
from cortex_replay.cassettes.interactions import Interaction, interactions_in, is_json
from cortex_replay.cassettes.places import Places
from cortex_replay.cassettes.report import ImportReport, Omission
from cortex_replay.disk import scratch_folder
from cortex_replay.engine.fixtures import FixtureMaker, answers_in
from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.opaque import (
    encode_body,
    is_worth_keeping,
    opaque_exchange,
    opaque_key,
    opaque_request,
)
from cortex_replay.engine.http.question import document_in
from cortex_replay.engine.http.relay import client_keys_in, recordable_headers
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.http.tapes import AnswerTape, StreamTape, answer_of_body
from cortex_replay.engine.outcomes import Outcome, recorded_outcome
from cortex_replay.engine.redaction import redact_answer
from cortex_replay.engine.staging import RedactingStager, clean_wire
from cortex_replay.errors import FixtureIntegrityFailed, InvalidRequest, LlmError, RecordingRefused
from cortex_replay.modes import Mode
from cortex_replay.redact.process import learn_secret
from cortex_replay.redact.redactor import Redactor
from cortex_replay.secret_names.wordlike import reads_like_words
from cortex_replay.store import Answer, FixtureKey, Store
from cortex_replay.store.changes import Add, Pin, Remove, essence_of_answer, essence_of_exchange
from cortex_replay.store.check import CheckReport
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.store.writer import StoreWriter
from cortex_replay.types import LlmRequest
from cortex_replay.wire import STREAM_MEDIA_TYPES, WIRES

__all__ = ["Importer", "open_dry_run"]

_SHORTEST_KEY: Final = 16
"""What stands in place of a key that was filtered out is shorter or words, and may stand in any text."""
_KEPT: Final = "the store has another answer, which is kept (--mode record overwrites it)"


class _Source(NamedTuple):
    file: Path
    number: int
    call: str


class _Entry(NamedTuple):
    """What one interaction says about a key."""

    source: _Source
    request: LlmRequest
    outcome: Outcome
    """An answer, or how a failure went over the wire."""

    @property
    def is_failure(self) -> bool:
        return isinstance(self.outcome, Exchange)

    def redact(self, redactor: Redactor) -> Outcome:
        if isinstance(self.outcome, Exchange):
            return Exchange(clean_wire(self.outcome.wire, redactor))
        return redact_answer(self.outcome, redactor)[0]


@dataclass
class _Scope:
    """How far one cassette has come."""

    turns: dict[FixtureKey, int] = field(default_factory=dict)
    conflicts: dict[FixtureKey, _Source] = field(default_factory=dict)
    """The keys under which it says something else than a cassette before it."""


class Importer:
    """Reads cassettes and stages what is in them. It is a class to hold what they share: keys, and who said
    what first.

    Args:
        store: Where to; the caller commits.
        mode: Whether what it has is kept (``once``) or overwritten (``record``).
        places: Whose API an address is.
        redactor: Makes what cuts secrets out, given the keys that cassettes hold.
        record_failures: Whether errors of providers are answers to be recorded.
    """

    def __init__(
        self,
        store: Store,
        mode: Mode,
        places: Places,
        redactor: Callable[[Collection[str]], Redactor],
        *,
        record_failures: bool = False,
    ) -> None:
        self.report = ImportReport()
        self._store = store
        self._overwrites = mode is Mode.RECORD
        self._places = places
        self._make_redactor = redactor
        self._redactor = redactor(())
        self._keys: set[str] = set()
        self._record_failures = record_failures
        self._entries: dict[FixtureKey, list[_Entry]] = {}
        self._exchanges: dict[str, tuple[_Source, Exchange]] = {}

    def stage(self, files: Iterable[Path]) -> ImportReport:
        """Stage what is in these files. All are read first: a key in one may stand in another."""
        cassettes = [(file, self._read(file)) for file in files]
        self._redactor = self._make_redactor(self._keys)
        for file, interactions in cassettes:
            scope = _Scope()
            for number, interaction in interactions:
                source = _Source(file, number, interaction.call)
                try:
                    problem = self._take(source, interaction, scope)
                except (InvalidRequest, ValueError, RecursionError) as error:
                    problem = f"it holds what no recording can: {type(error).__name__}"
                if problem is not None:
                    self._skip(source, problem)
        for key, entries in self._entries.items():
            self._stage_key(key, entries)
        for source, exchange in self._exchanges.values():
            self._stage_exchange(source, exchange)
        self.report.not_converted.sort(key=lambda left: (left.file, left.number or 0))
        return self.report

    def _read(self, file: Path) -> list[tuple[int, Interaction]]:
        found: list[tuple[int, Interaction]] = []
        try:
            for number, interaction, call in interactions_in(read_document(file)):
                self.report.interactions += 1
                if isinstance(interaction, CassetteError):
                    self._skip(_Source(file, number, call), str(interaction))
                    continue
                self._learn_keys(interaction)
                found.append((number, interaction))
        except CassetteError as error:
            self.report.not_converted.append(Omission(str(file), None, "", str(error)))
            return []
        self.report.cassettes += 1
        return found

    def _learn_keys(self, interaction: Interaction) -> None:
        headers = (*interaction.request_headers, *interaction.headers)
        found = client_keys_in(headers, interaction.query)
        keys = [key for key in found if len(key) >= _SHORTEST_KEY or not reads_like_words(key)]
        self._keys.update(keys)
        for key in keys:
            learn_secret(key)  # what is not converted is listed

    def _skip(self, source: _Source, reason: str) -> None:
        self.report.not_converted.append(Omission(str(source.file), source.number, source.call, reason))

    def _take(self, source: _Source, interaction: Interaction, scope: _Scope) -> str | None:
        """Note what an interaction says; gives the reason if it cannot be converted."""
        route = self._places.route(
            interaction.method, interaction.host, interaction.path, interaction.request_header
        )
        if route is None:
            return "no model is known at this host (--host names one, --all takes everything)"
        if route.protocol is not None and not interaction.request_header("content-encoding"):
            body = _document_in(interaction.request_body, route)
            if not isinstance(body, dict) or "model" not in body:
                return "what was asked is not in the cassette: the body is no request of this API"
            try:
                request = WIRES[route.protocol].lift(body)
            except InvalidRequest:
                pass  # recorded as it is, as the gateway does
            else:
                return self._take_completion(source, interaction, scope, route.protocol, request, body)
        return self._take_opaque(source, interaction, route)

    def _take_completion(
        self,
        source: _Source,
        interaction: Interaction,
        scope: _Scope,
        protocol: str,
        request: LlmRequest,
        body: dict[str, JsonValue],
    ) -> str | None:
        status = interaction.status
        outcome: Outcome
        if status == 200:
            try:
                outcome = _answer_in(interaction, protocol, request, WIRES[protocol].wants_stream(body))
            except LlmError as error:
                return f"the answer is not whole, or not of its protocol: {error}"
        elif status < 400:
            return f"the answer is no completion: status {status}"
        elif not self._record_failures:
            return f"the answer is an error: status {status} (--record-failures takes it)"
        else:
            headers = _headers_of(interaction, "application/json")
            content = encode_body(interaction.body)
            outcome = Exchange({"protocol": protocol, "status": status, "headers": headers, **content})
        return self._note(_Entry(source, request, outcome), scope)

    def _note(self, entry: _Entry, scope: _Scope) -> str | None:
        """Put an outcome in its turn, unless another cassette has another one there."""
        key = self._store.key(entry.request)
        known = self._entries.setdefault(key, [])
        turn = scope.turns.get(key, 0)
        scope.turns[key] = turn + 1
        if turn < len(known) and _essence(known[turn].outcome) == _essence(entry.outcome):
            self.report.repeated += 1
            return None
        if turn < len(known):
            scope.conflicts.setdefault(key, known[turn].source)
        if key in scope.conflicts:
            other = scope.conflicts[key]
            return f"another cassette answers the same question otherwise: {other.file} #{other.number}"
        known.append(entry)
        return None

    def _take_opaque(self, source: _Source, interaction: Interaction, route: Route) -> str | None:
        if not is_worth_keeping(interaction.status):
            return f"the answer would not be the same tomorrow: status {interaction.status}"
        media_type = _media_type(interaction)
        is_called_json = media_type == "application/json" and interaction.method != "HEAD"
        if is_called_json and interaction.body and not is_json(interaction.body):
            return "the answer is not the JSON that it should be"
        call = Call(
            interaction.method,
            Route(route.upstream, route.path, None),
            interaction.query,
            interaction.request_headers,
            interaction.request_body,
        )
        request = opaque_request(call)
        try:
            RedactingStager(self._store, self._redactor).refuse_request(request, interaction.query)
        except RecordingRefused:
            return "there is a secret in what was asked"
        content = encode_body(interaction.body)
        if media_type in STREAM_MEDIA_TYPES:
            tape = _StillStream(media_type)
            tape.add(interaction.body)
            content = tape.content()
        wire: dict[str, JsonValue] = {
            "status": interaction.status,
            "headers": _headers_of(interaction, None),
            **content,
        }
        exchange = opaque_exchange(request, wire)
        known = self._exchanges.setdefault(opaque_key(request), (source, exchange))
        if known[0] is source:
            return None
        if essence_of_exchange(known[1]) == essence_of_exchange(exchange):
            self.report.repeated += 1
            return None
        other = known[0]
        return f"the same call is answered otherwise: {other.file} #{other.number}; it has one answer only"

    def _stage_key(self, key: FixtureKey, entries: Sequence[_Entry]) -> None:
        maker = FixtureMaker(self._store, self._redactor)
        committed = answers_in(self._store, key)
        failures = self._store.failures(*key) if self._store.has_failures(*key) else {}
        new = list(entries)
        if committed or failures:
            if self._overwrites:
                ours = {i for i, entry in enumerate(entries, 1) if entry.is_failure}
                for n in failures.keys() - ours:
                    maker.drop_failures(key, n, and_later=False)
                self.report.overwritten += any(
                    _essence(recorded_outcome(committed, failures, n))
                    != _essence(entry.redact(self._redactor))
                    for n, entry in enumerate(entries, 1)
                )
            else:
                new = self._additions(entries, committed, failures)
                if not new:
                    return
        successes: list[Answer] = []
        for i, entry in enumerate(entries, 1):
            try:
                self._stage_entry(key, i, entry, successes)
            except (RecordingRefused, FixtureIntegrityFailed) as error:
                for left in entries[i - 1 :]:
                    self._skip(left.source, _refusal(error))
                return
            if entry not in new:
                self.report.repeated += 1
            elif entry.is_failure:
                self.report.failures += 1
            else:
                self.report.answers += 1

    def _stage_entry(self, key: FixtureKey, n: int, entry: _Entry, successes: list[Answer]) -> None:
        maker = FixtureMaker(self._store, self._redactor)
        if isinstance(entry.outcome, Exchange):
            failure = Exchange.failure(key, n, entry.outcome.wire)
            staged = maker.stage_failure(failure, overwrite=self._overwrites)
            self.report.redacted += staged != failure
            return
        origin: dict[str, JsonValue] = {
            "adapter": "import",
            "cassette": "/".join(entry.source.file.parts[-2:]),
            "interaction": entry.source.number,
        }
        kept = maker.stage(
            entry.request, key, successes, entry.outcome, (), origin, overwrite=self._overwrites
        )
        self.report.redacted += "redactions" in (kept.meta or {})
        successes.append(kept)

    def _additions(
        self, entries: Sequence[_Entry], committed: Sequence[Answer], failures: Mapping[int, Exchange]
    ) -> list[_Entry]:
        """What the store has not, if that can be added to what it has; the rest is counted or listed."""
        ours = [_essence(entry.redact(self._redactor)) for entry in entries]
        there = [_essence(recorded_outcome(committed, failures, n)) for n in range(1, len(entries) + 1)]
        if not failures and not any(entry.is_failure for entry in entries):
            distinct = ours[:1] if len(set(ours)) == 1 else ours
            recorded = [essence_of_answer(answer) for answer in committed]
            if len(distinct) > len(recorded) and distinct[: len(recorded)] == recorded:
                return list(entries[len(recorded) :])
        for entry, mine, other in zip(entries, ours, there, strict=True):
            if mine == other:
                self.report.repeated += 1
            else:
                self._skip(entry.source, _KEPT)
        return []

    def _stage_exchange(self, source: _Source, exchange: Exchange) -> None:
        door = RedactingStager(self._store, self._redactor)
        try:
            stored = door.clean_exchange(exchange)
        except RecordingRefused as error:
            self._skip(source, _refusal(error, "the answer"))
            return
        there = self._store.exchange(stored.key or "")
        is_same = there is not None and essence_of_exchange(there) == essence_of_exchange(stored)
        if there is not None and not is_same and not self._overwrites:
            self._skip(source, _KEPT)
            return
        if is_same:
            self.report.repeated += 1
            return
        try:
            door.stage_exchange(stored, overwrite=self._overwrites)
        except FixtureIntegrityFailed as error:
            self._skip(source, _refusal(error))
            return
        self.report.exchanges += 1
        self.report.overwritten += there is not None
        self.report.redacted += stored != exchange


class _StillStream(StreamTape):
    """A stream of which nobody knows when its events came."""

    at_ms = 0


class _StillAnswer(AnswerTape):
    """The same, of an answer."""

    at_ms = 0


def _answer_in(interaction: Interaction, protocol: str, request: LlmRequest, wants_stream: bool) -> Answer:
    """The answer with the bytes that it came in.

    Raises:
        LlmError: It is none.
    """
    media_type = _media_type(interaction)
    if media_type in STREAM_MEDIA_TYPES or (not media_type and wants_stream):
        media_type = media_type or WIRES[protocol].stream_media_type
        tape = _StillAnswer(request, protocol, media_type)
        tape.add(interaction.body)
        tape.end()
        if tape.response is None:
            assert tape.problem is not None  # noqa: S101 - it is one or the other
            raise tape.problem
        return tape.answer(_headers_of(interaction, media_type))
    return answer_of_body(request, protocol, interaction.body, _headers_of(interaction, "application/json"))[
        0
    ]


def _media_type(interaction: Interaction) -> str:
    return interaction.header("content-type").partition(";")[0].strip().lower()


def _headers_of(interaction: Interaction, media_type: str | None) -> dict[str, JsonValue]:
    """What a recording keeps of them; and a type, which a filter may have taken, and SDKs rely on."""
    headers: dict[str, JsonValue] = dict(recordable_headers(list(interaction.headers)))
    if media_type is not None:
        headers.setdefault("content-type", media_type)
    return headers


def _document_in(body: bytes, route: Route) -> object:
    try:
        return document_in(body, route.parameters)
    except orjson.JSONDecodeError:
        return None


def _essence(outcome: Outcome | None) -> bytes | None:
    if outcome is None:
        return None
    return essence_of_exchange(outcome)[0] if isinstance(outcome, Exchange) else essence_of_answer(outcome)


def _refusal(error: RecordingRefused | FixtureIntegrityFailed, what: str = "it") -> str:
    if isinstance(error, RecordingRefused):
        return str(error) if error.clearance else f"a secret could not be cut out of {what}"
    return f"it would not be trusted: {'; '.join(issue.reason for issue in error.issues)}"


class _DryRunStore(Store):
    """A store that is read, and only seems to be changed."""

    def __init__(self, source: DirectorySource, report: CheckReport) -> None:
        super().__init__(source, report)
        self._writer = _IdleWriter(source, report.layout)


class _IdleWriter(StoreWriter):
    def stage(self, change: Add | Remove | Pin, data: bytes = b"") -> None:
        """Everything was checked; nothing is written."""


@contextmanager
def open_dry_run(root: Path) -> Iterator[Store]:
    """A store to try an import on; where there is none, an empty one that is nowhere.

    Raises:
        FixtureIntegrityFailed: The store is not what its index says.
    """
    if (root / INDEX_NAME).exists():
        yield _DryRunStore.open(root, verify="on-read")
        return
    with scratch_folder() as folder:
        store = _DryRunStore.create(folder)
        store.root = root  # whose rules for keys are to apply
        yield store
