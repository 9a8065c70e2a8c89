"""What two messages have in common, and what is taken down of a session."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store
from cortex_replay.bindings import NOWHERE, Binder, BindingRules, Surroundings
from cortex_replay.engine.exchange_lookup import look_up_exchange
from cortex_replay.engine.staging import RedactingStager
from cortex_replay.engine.ws.messages import PREFIX, ClientMessages, equal
from cortex_replay.engine.ws.sessions import Playback, Recorded, SessionMiss, SessionTape, recorded_sessions
from cortex_replay.errors import RecordingRefused
from cortex_replay.hashing import blake3_hex
from cortex_replay.redact.redactor import Redactor

OPENING: dict[str, Any] = {
    "upstream": "openai",
    "method": "WEBSOCKET",
    "path": "/v1/realtime",
    "query": [],
    "body": [],
}
NOBODY = Binder(BindingRules(), NOWHERE)
PCM = base64.b64encode(b"some audio").decode()


def read(**message: Any) -> Any:
    return ClientMessages().read(json.dumps(message))


@pytest.mark.parametrize(
    ("message", "stored"),
    [
        ({"type": "a", "event_id": "e1"}, {"type": "a"}),
        ({"type": "a", "audio": PCM}, {"type": "a", "audio": "HASH"}),
        ({"item": {"content": [{"audio": PCM}]}}, {"item": {"content": [{"audio": "HASH"}]}}),
        ({"x": {"data": PCM, "mimeType": "audio/pcm"}}, {"x": {"data": "HASH", "mimeType": "audio/pcm"}}),
        ({"x": {"data": PCM}}, {"x": {"data": PCM}}),
        ({"audio": "no base64!"}, {"audio": "no base64!"}),
        ({"item": {"id": "mine"}}, {"item": {"id": "<client-id-1>"}}),
        ({"item_id": "of the server"}, {"item_id": "of the server"}),
    ],
)
def test_what_is_compared(message: dict[str, Any], stored: dict[str, Any]) -> None:
    audio = {"blake3": blake3_hex(b"some audio"), "bytes": 10}
    expected = json.loads(json.dumps(stored).replace('"HASH"', json.dumps(audio)))
    assert read(**message) == expected


def test_ids_of_a_client_keep_their_order() -> None:
    messages = ClientMessages()
    made = [{"item": {"id": "b"}}, {"item": {"id": "a"}, "previous_item_id": "b"}, {"item_id": "a"}]
    assert [messages.read(json.dumps(message)) for message in made] == [
        {"item": {"id": "<client-id-1>"}},
        {"item": {"id": "<client-id-2>"}, "previous_item_id": "<client-id-1>"},
        {"item_id": "<client-id-2>"},
    ]
    said = '{"item": {"id": "a", "text": "a b"}}'
    assert messages.hide(said) == '{"item": {"id": "<client-id-2>", "text": "a b"}}'
    assert messages.show(messages.hide(said)) == said


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), ({"a": None}, {}), ([1], [1, 1])])
def test_what_only_python_takes_for_equal_is_not(one: Any, other: Any) -> None:
    assert not equal(one, other)
    assert equal({"a": 1, "b": 2}, {"b": 2, "a": 1})


def session(*messages: str, said: str = "x") -> Recorded:
    tape = SessionTape(OPENING, None)
    tape.add_received(f"hello {said}")
    for message in messages:
        tape.add_sent(message)
        tape.add_received(f"{said}: {message}")
    return Recorded.of(tape.exchange())


def test_a_server_speaks_when_it_did() -> None:
    playback = Playback([session('{"a": 1}', '{"a": 2}')], NOBODY)
    assert [message for _, message in playback.due()] == ["hello x"]
    playback.take('{"a": 1}')
    assert [message for _, message in playback.due()] == ['x: {"a": 1}']
    with pytest.raises(SessionMiss, match=r"Message 2 .*\n  message 2\.a: 2 → 3"):
        playback.take('{"a": 3}')


def test_the_session_that_goes_on_is_played() -> None:
    playback = Playback([session('{"a": 1}', said="x"), session('{"a": 2}', said="y")], NOBODY)
    playback.take('{"a": 2}')
    assert [message for _, message in playback.due()] == ['y: {"a": 2}']


def test_a_session_is_played_in_another_place() -> None:
    """What is known of it is bound in what both sides say; the id that a server made up is not."""
    made_up = "3f2b8c1e-9a54-4d6f-8e21-5b7c0d9e4a11"
    here, there = (
        Binder(BindingRules(), Surroundings({"cwd": {"": folder}, "host": {"": host}}))
        for folder, host in (("/home/ann/shop", "ann-laptop"), ("/builds/7", "runner-9"))
    )
    opening = {**OPENING, "query": [["on", "ann-laptop"]]}
    tape = SessionTape(opening, None)
    tape.add_received(f'{{"session": "{made_up}"}}')
    tape.add_sent(f'{{"session": "{made_up}", "in": "/home/ann/shop"}}')
    tape.add_received('{"wrote": "/home/ann/shop/out.txt"}')
    exchange = look_up_exchange(here, tape.exchange().request or {}).bind(tape.exchange())
    playback = Playback([Recorded.of(exchange)], there)
    greeting = [message for _, message in playback.due()]
    playback.take(f'{{"session": "{made_up}", "in": "/builds/7"}}')

    assert greeting == [f'{{"session": "{made_up}"}}']
    assert [message for _, message in playback.due()] == ['{"wrote": "/builds/7/out.txt"}']
    assert "ann" not in str(exchange)
    with pytest.raises(SessionMiss):
        Playback([Recorded.of(exchange)], there).take(f'{{"session": "{made_up}", "in": "/home/ann/shop"}}')


def test_sessions_are_found_where_values_are_bound_and_where_they_are_not(tmp_path: Path) -> None:
    here = Binder(BindingRules(), Surroundings({"host": {"": "ann-laptop"}}))
    opening: dict[str, Any] = {**OPENING, "query": [["on", "ann-laptop"]]}
    store = Store.create(tmp_path)
    for number, text in enumerate(["bound", "old"]):
        tape = SessionTape(opening, None)
        tape.add_sent(f'"{text}"')
        look = look_up_exchange(here, tape.exchange().request or {})
        store.add_exchange(tape.exchange() if number else look.bind(tape.exchange()))
    store.commit()

    assert {str(one.sent) for one in recorded_sessions(store, opening, "", here)} == {"['bound']", "['old']"}


def test_a_session_that_is_too_large_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_replay.engine.ws.sessions._MOST_BYTES", 10)
    tape = SessionTape(OPENING, None)
    tape.add_received("x" * 8)
    before = tape.is_too_large
    tape.add_sent('"more"')
    assert (before, tape.is_too_large, tape.is_empty) == (False, True, True)


def test_a_secret_in_pieces_is_not_stored(tmp_path: Path) -> None:
    """As a model spells it out, a piece a message."""
    secret = "sk-proj-" + "Zq7k" * 10
    tape = SessionTape(OPENING, None)
    for start in range(0, len(secret), 12):
        delta = {"type": "response.output_text.delta", "item_id": "i", "delta": secret[start : start + 12]}
        tape.add_received(json.dumps(delta))
    stager = RedactingStager(Store.open_or_create(tmp_path), Redactor([secret]))
    with pytest.raises(RecordingRefused):
        stager.clean_exchange(tape.exchange())


def test_a_session_that_goes_on_where_the_recorded_one_ends_is_a_miss() -> None:
    playback = Playback([session('{"a": 1}')], NOBODY)
    playback.take('{"a": 1}')
    assert playback.is_at_first

    with pytest.raises(SessionMiss, match="ends after message 1 of the client; this one goes on with"):
        playback.take('{"b": 2}')


def test_bytes_and_texts_that_are_no_json_are_played_too_and_the_end_comes_when_it_did() -> None:
    tape = SessionTape(OPENING, None)
    for sent, said in ((b"\x00\x01", b"\xff\xfe"), ("no JSON", "nor this")):
        tape.add_sent(sent)
        tape.add_received(said)
    tape.add_close(4000, "done")
    assert tape.size > 0
    playback = Playback([Recorded.of(tape.exchange())], NOBODY)

    playback.take(b"\x00\x01")
    assert ([message for _, message in playback.due()], playback.close) == ([b"\xff\xfe"], None)
    playback.take("no JSON")
    assert [message for _, message in playback.due()] == ["nor this"]
    assert playback.close is not None
    assert (playback.close.code, playback.close.reason) == (4000, "done")
    with pytest.raises(SessionMiss):
        Playback([Recorded.of(tape.exchange())], NOBODY).take(b"\x00\x02")


def test_audio_that_somebody_cut_in_a_recording_is_compared_as_far_as_it_goes() -> None:
    """In lists, too; other audio, and another message around it, are no match."""
    messages = ClientMessages()
    cut: dict[str, Any] = {"blake3": blake3_hex(b"some"), "bytes": 4, PREFIX: True}

    said = messages.read(json.dumps({"item": {"content": [{"type": "input_audio", "audio": PCM}]}}))
    assert messages.is_last(said, {"item": {"content": [{"type": "input_audio", "audio": cut}]}})
    assert not messages.is_last(said, {"item": {"content": [{"type": "other", "audio": cut}]}})
    other: dict[str, Any] = {**cut, "blake3": blake3_hex(b"same")}
    assert not messages.is_last(said, {"item": {"content": [{"type": "input_audio", "audio": other}]}})
    assert not messages.is_last(said, {"item": {"content": []}})
