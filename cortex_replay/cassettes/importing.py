"""From interactions to what a store holds, staged to be committed at once.

A cassette is of a scope, that of its test: the n-th interaction with a key is its answer n. What came back is
taken, errors too: the test that recorded it wanted it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.cassettes.defaults import plainer_forms
from cortex_replay.cassettes.documents import CassetteError, read_document
from cortex_replay.cassettes.frames import CassetteSession, sessions_in
from cortex_replay.cassettes.interactions import Interaction, interactions_in
from cortex_replay.cassettes.places import Places
from cortex_replay.cassettes.report import ImportReport, Omission
from cortex_replay.cassettes.scopes import CassetteScopes
from cortex_replay.disk import scratch_folder
from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.opaque import encode_body, opaque_request
from cortex_replay.engine.http.other_calls import is_other, recordable_other_headers
from cortex_replay.engine.http.question import document_in
from cortex_replay.engine.http.relay import client_keys_in, recordable_headers
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.http.tapes import AnswerTape, StreamTape, answer_of_body
from cortex_replay.engine.outcomes import Outcome
from cortex_replay.engine.sequences import Fate, SequenceStager, StagedSequence
from cortex_replay.engine.staging import RedactingStager
from cortex_replay.errors import FixtureIntegrityFailed, InvalidRequest, LlmError, RecordingRefused
from cortex_replay.modes import Mode
from cortex_replay.redact.process import learn_secret
from cortex_replay.redact.redactor import Redactor
from cortex_replay.secret_names.wordlike import reads_like_words
from cortex_replay.store import Answer, FixtureKey, Store
from cortex_replay.store.answers import answer_problem
from cortex_replay.store.changes import Add, Pin, Remove
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.growing import Growing
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.store.writer import StoreWriter
from cortex_replay.types import LlmRequest
from cortex_replay.wire import WIRES, stream_media_types

__all__ = ["Importer", "open_dry_run"]

_SHORTEST_KEY: Final = 16
"""What stands in place of a key that was filtered out is shorter or words, and may stand in any text."""
_KEPT: Final = "its test has another answer in the store, which is kept (--mode record overwrites it)"


_Recording = Interaction | CassetteSession


class _Source(NamedTuple):
    file: Path
    number: int
    call: str


class _Entry(NamedTuple):
    """What one interaction says about a question."""

    source: _Source
    request: LlmRequest
    outcome: Outcome
    """An answer, or how something else went over the wire."""


class _OpaqueEntry(NamedTuple):
    """What one interaction says about a call that is recorded as it is."""

    source: _Source
    request: dict[str, JsonValue]
    wire: dict[str, JsonValue]


@dataclass
class _Sequences:
    """What the cassettes of one scope say, in their order."""

    completions: dict[FixtureKey, list[_Entry]] = field(default_factory=dict)
    without_defaults: dict[FixtureKey, list[_Entry]] = field(default_factory=dict)
    """The same, as a later version of the client may ask it."""
    opaque: dict[str, list[_OpaqueEntry]] = field(default_factory=dict)


class Importer:
    """Reads cassettes and stages what is in them. It is a class to hold what they share: keys, and scopes, of
    which each may have several.

    Args:
        store: Where to; the caller commits.
        mode: Whether what a scope has is kept (``once``) or overwritten (``record``).
        places: Whose API an address is.
        redactor: Makes what cuts secrets out, given the keys that cassettes hold.
        scopes: Whose cassette a file is.
    """

    def __init__(
        self,
        store: Store,
        mode: Mode,
        places: Places,
        redactor: Callable[[Collection[str]], Redactor],
        scopes: CassetteScopes | None = None,
    ) -> None:
        self.report = ImportReport()
        self._store = store
        self._overwrites = mode is Mode.RECORD
        self._places = places
        self._make_redactor = redactor
        self._redactor = redactor(())
        self._keys: set[str] = set()
        self._tests = scopes or CassetteScopes()
        self._counted: set[_Source] = set()

    def stage(self, files: Iterable[Path]) -> ImportReport:
        """Stage what is in these files. All are read first: a key in one may stand in another."""
        cassettes = [(file, self._read(file)) for file in files]
        self._redactor = self._make_redactor(self._keys)
        stager = SequenceStager(self._store, self._redactor, overwrite=self._overwrites)
        scopes: dict[str, _Sequences] = {}
        for file, interactions in cassettes:
            names, is_known = self._tests.of(file) if interactions else ([], True)
            if not is_known:
                self.report.without_test.append(str(file))
            sequences = [scopes.setdefault(name, _Sequences()) for name in names]
            for number, interaction in interactions:
                self._place(stager, _Source(file, number, interaction.call), interaction, sequences)
        for scope, said in scopes.items():
            for entries in (said.without_defaults | said.completions).values():
                self._stage_completions(stager, scope, entries)
            for calls in said.opaque.values():
                self._stage_calls(stager, scope, calls)
        self.report.not_converted.sort(key=lambda left: (left.file, left.number or 0))
        return self.report

    def _read(self, file: Path) -> list[tuple[int, _Recording]]:
        found: list[tuple[int, _Recording]] = []
        try:
            document = read_document(file)
            sessions = sessions_in(document, file)
            if sessions is not None:
                self.report.cassettes += 1
                self.report.interactions += len(sessions)
                return [(session.number, session) for session in sessions]
            for number, interaction, call in interactions_in(document):
                self.report.interactions += 1
                if isinstance(interaction, CassetteError):
                    self._skip(_Source(file, number, call), str(interaction))
                    continue
                self.report.changed += interaction.is_changed
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
        """List what is not converted; once, of how many scopes it may be."""
        if self._count(source):
            self.report.not_converted.append(Omission(str(source.file), source.number, source.call, reason))

    def _count(self, source: _Source) -> bool:
        is_first = source not in self._counted
        self._counted.add(source)
        return is_first

    def _place(
        self, stager: SequenceStager, source: _Source, recording: _Recording, scopes: Iterable[_Sequences]
    ) -> None:
        """Put what an interaction says behind what its scopes have."""
        taken: _Entry | _OpaqueEntry | str
        try:
            if isinstance(recording, CassetteSession):
                taken = _OpaqueEntry(source, recording.request, recording.wire)
            else:
                taken = self._take(source, recording)
        except (InvalidRequest, ValueError, RecursionError) as error:
            taken = f"it holds what no recording can: {type(error).__name__}"
        if isinstance(taken, str):
            self._skip(source, taken)
            return
        for scope in scopes:
            if isinstance(taken, _Entry):
                scope.completions.setdefault(stager.key(taken.request), []).append(taken)
                for plain in plainer_forms(taken.request):
                    entry = taken._replace(request=plain)
                    scope.without_defaults.setdefault(stager.key(plain), []).append(entry)
            else:
                scope.opaque.setdefault(stager.exchange_key(taken.request), []).append(taken)

    def _take(self, source: _Source, interaction: Interaction) -> _Entry | _OpaqueEntry | str:
        """What an interaction says, or the reason why it cannot be converted."""
        route = self._places.route(interaction)
        if route is None:
            return "no model is known at this host (--host names one, --all takes everything)"
        is_lifted = route.is_lifted(interaction.query) and not interaction.request_header("content-encoding")
        if is_lifted and route.protocol is not None:
            body = _document_in(interaction.request_body, route)
            if not isinstance(body, dict) or "model" not in body:
                return "what was asked is not in the cassette: the body is no request of this API"
            try:
                request = WIRES[route.protocol].lift(body)
            except InvalidRequest:
                pass  # recorded as it is, as the gateway does
            else:
                wants_stream = WIRES[route.protocol].wants_stream(body)
                return _Entry(
                    source, request, _outcome_in(interaction, route.protocol, request, wants_stream)
                )
        return self._take_opaque(source, interaction, route)

    def _take_opaque(self, source: _Source, interaction: Interaction, route: Route) -> _OpaqueEntry | str:
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
        wire: dict[str, JsonValue] = {
            "status": interaction.status,
            "headers": _opaque_headers_of(interaction, route),
            **_content_in(interaction),
        }
        return _OpaqueEntry(source, request, wire)

    def _stage_completions(self, stager: SequenceStager, scope: str, entries: Sequence[_Entry]) -> None:
        outcomes = [(entry.outcome, _origin_of(entry.source)) for entry in entries]
        try:
            staged = stager.stage(scope, [entry.request for entry in entries], outcomes)
        except (RecordingRefused, FixtureIntegrityFailed) as error:
            for entry in entries:
                self._skip(entry.source, _refusal(error))
            return
        self._report(staged, entries)

    def _stage_calls(self, stager: SequenceStager, scope: str, calls: Sequence[_OpaqueEntry]) -> None:
        try:
            requests = [call.request for call in calls]
            staged = stager.stage_exchange(scope, requests, [call.wire for call in calls])
        except (RecordingRefused, FixtureIntegrityFailed) as error:
            for call in calls:
                self._skip(call.source, _refusal(error, "the answer"))
            return
        self._report(staged, calls)

    def _report(self, staged: StagedSequence, entries: Sequence[_Entry | _OpaqueEntry]) -> None:
        report = self.report
        if not all(entry.source in self._counted for entry in entries):
            report.redacted += staged.redacted
            report.overwritten += staged.overwrites and self._overwrites
        for fate, entry in zip(staged.fates, entries, strict=True):
            if fate is Fate.KEPT:
                self._skip(entry.source, _KEPT)
            elif not self._count(entry.source):
                continue
            elif fate is Fate.KNOWN:
                report.repeated += 1
            elif isinstance(entry, _OpaqueEntry):
                report.exchanges += 1
            elif isinstance(entry.outcome, Exchange):
                report.failures += 1
            else:
                report.answers += 1


def _origin_of(source: _Source) -> dict[str, JsonValue]:
    return {
        "adapter": "import",
        "cassette": "/".join(source.file.parts[-2:]),
        "interaction": source.number,
    }


class _StillStream(StreamTape):
    """A stream of which nobody knows when its events came."""

    at_ms = 0


class _StillAnswer(AnswerTape):
    """The same, of an answer."""

    at_ms = 0


def _outcome_in(interaction: Interaction, protocol: str, request: LlmRequest, wants_stream: bool) -> Outcome:
    """What came back, with the bytes that it came in: an answer, or whatever else it was."""
    media_type = _media_type(interaction)
    is_stream = media_type in stream_media_types() or (not media_type and wants_stream)
    shown = (media_type or WIRES[protocol].stream_media_type) if is_stream else "application/json"
    headers = _headers_of(interaction, shown)
    if interaction.status == 200:
        answer = _answer_in(interaction.body, protocol, request, headers, shown if is_stream else None)
        if answer is not None and answer_problem(answer, request.model) is None:
            return answer
    content = _content_in(interaction)
    return Exchange(
        {
            "protocol": protocol,
            "stream": is_stream,
            "status": interaction.status,
            "headers": headers,
            **content,
        }
    )


def _answer_in(
    body: bytes,
    protocol: str,
    request: LlmRequest,
    headers: dict[str, JsonValue],
    stream_type: str | None,
) -> Answer | None:
    """The completion that a body holds, if it holds a whole one."""
    if stream_type is not None:
        tape = _StillAnswer(request, protocol, stream_type)
        tape.add(body)
        tape.end()
        return None if tape.response is None else tape.answer(headers)
    try:
        return answer_of_body(request, protocol, body, headers)[0]
    except LlmError:
        return None


def _content_in(interaction: Interaction) -> dict[str, JsonValue]:
    """The body of an answer as a recording holds it."""
    media_type = _media_type(interaction)
    if media_type not in stream_media_types():
        return encode_body(interaction.body)
    tape = _StillStream(media_type)
    tape.add(interaction.body)
    return tape.content()


def _media_type(interaction: Interaction) -> str:
    return interaction.header("content-type").partition(";")[0].strip().lower()


def _opaque_headers_of(interaction: Interaction, route: Route) -> dict[str, JsonValue]:
    """What a recorder would have kept of a call that is recorded as it is."""
    if is_other(route.upstream):
        return dict(recordable_other_headers(list(interaction.headers), interaction.method))
    return _headers_of(interaction, None)


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


def _refusal(error: RecordingRefused | FixtureIntegrityFailed, what: str = "it") -> str:
    if isinstance(error, RecordingRefused):
        return str(error) if error.clearance else f"a secret could not be cut out of {what}"
    return f"it would not be trusted: {'; '.join(issue.reason for issue in error.issues)}"


class _DryRunStore(Store):
    """A store that is read, and only seems to be changed."""

    def _new_writer(self) -> StoreWriter:
        return _IdleWriter(self._source, self.layout)


class _IdleWriter(StoreWriter):
    def stage(self, change: Add | Remove | Pin, _data: bytes = b"") -> Growing:
        """Everything was checked; nothing is written."""
        return Growing(change, "", 0)


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
