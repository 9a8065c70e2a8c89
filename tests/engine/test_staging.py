"""The door of the store: what is rendered, checked and stored, and what no road brings through it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Fixture, FixtureIntegrityFailed, RecordingAdapter, RecordingRefused, Store
from cortex_replay.engine.http.opaque import opaque_exchange
from cortex_replay.engine.staging import RedactingStager
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import fixture_json
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture_json import RenderedFixture, render_document
from cortex_replay.testing import ScriptedAdapter
from tests.builder import ask

SECRET = "hunter2-hunter2-hunter2"


@pytest.fixture
def renders(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What has been rendered so far."""
    rendered: list[bytes] = []

    def count(document: dict[str, object]) -> bytes:
        rendered.append(render_document(document))
        return rendered[-1]

    monkeypatch.setattr(fixture_json, "render_document", count)
    return rendered


def stored_bytes(store: Store, question: str = "q") -> bytes:
    store.commit()
    return store.content(*store.key(ask(question)))


@pytest.mark.parametrize("mode", ["once", "record"])
@pytest.mark.parametrize("answer", ["a", f"It is {SECRET}."])
def test_recording_an_answer_renders_its_fixture_once(
    tmp_path: Path, renders: list[bytes], mode: str, answer: str
) -> None:
    """Also one with a secret: that is cut out before anything is rendered."""

    async def main() -> None:
        inner = ScriptedAdapter(lambda _: answer)
        async with RecordingAdapter(inner, tmp_path, mode, redactor=Redactor([SECRET])) as recorder:  # type: ignore[arg-type]
            await recorder.complete(ask("q"))

    asyncio.run(main())

    assert renders == [stored_bytes(Store.open(tmp_path))]


def test_only_what_the_door_itself_cuts_out_is_rendered_again(tmp_path: Path, renders: list[bytes]) -> None:
    """What is stored is the second form, and the fixture that is handed back is what it says."""
    store = Store.create(tmp_path)

    staged = RedactingStager(store, Redactor([SECRET])).stage(
        Fixture.of(ask("q"), f"It is {SECRET}."), overwrite=False
    )

    first, second = renders
    assert SECRET.encode() in first
    assert SECRET.encode() not in second
    assert stored_bytes(store) == second
    assert fixture_json.parse_fixture(second) == staged


@pytest.mark.parametrize("data", [b"{}\n", RenderedFixture.of(Fixture.of(ask("another"), "a")).data])
def test_bytes_that_would_not_be_trusted_are_not_staged(tmp_path: Path, data: bytes) -> None:
    """Whoever rendered them: they are read by the rules of trust first."""
    store = Store.create(tmp_path)

    with pytest.raises(FixtureIntegrityFailed):
        store.add(RenderedFixture(Fixture.of(ask("q"), "a"), data))

    assert store.commit().added == []


OPEN = "no secret at all"
BYTES = f"\xff\xfe{SECRET}"
WIRE: dict[str, Any] = {"status": 200, "headers": {}, "body": "{}"}


def exchange(text: str, place: str) -> Exchange:
    """An exchange with a text at a place where it cannot be cut out."""
    request: dict[str, Any] = {
        "upstream": "openai",
        "method": "POST",
        "path": f"/v1/files/{text}/content" if place == "path" else "/v1/x",
        "query": [["tag", text]] if place == "query" else [],
        "body": {"body": {"input": f"It is {text}."}, "name": {text: 1}}.get(place),
    }
    return opaque_exchange(request, WIRE)


def frames(text: str) -> dict[str, Any]:
    pieces = [
        {"at_ms": 0, "from": "server", "text": f'{{"delta":"{piece}"}}'} for piece in (text[:9], text[9:])
    ]
    return {"frames": pieces}


Road = Callable[[RedactingStager, Exchange], object]
ROADS: dict[str, Road] = {
    "staged": lambda stager, one: stager.stage_exchange(one, overwrite=False),
    "staged anew": lambda stager, one: stager.stage_exchange(one, overwrite=True),
    "cleaned": lambda stager, one: stager.clean_exchange(one),
    "bound": lambda stager, one: stager.clean_bound(one, lambda bound: bound),
    "bound by another request": lambda stager, one: stager.clean_bound(
        one, lambda bound: bound, {"path": "/"}
    ),
    "asked": lambda stager, one: stager.refuse_request(one.request or {}),
}


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("place", ["path", "query", "body", "name"])
def test_no_road_stores_a_request_with_a_secret(tmp_path: Path, road: str, place: str) -> None:
    """It is what an exchange is found by, so it cannot be cut out (ADR 8)."""
    store = Store.create(tmp_path)
    stager = RedactingStager(store, Redactor([SECRET]))

    ROADS[road](stager, exchange(OPEN, place))
    with pytest.raises(RecordingRefused) as caught:
        ROADS[road](stager, exchange(SECRET, place))

    assert SECRET not in str(caught.value)
    store.commit()
    assert all(SECRET not in file.read_text() for file in tmp_path.rglob("*.json"))


@pytest.mark.parametrize("is_exchange", [False, True], ids=["a fixture", "an exchange"])
def test_no_scope_is_named_by_a_secret(tmp_path: Path, is_exchange: bool) -> None:
    stager = RedactingStager(Store.create(tmp_path), Redactor([SECRET]))

    def stage(scope: str) -> None:
        if is_exchange:
            stager.stage_exchange(exchange(OPEN, "body"), overwrite=False, scope=scope)
        else:
            stager.stage(Fixture.of(ask("q"), "a"), overwrite=False, scope=scope)

    stage("test_a[1]")
    with pytest.raises(RecordingRefused):
        stage(f"test_a[{SECRET}]")


def test_no_model_is_named_by_a_secret(tmp_path: Path) -> None:
    """The name is a part of the key."""
    stager = RedactingStager(Store.create(tmp_path), Redactor([SECRET]))
    with pytest.raises(RecordingRefused):
        stager.stage(Fixture.of(ask("q", model=f"mine-{SECRET}"), "a"), overwrite=False)


@pytest.mark.parametrize(
    "wire",
    [
        {**WIRE, "body": f"It is {SECRET}."},
        {"status": 200, "headers": {}, "events": [{"at_ms": 0, "text": f"data: {SECRET}\n\n"}]},
        {"status": 200, "headers": {"x": SECRET}, "body": ""},
    ],
    ids=["a body", "an event", "a header"],
)
def test_a_secret_is_cut_out_of_every_form_of_an_answer(tmp_path: Path, wire: dict[str, Any]) -> None:
    stager = RedactingStager(Store.create(tmp_path), Redactor([SECRET]))
    request = exchange(OPEN, "body").request or {}
    for clean in (
        stager.stage_exchange(opaque_exchange(request, wire), overwrite=False),
        stager.clean_bound(opaque_exchange(request, wire), lambda bound: bound),
    ):
        assert SECRET not in str(clean.wires)
        assert "[REDACTED:known-value]" in str(clean.wires)


@pytest.mark.parametrize(
    "wire",
    [
        {"status": 200, "headers": {}, "body_base64": base64.b64encode(BYTES.encode("latin-1")).decode()},
        frames(SECRET),
        {"frames": [{"at_ms": 0, "from": "server", "base64": base64.b64encode(BYTES.encode()).decode()}]},
        {"status": 200, "headers": {}, "body": BYTES.encode("utf-16-le").decode("latin-1")},
    ],
    ids=["bytes", "messages in pieces", "bytes in a message", "a body in another code"],
)
def test_what_a_secret_cannot_be_cut_out_of_is_refused(tmp_path: Path, wire: dict[str, Any]) -> None:
    stager = RedactingStager(Store.create(tmp_path), Redactor([SECRET]))
    request = exchange(OPEN, "body").request or {}
    with pytest.raises(RecordingRefused):
        stager.clean_exchange(opaque_exchange(request, wire))
    with pytest.raises(RecordingRefused):
        stager.clean_bound(opaque_exchange(request, wire), lambda bound: bound)


def test_a_secret_over_two_messages_of_a_prompt_is_refused(tmp_path: Path) -> None:
    """What is left behind the redaction is looked for before anything is written."""
    stager = RedactingStager(Store.create(tmp_path), Redactor([SECRET]))
    halves = [{"role": "user", "content": half} for half in (SECRET[:9], SECRET[9:])]
    with pytest.raises(RecordingRefused):
        stager.stage(Fixture.of(ask(halves), f"It is {SECRET}."), overwrite=False)
