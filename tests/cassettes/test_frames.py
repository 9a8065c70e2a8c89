"""Messages of WebSockets in the form in which pydantic-ai's suite records them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from websockets.sync.client import connect

from cortex_replay import Store
from cortex_replay.cassettes.frames import sessions_in
from cortex_replay.engine.ws.messages import ClientMessages
from tests.cassettes.conftest import Imported
from tests.gateway.conftest import gateway_over
from tests.waiting import LONGEST_S

PCM = bytes(range(200))
CUT = base64.b64encode(PCM).decode()[:44]


def sent(**data: Any) -> dict[str, Any]:
    return {"kind": "message", "direction": "sent", "data": data}


def received(**data: Any) -> dict[str, Any]:
    return {"kind": "message", "direction": "received", "data": data}


CREATED = received(type="session.created", session={"id": "sess_1", "model": "a-voice"})
TALK = [
    CREATED,
    sent(type="conversation.item.create", item={"id": "<client-id-1>", "type": "message"}),
    received(type="conversation.item.added", item={"id": "item_1"}),
    sent(type="input_audio_buffer.append", audio=CUT),
    sent(type="response.create"),
    received(type="response.done", response={"id": "resp_1"}),
]


def cassette(folder: Path, name: str, *entries: dict[str, Any]) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"version": 1, "interactions": list(entries)}, sort_keys=False))
    return path


def test_an_imported_session_is_replayed(imported: Imported, tmp_path: Path) -> None:
    report = imported(cassette(tmp_path, "cassettes/test_voice/test_talk.yaml", *TALK))
    assert (report["exit"], report["exchanges"], report["not_converted"]) == (0, 1, [])
    said: list[Any] = []
    with gateway_over(tmp_path / "store") as gateway:
        url = gateway.url("openai").replace("http://", "ws://") + "/v1/realtime?model=a-voice"
        with connect(url, compression=None) as socket:
            said.append(json.loads(socket.recv(LONGEST_S)))
            socket.send(json.dumps(TALK[1]["data"] | {"item": {"id": "0a1b", "type": "message"}}))
            said.append(json.loads(socket.recv(LONGEST_S)))
            audio = base64.b64encode(PCM).decode()
            socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
            socket.send('{"type": "response.create"}')
            said.append(json.loads(socket.recv(LONGEST_S)))
    assert said == [entry["data"] for entry in TALK if entry["direction"] == "received"]
    assert gateway.run.ledger.hits == 1


def test_audio_that_was_cut_is_compared_as_far_as_it_goes() -> None:
    (session,) = sessions_in({"interactions": TALK}, Path("x.yaml")) or []
    body: Any = session.request["body"]

    def fits(data: bytes) -> bool:
        messages = ClientMessages()
        audio = base64.b64encode(data).decode()
        said = messages.read(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        return messages.is_last(said, body[1])

    assert body[1]["audio"]["bytes"] == 33
    assert fits(PCM)
    assert fits(PCM[:33])
    assert not fits(b"\x01" + PCM[1:])
    assert not fits(PCM[:32])


def test_audio_that_is_whole_is_compared_whole() -> None:
    whole = base64.b64encode(PCM).decode()
    entries = [CREATED, sent(type="input_audio_buffer.append", audio=whole)]
    (session,) = sessions_in({"interactions": entries}, Path("x.yaml")) or []
    body: Any = session.request["body"]
    assert body[0]["audio"].keys() == {"blake3", "bytes"}


@pytest.mark.parametrize(
    ("first", "file", "place"),
    [
        (CREATED, "test_voice/a.yaml", ("openai", "/v1/realtime", [["model", "a-voice"]])),
        (CREATED, "test_azure_ws/a.yaml", ("azure", "/openai/v1/realtime", [["model", "a-voice"]])),
        (CREATED, "test_azure_voice_live/a.yaml", ("azure", "/voice-live/realtime", [["model", "a-voice"]])),
        (
            received(type="session.created", session={"model": "grok-voice"}),
            "test_voice/a.yaml",
            ("xai", "/v1/realtime", [["model", "grok-voice"]]),
        ),
        (sent(type="session.update"), "test_voice/a.yaml", ("openai", "/v1/realtime", [])),
    ],
)
def test_where_a_session_led(first: dict[str, Any], file: str, place: tuple[Any, ...]) -> None:
    (session,) = sessions_in({"interactions": [first]}, Path(file)) or []
    assert tuple(session.request[name] for name in ("upstream", "path", "query")) == place


def test_a_session_of_gemini() -> None:
    (session,) = sessions_in({"interactions": [sent(setup={"model": "models/m"})]}, Path("a.yaml")) or []
    assert session.request["upstream"] == "gemini"
    assert str(session.request["path"]).endswith(".BidiGenerateContent")


def test_a_new_session_begins_behind_a_close() -> None:
    close = {"kind": "close", "code": 1011, "reason": "dropped", "ok": False}
    first, second = sessions_in({"interactions": [*TALK, close, *TALK[:2]]}, Path("a.yaml")) or []
    assert first.wire["close"] == {"after": 3, "code": 1011, "reason": "dropped"}
    assert (first.number, second.number) == (1, 8)
    assert "close" not in second.wire


@pytest.mark.parametrize("document", [[], {}, {"interactions": []}, {"interactions": [{"request": {}}]}])
def test_other_cassettes_are_none(document: Any) -> None:
    assert sessions_in(document, Path("a.yaml")) is None


def test_equal_sessions_are_one(imported: Imported, tmp_path: Path) -> None:
    files = [cassette(tmp_path, f"cassettes/{name}.yaml", *TALK) for name in "ab"]
    report = imported(*files)
    assert (report["exchanges"], report["repeated"]) == (1, 1)
    assert len(Store.open(tmp_path / "store").exchange_keys()) == 1
