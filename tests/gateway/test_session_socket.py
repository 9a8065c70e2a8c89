"""Realtime sessions over a WebSocket, through the real server, with the SDK's own client."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from cortex_replay import Store
from cortex_replay.faults import Fault, Faults
from cortex_replay.gateway import Gateway
from tests.gateway.conftest import Opened
from tests.gateway.upstream import REAL_KEY
from tests.servers.websockets import SocketUpstream, socket_upstream
from tests.waiting import LONGEST_S

PCM = base64.b64encode(bytes(range(256)) * 4).decode()
OTHER_PCM = base64.b64encode(bytes(range(256)) * 3 + bytes(256)).decode()


@pytest.fixture
def upstream() -> Iterator[SocketUpstream]:
    with socket_upstream(REAL_KEY) as serving:
        yield serving


def opening(gateway: Gateway, scope: str = "", query: str = "?model=gpt-realtime", **options: Any) -> Any:
    url = gateway.url("openai", scope).replace("http://", "ws://")
    return connect(f"{url}/v1/realtime{query}", compression=None, **options)


class Missed(Exception):
    """An error event of the gateway."""


def until(socket: ClientConnection, kind: str) -> list[str]:
    """The messages up to one of a type."""
    frames: list[str] = []
    while not frames or json.loads(frames[-1])["type"] != kind:
        frames.append(str(socket.recv(LONGEST_S)))
        event = json.loads(frames[-1])
        if event["type"] == "error" and event["error"]["type"] == "no_fixture":
            raise Missed(event["error"]["message"])
    return frames


def item(text: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content, **fields}


def say(socket: ClientConnection, kind: str, **fields: Any) -> None:
    try:
        socket.send(json.dumps({"type": kind, **fields}))
    except ConnectionClosed:
        until(socket, "no such type")  # a miss ends the session; the event that says so came before the end
        raise


def talk(gateway: Gateway, text: str = "hello", audio: str = PCM, scope: str = "", run: int = 0) -> list[str]:
    """A whole session; ids of the client are other ones in every run."""
    with opening(gateway, scope) as socket:
        frames = until(socket, "session.created")
        say(socket, "session.update", event_id=f"evt_{run}", session={"instructions": "Be brief."})
        frames += until(socket, "session.updated")
        say(socket, "conversation.item.create", item=item(text, id=f"item-of-client-{run}"))
        frames += until(socket, "conversation.item.added")
        say(socket, "input_audio_buffer.append", audio=audio)
        say(socket, "input_audio_buffer.append", audio=audio)
        say(socket, "response.create", event_id=f"evt_{run}_b")
        frames += until(socket, "response.done")
        return frames


def test_what_was_recorded_is_replayed_twenty_times(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url) as gateway:
        recorded = talk(gateway)
    assert gateway.run.ledger.live == 1
    assert "1024 bytes, then 1024 bytes" in "".join(json.loads(f).get("delta", "") for f in recorded)
    with opened() as gateway:
        assert all(talk(gateway) == recorded for _ in range(20))
    assert (gateway.run.ledger.hits, gateway.run.ledger.misses) == (20, [])
    assert len(upstream.openings) == 1
    path, headers = upstream.openings[0]
    assert path == "/v1/realtime?model=gpt-realtime"
    assert headers["authorization"] == f"Bearer {REAL_KEY}"


def test_ids_of_the_client_are_its_own_each_time(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url) as gateway:
        recorded = talk(gateway, run=1)
    with opened() as gateway:
        again = talk(gateway, run=2)
    assert [frame.replace("item-of-client-1", "item-of-client-2") for frame in recorded] == again
    assert "item-of-client-2" in "".join(again), "the server repeats it"


@pytest.mark.parametrize(
    ("change", "named"),
    [({"text": "goodbye"}, "'hello' → 'goodbye'"), ({"audio": OTHER_PCM}, "audio.blake3")],
)
def test_a_changed_message_misses_by_name(
    opened: Opened, upstream: SocketUpstream, change: dict[str, Any], named: str
) -> None:
    with opened("record", upstream.url) as gateway:
        talk(gateway)
    with opened() as gateway, pytest.raises(Missed, match=re.escape(named)):
        talk(gateway, **change)
    (miss,) = gateway.run.ledger.misses
    assert miss.what == "WEBSOCKET /v1/realtime"
    assert "To record it" in miss.explanation


def test_a_session_that_goes_on_for_longer_misses(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url) as gateway, opening(gateway) as socket:
        until(socket, "session.created")
    with opened() as gateway, opening(gateway) as socket:
        until(socket, "session.created")
        say(socket, "response.create", event_id="mine")
        error = json.loads(socket.recv(LONGEST_S))["error"]
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(LONGEST_S)
    assert "ends after message 0" in error["message"]
    assert error["event_id"] == "mine"
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


def test_another_model_is_another_session(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url) as gateway:
        talk(gateway)
    with opened() as gateway:
        for query in ("?model=another", "", "?model=gpt-realtime&model=x"):
            with opening(gateway, query=query) as socket:
                assert json.loads(socket.recv(LONGEST_S))["error"]["type"] == "no_fixture", query


def test_the_messages_of_a_client_tell_two_sessions_apart(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url) as gateway:
        recorded = {text: talk(gateway, text) for text in ("one", "two", "three")}
    with opened() as gateway:
        for text, frames in recorded.items():
            replayed = talk(gateway, text)
            # What a server says first is said before anybody can tell which session it is.
            assert replayed[2:] == frames[2:]


def test_a_longer_session_comes_before_its_beginning(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url) as gateway:
        with opening(gateway) as socket:
            until(socket, "session.created")
            say(socket, "session.update", session={"instructions": "Be brief."})
            until(socket, "session.updated")
        recorded = talk(gateway)
    with opened() as gateway:
        assert talk(gateway) == recorded


async def use_sdk(gateway: Gateway) -> list[Any]:
    async with AsyncOpenAI(base_url=gateway.url("openai"), api_key="mine") as client:
        events = []
        async with client.realtime.connect(model="gpt-realtime") as connection:
            await connection.session.update(session={"type": "realtime", "instructions": "Be brief."})
            await connection.conversation.item.create(item=item("hello"))  # type: ignore[arg-type]
            await connection.response.create()
            async for event in connection:
                events.append(event.to_dict())
                if event.type == "response.done":
                    break
        return events


def test_the_sdk_holds_a_session(opened: Opened, upstream: SocketUpstream) -> None:
    import asyncio  # noqa: PLC0415

    with opened("record", upstream.url) as gateway:
        recorded = asyncio.run(use_sdk(gateway))
    with opened() as gateway:
        assert asyncio.run(use_sdk(gateway)) == recorded
    assert recorded[0]["type"] == "session.created"
    assert "mine" not in json.dumps(upstream.openings)


def test_bytes_and_texts_that_are_no_json(opened: Opened, upstream: SocketUpstream) -> None:
    def exchange(gateway: Gateway) -> list[str | bytes]:
        with opening(gateway) as socket:
            greeting = socket.recv(LONGEST_S)
            socket.send(b"\x00\x01\xff")
            return [greeting, socket.recv(LONGEST_S)]

    with opened("record", upstream.url) as gateway:
        recorded = exchange(gateway)
    assert recorded[1] == b"\xff\x01\x00"
    with opened() as gateway:
        assert exchange(gateway) == recorded


def test_a_close_of_the_server_is_replayed(opened: Opened, upstream: SocketUpstream) -> None:
    def leave(gateway: Gateway) -> Any:
        with opening(gateway) as socket:
            until(socket, "session.created")
            say(socket, "goodbye")
            with pytest.raises(ConnectionClosedOK) as closed:
                socket.recv(LONGEST_S)
            return closed.value.rcvd

    with opened("record", upstream.url) as gateway:
        recorded = leave(gateway)
    with opened() as gateway:
        assert leave(gateway) == recorded
    assert (recorded.code, recorded.reason) == (1000, "as you wish")


def test_once_records_what_is_new(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("once", upstream.url) as gateway:
        first = talk(gateway, "one")
        talk(gateway, "one")
        assert len(upstream.openings) == 2, "nothing was recorded when they began"
    with opened("once", upstream.url) as gateway:
        with opening(gateway) as socket:
            assert until(socket, "session.created") == first[:1]
            say(socket, "conversation.item.create", item=item("new"))
            added = until(socket, "conversation.item.added")
        assert len(upstream.openings) == 3, "the first message told that it is another one"
    with opened() as gateway, opening(gateway) as socket:
        until(socket, "session.created")
        say(socket, "conversation.item.create", item=item("new"))
        assert until(socket, "conversation.item.added") == added


def test_once_does_not_go_over_in_the_middle(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("once", upstream.url) as gateway:
        talk(gateway, "one")
    with opened("once", upstream.url) as gateway, pytest.raises(Missed, match="the mode record"):
        talk(gateway, "two")
    assert len(upstream.openings) == 1


def test_a_new_recording_takes_the_place_of_the_old(opened: Opened, upstream: SocketUpstream) -> None:
    recorded = []
    for _ in range(2):
        with opened("record", upstream.url) as gateway:
            recorded.append(talk(gateway))
    assert recorded[0] != recorded[1], "ids are new for every connection"
    with opened() as gateway:
        assert talk(gateway) == recorded[1]


def test_live_records_nothing(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("live", upstream.url) as gateway:
        talk(gateway)
    assert gateway.run.ledger.live == 1
    assert gateway.run.store.exchange_keys() == {}


def test_a_budget_holds(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url, budget_calls=1) as gateway:
        talk(gateway)
        with pytest.raises(InvalidStatus) as refused, opening(gateway):
            pass
    assert refused.value.response.status_code == 400
    assert b"budget" in (refused.value.response.body or b"")
    assert len(upstream.openings) == 1


def test_a_refusal_of_the_upstream_is_passed_on(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url) as gateway:
        for status in (401, 404, 429, 503):
            upstream.refusal = status
            with pytest.raises(InvalidStatus) as refused, opening(gateway):
                pass
            assert refused.value.response.status_code == status
    assert gateway.run.ledger.failed == 4


def test_a_redirect_is_not_followed(opened: Opened, upstream: SocketUpstream) -> None:
    """It would lead the key to another server."""
    with socket_upstream(REAL_KEY) as other:
        upstream.refusal, upstream.location = 307, f"{other.url}/v1/realtime".replace("http://", "ws://")
        with (
            opened("record", upstream.url) as gateway,
            pytest.raises(InvalidStatus) as refused,
            opening(gateway),
        ):
            pass
        assert other.openings == []
    assert refused.value.response.status_code == 502
    assert "location" not in refused.value.response.headers


def test_an_upstream_that_is_not_there(opened: Opened) -> None:
    with (
        opened("record", "http://127.0.0.1:9") as gateway,
        pytest.raises(InvalidStatus) as refused,
        opening(gateway),
    ):
        pass
    assert refused.value.response.status_code == 502
    assert b"cannot connect" in (refused.value.response.body or b"")


@pytest.mark.parametrize(("fault", "frames"), [("cut:1", 1), ("429", 0), ("reset", 0)])
def test_faults(opened: Opened, upstream: SocketUpstream, fault: str, frames: int) -> None:
    with opened("record", upstream.url) as gateway:
        recorded = talk(gateway)
    with opened(faults=Faults([Fault.parse(f"{fault}@1")])) as gateway:
        expected = InvalidStatus if fault == "429" else (WebSocketException, EOFError, OSError)
        with pytest.raises(expected), opening(gateway) as socket:  # noqa: PT012 - it breaks where it breaks
            for _ in range(frames):
                socket.recv(LONGEST_S)
            socket.recv(LONGEST_S)
        assert talk(gateway) == recorded
        assert gateway.faults.struck.total() == 1


def test_a_secret_is_cut_out_of_what_a_server_says(
    opened: Opened, upstream: SocketUpstream, tmp_path: Path
) -> None:
    secret = "sk-proj-" + "Zq7" * 14
    with opened("record", upstream.url) as gateway:
        header = {"authorization": f"Bearer {secret}"}
        with opening(gateway, additional_headers=header) as socket:
            until(socket, "session.created")
            say(socket, "response.create", note="nothing")
            until(socket, "response.done")
        with opening(gateway, additional_headers=header) as socket:
            until(socket, "session.created")
            say(socket, "conversation.item.create", item=item(secret))
            until(socket, "conversation.item.added")
    (refused,) = gateway.run.ledger.refused
    assert "secret in what was asked" in refused
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert secret.encode() not in stored
    assert len(Store.open(tmp_path / "store").exchange_keys()) == 1


def test_audio_is_no_secret(opened: Opened, upstream: SocketUpstream) -> None:
    """Noise in base64 looks like keys to whoever looks for keys."""
    with opened("record", upstream.url) as gateway:
        recorded = talk(gateway, audio=base64.b64encode(os.urandom(96_000)).decode())
    assert gateway.run.ledger.refused == []
    assert len(recorded) > 5


def test_a_subprotocol_is_agreed_on_and_its_key_goes_no_further(
    opened: Opened, upstream: SocketUpstream, tmp_path: Path
) -> None:
    """As JavaScript's own client brings it, which can set no headers."""
    key = "sk-proj-" + "Kx4" * 14
    offered = ["realtime", f"openai-insecure-api-key.{key}"]
    with (
        opened("record", upstream.url) as gateway,
        opening(gateway, subprotocols=offered) as socket,
    ):
        until(socket, "session.created")
    headers = upstream.openings[0][1]
    assert headers["authorization"] == f"Bearer {REAL_KEY}"
    assert key not in json.dumps(headers)
    with opened() as gateway, opening(gateway, subprotocols=offered) as socket:
        assert socket.subprotocol == "realtime"
    assert all(key.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_damaged_recording_is_not_replayed(
    opened: Opened, upstream: SocketUpstream, tmp_path: Path
) -> None:
    with opened("record", upstream.url) as gateway:
        talk(gateway)
    (path,) = tmp_path.rglob("*exchanges*/**/*.json")
    path.write_bytes(path.read_bytes().replace(b"Be brief.", b"Be brave."))
    with opened() as gateway:
        with pytest.raises((InvalidStatus, ConnectionClosed)), opening(gateway) as socket:
            socket.recv(LONGEST_S)
        assert len(gateway.run.ledger.broken) == 1
