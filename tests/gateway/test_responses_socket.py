"""OpenAI's Responses over a WebSocket, through the real server, with the SDK's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import ClientConnection, connect

from cortex_replay import Store
from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.faults import Fault, Faults
from cortex_replay.gateway import Gateway
from cortex_replay.hashing import blake3_hex
from tests.gateway.conftest import Opened
from tests.gateway.upstream import REAL_KEY
from tests.servers.websockets import SocketUpstream, socket_upstream
from tests.waiting import LONGEST_S

SDK = pytest.mark.filterwarnings(r"ignore:connect\(\) must be used:DeprecationWarning")
"""Its own way to open a connection is about to go out of use."""
LAST = ("response.completed", "response.failed", "error")


@pytest.fixture
def upstream() -> Iterator[SocketUpstream]:
    with socket_upstream(REAL_KEY) as serving:
        yield serving


def opening(gateway: Gateway, scope: str = "", **options: Any) -> ClientConnection:
    url = gateway.url("openai", scope).replace("http://", "ws://")
    socket: ClientConnection = connect(f"{url}/v1/responses", compression=None, **options)
    return socket


def sdk_of(gateway: Gateway) -> OpenAI:
    return OpenAI(base_url=gateway.url("openai"), api_key="mine", max_retries=0)


def ask(socket: ClientConnection, said: str, **fields: Any) -> list[str]:
    """The messages of one response, as they came."""
    body = {"type": "response.create", "model": "m", "input": [{"role": "user", "content": said}], **fields}
    socket.send(json.dumps(body))
    frames = [str(socket.recv(LONGEST_S))]
    while json.loads(frames[-1])["type"] not in LAST:
        frames.append(str(socket.recv(LONGEST_S)))
    return frames


def id_of(frames: list[str]) -> str:
    return str(json.loads(frames[-1])["response"]["id"])


def talk(gateway: Gateway, **options: Any) -> list[list[str]]:
    """Two responses of one connection, the second a continuation of the first."""
    with opening(gateway, **options) as socket:
        first = ask(socket, "one")
        return [first, ask(socket, "two", previous_response_id=id_of(first))]


def test_what_was_recorded_is_replayed_twenty_times(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url) as gateway:
        recorded = talk(gateway)
    assert "You said: one, then two" in recorded[1][-1], "the upstream knew the first"
    assert len(upstream.openings) == 1, "one connection for both"
    with opened() as gateway:
        assert all(talk(gateway) == recorded for _ in range(20))
        assert gateway.run.ledger.hits == 40
    assert len(upstream.openings) == 1


@SDK
def test_the_sdk_speaks_both_ways_from_one_recording(opened: Opened, upstream: SocketUpstream) -> None:
    events = []
    with (
        opened("record", upstream.url) as gateway,
        sdk_of(gateway) as client,
        client.responses.connect() as connection,
    ):
        connection.response.create(model="m", input="hello")
        for event in connection:
            events.append(event)
            if event.type == "response.completed":
                break
    with opened() as gateway, sdk_of(gateway) as client:
        with client.responses.create(model="m", input="hello", stream=True) as stream:
            assert [event.to_dict() for event in stream] == [event.to_dict() for event in events]
        assert client.responses.create(model="m", input="hello").output_text == "You said: hello"
    assert REAL_KEY in upstream.openings[0][1]["authorization"], "the gateway's key, not the client's"
    assert "mine" not in json.dumps(upstream.openings)


def test_a_recording_over_http_is_replayed_over_a_web_socket(opened: Opened, provider: Any) -> None:
    with opened("record", provider.url) as gateway, sdk_of(gateway) as client:
        with client.responses.create(model="m", input="hello", stream=True) as stream:
            events = [event.to_dict() for event in stream]
        one = client.responses.create(model="m", input="whole")
        client.responses.create(model="m", input="more", previous_response_id=one.id)
    with opened() as gateway, opening(gateway) as socket:
        assert [json.loads(frame) for frame in ask(socket, "hello")] == events
        assert "You said: whole" in ask(socket, "whole")[-1]
        assert "You said: more" in ask(socket, "more", previous_response_id=one.id)[-1]


def test_an_upstream_without_web_sockets_is_asked_over_http(opened: Opened, provider: Any) -> None:
    with opened("record", provider.url) as gateway:
        with opening(gateway) as socket:
            recorded = [ask(socket, "one"), ask(socket, "two")]
        assert gateway.run.ledger.recorded == 2
    assert [request.method for request in provider.received] == ["GET", "POST", "POST"]
    with opened() as gateway, opening(gateway) as socket:
        assert [ask(socket, "one"), ask(socket, "two")] == recorded


def test_what_a_cache_is_told_over_a_web_socket_is_noted(
    opened: Opened, upstream: SocketUpstream, tmp_path: Path
) -> None:
    with opened("record", upstream.url) as gateway, opening(gateway) as socket:
        ask(socket, "one", prompt_cache_key="team-a", prompt_cache_retention="24h")

    store = Store.open(tmp_path / "store")
    ((cache, asked_at),) = [
        ((found.meta or {})["cache"], (found.meta or {})["asked_at"])
        for found in (store.get(stored.model, stored.prompt_hash) for stored in store.list())
    ]
    assert cache == {"key": blake3_hex(b"team-a")[:16], "retention": "24h"}
    assert asked_at


def test_a_miss_is_an_event_and_the_connection_stays(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url) as gateway:
        (recorded, _) = talk(gateway)
    with opened() as gateway, opening(gateway) as socket:
        (missed,) = ask(socket, "another")
        assert ask(socket, "one") == recorded
        assert len(gateway.run.ledger.misses) == 1
    error = json.loads(missed)
    assert (error["status"], error["error"]["type"]) == (424, "no_fixture")
    assert "another" in error["error"]["message"]
    assert "one" in error["error"]["message"], "the nearest is named"


def test_what_a_model_sees_makes_another_key(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url) as gateway:
        talk(gateway)
    changes: list[dict[str, Any]] = [{"instructions": "Be brief."}, {"generate": False}, {"temperature": 1}]
    with opened() as gateway, opening(gateway) as socket:
        for change in changes:
            assert json.loads(ask(socket, "one", **change)[0])["type"] == "error", change
        assert json.loads(ask(socket, "one", stream=False, generate=True)[-1])["type"] == LAST[0]


def test_a_warm_up_is_recorded_by_itself(opened: Opened, upstream: SocketUpstream) -> None:
    def warm(gateway: Gateway) -> list[list[str]]:
        with opening(gateway) as socket:
            first = ask(socket, "one", generate=False)
            return [first, ask(socket, "two", previous_response_id=id_of(first))]

    with opened("record", upstream.url) as gateway:
        recorded = warm(gateway)
    with opened() as gateway:
        assert warm(gateway) == recorded


def test_streams_of_one_connection_are_told_apart(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url) as gateway, opening(gateway) as socket:
        plain = ask(socket, "one")
        marked = [json.loads(frame) for frame in ask(socket, "two", stream_id="b")]
    assert {event["stream_id"] for event in marked} == {"b"}
    assert all("stream_id" not in event for event in upstream.received)
    with opened() as gateway, opening(gateway) as socket:
        again = [json.loads(frame) for frame in ask(socket, "one", stream_id="c")]
    assert [event | {"stream_id": "c"} for event in map(json.loads, plain)] == again


def test_an_error_of_the_upstream_is_an_error_event(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url, record_failures=True) as gateway, opening(gateway) as socket:
        (refused,) = ask(socket, "one", previous_response_id="resp_of_yesterday")
        assert "You said: two" in ask(socket, "two")[-1], "the connection stays"
    error = json.loads(refused)
    assert error["status"] == 400
    assert error["error"]["code"] == "previous_response_not_found"
    with opened() as gateway, opening(gateway) as socket:
        assert ask(socket, "one", previous_response_id="resp_of_yesterday") == [refused]


def test_other_messages_are_refused_by_an_event(opened: Opened) -> None:
    messages: list[str | bytes] = ["{", "[]", '{"type": "response.steer"}', '{"no": "type"}', b"\xff"]
    with opened() as gateway, opening(gateway) as socket:
        for message in messages:
            socket.send(message)
            assert json.loads(socket.recv(LONGEST_S))["error"]["type"] == "invalid_request_error", message
        socket.send('{"type": "response.processed"}')
        assert json.loads(ask(socket, "x")[0])["error"]["type"] == "no_fixture", "the notice has no answer"


def test_a_key_that_the_upstream_refuses_is_told(opened: Opened, upstream: SocketUpstream) -> None:
    upstream.key = "another"
    with opened("record", upstream.url) as gateway, opening(gateway) as socket:
        (refused,) = ask(socket, "one")
    assert json.loads(refused)["status"] == 401


def test_a_connection_that_breaks_in_the_middle_is_not_recorded(
    opened: Opened, upstream: SocketUpstream
) -> None:
    upstream.breaks_after = 3
    with opened("record", upstream.url) as gateway:
        with opening(gateway) as socket, pytest.raises(ConnectionClosedError) as closed:
            ask(socket, "one")
        assert gateway.run.ledger.failed == 1
        assert gateway.run.ledger.recorded == 0
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011


def test_once_asks_only_what_is_not_there(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("once", upstream.url) as gateway, opening(gateway) as socket:
        first = ask(socket, "one")
    with opened("once", upstream.url) as gateway, opening(gateway) as socket:
        assert ask(socket, "one") == first
        ask(socket, "two")
    assert [event["input"][0]["content"] for event in upstream.received] == ["one", "two"]


def test_a_budget_holds(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url, budget_calls=1) as gateway, opening(gateway) as socket:
        ask(socket, "one")
        (refused,) = ask(socket, "two")
    assert "budget" in json.loads(refused)["error"]["message"]
    assert len(upstream.received) == 1


def test_scopes_have_answers_of_their_own(opened: Opened, upstream: SocketUpstream) -> None:
    upstream.counts = True
    with opened("record", upstream.url) as gateway, opening(gateway, "a") as socket:
        both = [ask(socket, "one"), ask(socket, "one")]
    assert both[0] != both[1]
    with opened() as gateway:
        for scope in ("a", "b"):
            with opening(gateway, scope) as socket:
                assert [ask(socket, "one"), ask(socket, "one")] == both


@pytest.mark.parametrize(("fault", "frames"), [("reset", 0), ("cut:2", 2)])
def test_faults_break_the_connection(
    opened: Opened, upstream: SocketUpstream, fault: str, frames: int
) -> None:
    with opened("record", upstream.url) as gateway:
        talk(gateway)
    faults = Faults([Fault.parse(f"{fault}@1")])
    with opened(faults=faults) as gateway:
        with opening(gateway) as socket:
            socket.send(json.dumps({"type": "response.create", "model": "m", "input": "one"}))
            for _ in range(frames):
                socket.recv(LONGEST_S)
            with pytest.raises(ConnectionClosedError):
                socket.recv(LONGEST_S)
        assert "You said: one" in talk(gateway)[0][-1], "the next call is well"


def test_a_fault_with_a_status_is_an_event(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url) as gateway:
        talk(gateway)
    with opened(faults=Faults([Fault.parse("429@1")])) as gateway, opening(gateway) as socket:
        (refused,) = ask(socket, "one")
        assert json.loads(refused)["status"] == 429
        assert json.loads(ask(socket, "one")[-1])["type"] == LAST[0]


def test_a_client_that_leaves_ends_the_call_upstream(opened: Opened, upstream: SocketUpstream) -> None:
    with opened("record", upstream.url) as gateway:
        with opening(gateway) as socket:
            socket.send(json.dumps({"type": "response.create", "model": "m", "input": "one"}))
            socket.recv(LONGEST_S)
        store = gateway.run.store
    assert isinstance(store, Store)
    assert gateway.run.ledger.live == 1


def test_a_secret_of_the_client_is_not_stored(
    opened: Opened, upstream: SocketUpstream, tmp_path: Any
) -> None:
    secret = "sk-proj-" + "Zq7" * 14
    with (
        opened("record", upstream.url) as gateway,
        opening(gateway, additional_headers={"authorization": f"Bearer {secret}"}) as socket,
    ):
        ask(socket, f"my key is {secret}")
        ask(socket, "one")
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert secret.encode() not in stored
    assert b"You said: one" in stored


def test_each_response_over_a_socket_is_a_request_of_its_provider(
    opened: Opened, upstream: SocketUpstream
) -> None:
    """The first goes out with the opening; the second would have to wait longer than it may."""
    own = ProviderSettings(kind="openai-compat", requests_per_minute=1)
    settings = Settings(providers={"openai": own})
    with (
        opened("record", upstream.url, settings=settings, timeout_ms=30_000) as gateway,
        opening(gateway) as socket,
    ):
        assert "You said: one" in ask(socket, "one")[-1]
        refused = ask(socket, "two")[-1]
    assert json.loads(refused)["status"] == 429
    assert "requests_per_minute" in refused
