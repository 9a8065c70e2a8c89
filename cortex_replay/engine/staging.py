"""The one door to the store: whatever comes from outside is redacted here as a whole, or refused. So is
what is labelled above the store's clearance.

Whoever makes a recording cuts out of it what it knows how to cut out, so that a stream still adds up to its
answer. This door does not rely on that. It redacts the document as it would be written, asks once more
whether a secret stands in it, known or not, and stages it only if none does.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.clean_scripts import clean_script, read_script
from cortex_replay.errors import RecordingRefused
from cortex_replay.mcp.scripts import is_script
from cortex_replay.redact.binary import readings_of
from cortex_replay.redact.clearance import places_above
from cortex_replay.redact.process import teach
from cortex_replay.redact.redactor import Hit, Redactor
from cortex_replay.redact.sensitivity import may_hold_label
from cortex_replay.store import Answer, Fixture, FixtureKey, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture_json import FixtureError, RenderedFixture, fixture_in, read_document
from cortex_replay.strict_json import JsonError, loads

if TYPE_CHECKING:
    from cortex_replay.store.growing import Growing

__all__ = ["RedactingStager", "clean_wire", "redaction_entries"]

_KEY: Final = "request_match"


class RedactingStager:
    """Stages recordings.

    Args:
        store: Where to.
        redactor: What to cut out.
    """

    def __init__(self, store: Store, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor

    def learn(self) -> None:
        """Ask what the process knows by now: a test may have set a key, or an adapter was given one."""
        teach(self._redactor)

    def may_name(self, scope: str) -> bool:
        """Whether there is no secret in the name of a scope."""
        self.learn()
        return not scope or not self._redactor.found_in({"scope": scope})

    def stage(self, fixture: Fixture, *, overwrite: bool, scope: str = "", is_exact: bool = False) -> Fixture:
        """Stage a fixture for a scope; gives it as it is stored. See :meth:`begin`."""
        return self.begin(fixture, overwrite=overwrite, scope=scope, is_exact=is_exact)[0]

    def begin(
        self,
        fixture: Fixture,
        *,
        overwrite: bool,
        scope: str = "",
        is_exact: bool = False,
        instead_of: Growing | None = None,
    ) -> tuple[Fixture, Growing]:
        """Stage a fixture for a scope; gives it as it is stored, and what more answers may come to.

        Raises:
            RecordingRefused: A secret could not be cut out of it, or it is labelled above the clearance of
                the store; or there is one in the name of the scope. Nothing was written.
        """
        clean = self._clean(fixture, scope)
        staged = self._store.begin(
            clean,
            overwrite=overwrite,
            keep_existing=not overwrite,
            scope=scope,
            is_exact=is_exact,
            instead_of=instead_of,
        )
        return clean.fixture, staged

    def grow(self, staged: Growing, place: int, key: FixtureKey, answer: Answer) -> Answer | None:
        """Stage one more answer of a fixture; gives it as it is stored. ``None`` if all must be staged again.

        Raises:
            RecordingRefused: A secret could not be cut out of it. Nothing was written.
        """
        alone = Fixture(key, (replace(answer, meta=None),), None, answer.meta)
        clean = self._clean(alone)
        if not self._store.grow(staged, place, clean):
            return None
        return replace(clean.fixture.answers[0], meta=clean.fixture.meta)

    def _clean(self, fixture: Fixture, scope: str = "") -> RenderedFixture:
        self.learn()
        if scope:
            self._refuse({"scope": scope})
        return self._clean_fixture(fixture)

    def stage_exchange(
        self, exchange: Exchange, *, overwrite: bool, scope: str = "", is_exact: bool = False
    ) -> Exchange:
        """Stage an exchange for a scope; gives it as it is stored.

        Raises:
            RecordingRefused: There is a secret in what was asked or in the name of the scope, or it could not
                be cut out of the answer.
        """
        return self.stage_clean(
            self.clean_exchange(exchange), overwrite=overwrite, scope=scope, is_exact=is_exact
        )

    def stage_clean(
        self, exchange: Exchange, *, overwrite: bool, scope: str = "", is_exact: bool = False
    ) -> Exchange:
        """Stage an exchange that is made of nothing but what :meth:`clean_exchange` gave: once is enough."""
        if scope:
            self._refuse({"scope": scope})
        meta = {name: value for name, value in (exchange.meta or {}).items() if name == "bindings"}
        meta |= {"scope": scope} if scope else {}
        exchange = replace(exchange, meta=meta or None)
        self._store.add_exchange(
            exchange, overwrite=overwrite, keep_existing=not overwrite, scope=scope, is_exact=is_exact
        )
        return exchange

    def clean_exchange(self, exchange: Exchange) -> Exchange:
        """The exchange as it would be stored; see :meth:`stage_exchange`."""
        self.learn()
        if exchange.request is not None:
            self.refuse_request(exchange.request)
        return self._clean_answers(exchange, [self._clean_wire(wire) for wire in exchange.wires])

    def clean_bound(
        self,
        exchange: Exchange,
        bind: Callable[[Exchange], Exchange],
        checked: dict[str, JsonValue] | None = None,
    ) -> Exchange:
        """What is bound of an exchange, as it would be stored. Secrets are cut out before that, and
        are looked for again if that changes anything.

        Args:
            exchange: With one answer.
            bind: Puts placeholders in.
            checked: A request that :meth:`refuse_request` did not refuse just now.
        """
        self.learn()
        is_clean = self._is_clean(exchange.wire)
        if not is_clean:
            exchange = replace(exchange, wire=clean_wire(exchange.wire, self._redactor))
        bound = bind(exchange)
        if bound.request is not None and bound.request != checked:
            self.refuse_request(bound.request)
        if is_clean and not bound.then and bound.wire == exchange.wire:
            return self._clean_answers(bound, [bound.wire])
        return self._clean_answers(bound, [self._clean_wire(wire) for wire in bound.wires])

    def _clean_answers(self, exchange: Exchange, wires: list[dict[str, JsonValue]]) -> Exchange:
        """The exchange with clean answers, if the rest of it may be stored."""
        if exchange.match is not None:
            self._refuse({_KEY: [*exchange.match]})
        for wire in wires:
            document: dict[str, JsonValue] = {"wire": _readable(wire), "request": exchange.request}
            if _may_hold_label(document):
                self._refuse_labels(document)
        return replace(exchange, wire=wires[0], then=tuple(wires[1:]))

    def _clean_wire(self, wire: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """What was answered, without secrets; refused if they cannot be cut out."""
        if self._is_clean(wire):
            return wire
        clean = clean_wire(wire, self._redactor)
        self._refuse({"wire": _readable(clean)})
        return clean

    def _is_clean(self, wire: dict[str, JsonValue]) -> bool:
        return not self._redactor.found_in({"wire": _readable(wire)})

    def refuse_request(self, request: dict[str, JsonValue], query: str = "") -> None:
        """Refuse a request that holds a secret, if it is what an exchange is found by.

        The key is made of the stored request, and whoever replays may not know the secret, so it cannot be
        cut out (`docs/adr/0008-a-request-with-a-secret.md`).

        Args:
            request: As it would be stored.
            query: As it was written; what is stored is sorted.

        Raises:
            RecordingRefused: It does.
        """
        self.learn()
        path, stored = request.get("path"), request.get("query")
        kept = [pair[0] for pair in stored if isinstance(pair, list)] if isinstance(stored, list) else []
        read: dict[str, JsonValue] = {
            **request,
            "segments of the path": list(path.split("/")) if isinstance(path, str) else None,
            "values of the query": [value for name, value in parse_qsl(query) if name in kept],
        }
        self._refuse(read)

    def _clean_fixture(self, fixture: Fixture) -> RenderedFixture:
        rendered = RenderedFixture.of(fixture)
        document = read_document(rendered.data)
        if may_hold_label(rendered.data):
            self._refuse_labels(document)
        # By itself: with the digits of a hash beside it, all of the rest would take twice as long to be read.
        key = document.pop(_KEY)
        self._refuse({_KEY: key})
        clean, hits = self._redactor.document(document)
        if clean is document:  # nothing was found
            return rendered
        self._refuse(clean)
        assert isinstance(clean, dict)  # noqa: S101 - as it was
        where = "recording" if clean.get("request") == document.get("request") else "request"
        meta = _note_redactions(clean.get("meta"), redaction_entries(where, hits))
        try:
            return RenderedFixture.of(fixture_in({_KEY: key, **clean, "meta": meta}))
        except FixtureError as error:
            raise RecordingRefused([f"a place that it cannot be cut out of ({error})"]) from None

    def _refuse_labels(self, document: JsonValue) -> None:
        if places := list(places_above(document, self._store.clearance)):
            raise RecordingRefused(dict.fromkeys(places), self._store.clearance)

    def _refuse(self, document: JsonValue) -> None:
        if places := [place for place, _ in self._redactor.found_in(document)]:
            raise RecordingRefused(dict.fromkeys(places))


def _may_hold_label(document: JsonValue) -> bool:
    try:
        return may_hold_label(orjson.dumps(document))
    except orjson.JSONEncodeError:  # a number or a text that only Python can write
        return True


def clean_wire(wire: dict[str, JsonValue], redactor: Redactor) -> dict[str, JsonValue]:
    """What was answered, without secrets. Bytes that are no text stay: nothing can be cut out of those."""
    if is_script(wire):
        return clean_script(wire, redactor)
    apart = {name: value for name, value in wire.items() if name == "body_base64"}
    clean, _ = redactor.document({name: value for name, value in wire.items() if name not in apart})
    if not isinstance(clean, dict):
        return {}
    frames, cut = wire.get("frames"), clean.get("frames")
    if isinstance(frames, list) and isinstance(cut, list):
        apart["frames"] = [
            old if isinstance(old, dict) and "base64" in old else new
            for old, new in zip(frames, cut, strict=True)
        ]
    return {**clean, **apart}


def redaction_entries(where: str, hits: Iterable[Hit]) -> list[JsonValue]:
    """What the ``meta`` of a recording says about what was cut out of it."""
    counts: dict[str, int] = {}
    for hit in hits:
        counts[hit.rule] = counts.get(hit.rule, 0) + hit.count
    return [{"kind": "value", "where": where, "rule": rule, "count": count} for rule, count in counts.items()]


def _note_redactions(meta: JsonValue, entries: list[JsonValue]) -> dict[str, JsonValue]:
    meta = meta if isinstance(meta, dict) else {}
    before = meta.get("redactions")
    return {**meta, "redactions": [*(before if isinstance(before, list) else []), *entries]}


def _readable(wire: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """What was answered as somebody would read it who looks for a secret."""
    if is_script(wire):
        return read_script(wire)
    if isinstance(frames := wire.get("frames"), list):
        return {**wire, "frames, read together": [_read_frame(frame) for frame in frames]}
    encoded, text = wire.get("body_base64"), wire.get("body")
    if isinstance(encoded, str):
        return {**wire, "body_base64": readings_of(base64.b64decode(encoded))}
    if isinstance(text, str) and "\0" in text:
        return {**wire, "body, read as bytes": readings_of(text.encode("utf-8", "surrogatepass"))}
    return wire


def _read_frame(frame: JsonValue) -> JsonValue:
    """A message of a WebSocket, open to whoever puts the pieces of a text together."""
    match frame:
        case {"text": str(text)}:
            try:
                return loads(text.encode("utf-8", "surrogatepass"))
            except JsonError:
                return text
        case {"base64": str(encoded)}:
            return readings_of(base64.b64decode(encoded))
    return None
