"""Hosts that nobody configured, asked as models are: recorded and replayed, or refused and counted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest
import requests
from websockets.asyncio.client import connect as async_connect
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from cortex_replay import Store, intercept
from tests.adapters.fake_provider import FakeProvider, serving_in_thread, whole
from tests.gateway.upstream import REAL_KEY, model_server
from tests.waiting import LONGEST_S, wait_until

ASKED: Any = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}
OWN_KEY = REAL_KEY
"""The one that the stranger's server takes."""
KEY_OF_PROVIDER = "is-for-the-provider-alone-0815"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY_OF_PROVIDER)


def ask(url: str, text: str = "Hello.") -> str | None:
    """With a second client, which has a key and a server of its own."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key=OWN_KEY, max_retries=0) as client:
        answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content


def test_a_second_client_is_recorded_and_replayed(tmp_path: Path) -> None:
    with model_server() as stranger:
        with intercept(tmp_path, "once") as recording:
            assert ask(stranger.url) == "You said: Hello."
        sent = [call.headers["authorization"] for call in stranger.received]
        assert sent == [f"Bearer {OWN_KEY}"], "its own key, and not that of the provider"
        with intercept(tmp_path, "replay") as replaying:
            assert ask(stranger.url) == "You said: Hello."
            with pytest.raises(openai.APIStatusError, match="nothing is recorded"):
                ask(stranger.url, "Something else.")
        assert len(stranger.received) == 1
    assert recording.strangers == replaying.strangers == {urlsplit(stranger.url).netloc}
    assert len(Store.open(tmp_path)) == 1
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert OWN_KEY.encode() not in stored


def test_azure_is_known_by_its_paths_whatever_its_host(tmp_path: Path) -> None:
    """The deployment is the model, and another version of the API asks the same."""

    def ask_azure(url: str, version: str, deployment: str = "mine") -> Any:
        client = openai.AzureOpenAI(
            azure_endpoint=url, azure_deployment=deployment, api_version=version, api_key=OWN_KEY
        )
        with client.with_options(max_retries=0):
            answer = client.chat.completions.create(**ASKED)
        return answer.choices[0].message.content

    with model_server() as stranger:
        with intercept(tmp_path, "once"):
            assert ask_azure(stranger.url, "2024-10-21") == "You said: Hello."
        with intercept(tmp_path, "replay"):
            assert ask_azure("https://me.openai.azure.com", "2026-01-01") == "You said: Hello."
            with pytest.raises(openai.APIStatusError, match="nothing is recorded"):
                ask_azure("https://me.openai.azure.com", "2024-10-21", "another")
    assert [path.name for path in (tmp_path / "fixtures").iterdir()] == ["mine"]


def test_what_is_recorded_as_it_is_belongs_to_its_host(tmp_path: Path) -> None:
    """Two servers may answer one question in two ways."""

    def embed(url: str) -> Any:
        with openai.OpenAI(base_url=f"{url}/v1", api_key=OWN_KEY, max_retries=0) as client:
            models = [model.id for model in client.models.list()]
            asked = {"model": "m", "input": "Hello.", "encoding_format": "float"}
            return models, client.embeddings.create(**asked).data[0].embedding  # type: ignore[arg-type]

    with model_server() as one, model_server() as other:
        with intercept(tmp_path, "once"):
            expected = embed(one.url)
        with intercept(tmp_path, "replay"):
            assert embed(one.url) == expected
            with pytest.raises(openai.APIStatusError):
                embed(other.url)
        assert (len(one.received), len(other.received)) == (2, 0)


def test_the_path_goes_out_as_the_client_wrote_it(tmp_path: Path) -> None:
    """Not every server has its API below /v1."""
    choice = {"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}
    answer = {"choices": [choice], "model": "m"}
    with serving_in_thread(whole(json.dumps(answer).encode())) as stranger:
        with intercept(tmp_path, "once"):
            url = f"{stranger.url}/openai/deployments/mine/chat/completions?api-version=1"
            assert httpx.post(url, json=ASKED).status_code == 200
        assert stranger.received[0].path == "/openai/deployments/mine/chat/completions?api-version=1"
    assert len(Store.open(tmp_path)) == 1


def with_model_last(url: str) -> None:
    """In many pieces, and what tells that it is for a model stands at the end."""
    place = urlsplit(url)
    pieces = [b'{"messages": [', b'"' + b"x" * 200_000 + b'"]', b', "mod', b'el": "m"}']
    size = sum(map(len, pieces))
    head = f"POST {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {size}\r\n\r\n"
    with socket.create_connection((place.hostname, place.port or 80), timeout=60) as connection:
        for piece in [head.encode(), *pieces]:
            connection.sendall(piece)


def with_socket(url: str) -> None:
    place = urlsplit(url)
    body = json.dumps(ASKED).encode()
    head = f"POST {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((place.hostname, place.port or 80), timeout=60) as connection:
        connection.sendall(head.encode() + body)


def with_streams(url: str) -> None:
    place = urlsplit(url)
    body = json.dumps(ASKED).encode()
    head = f"POST {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"

    async def go() -> None:
        _, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.writelines([head.encode(), body])
        await writer.drain()

    asyncio.run(go())


CLIENTS = [with_model_last, with_socket, with_streams]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mode", ["replay", "once", "record"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_other_clients_are_refused_and_counted(
    tmp_path: Path, client: Callable[[str], None], mode: Any, path: str
) -> None:
    Store.create(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        host = f"127.0.0.1:{stranger.getsockname()[1]}"
        with intercept(tmp_path, mode) as interception:
            with pytest.raises(OSError, match=f"live call to {host} was refused") as caught:
                client(f"http://{host}{path}")
            assert f"allow_hosts=['{host}']" in str(caught.value)
            assert interception.scope.run.ledger.bypassed == {host: 1}
        connection, _ = stranger.accept()
        with connection:
            assert b'"m"' not in what_came(connection), "nobody was asked anything"


def with_websocket(url: str) -> None:
    with connect(url, compression=None, open_timeout=LONGEST_S):
        pass


def with_async_websocket(url: str) -> None:
    async def go() -> None:
        async with async_connect(url, compression=None, open_timeout=LONGEST_S):
            pass

    asyncio.run(go())


@pytest.mark.parametrize("client", [with_websocket, with_async_websocket])
@pytest.mark.parametrize("path", ["/v1/realtime?model=m", "/v1/responses"])
def test_a_web_socket_to_a_model_is_refused_and_counted(
    tmp_path: Path, client: Callable[[str], None], path: str
) -> None:
    Store.create(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        host = f"127.0.0.1:{stranger.getsockname()[1]}"
        with intercept(tmp_path, "replay") as interception:
            with pytest.raises(ConnectionClosedError) as closed:
                client(f"ws://{host}{path}")
            assert f"live call to {host} was refused" in str(closed.value.__cause__)
            assert interception.scope.run.ledger.bypassed == {host: 1}
        connection, _ = stranger.accept()
        with connection:
            assert what_came(connection) == b"", "nothing was sent"


def what_came(connection: socket.socket) -> bytes:
    """Nothing is under way any more when a client has been refused."""
    connection.setblocking(False)
    data = b""
    with contextlib.suppress(BlockingIOError, ConnectionError):
        while piece := connection.recv(65536):
            data += piece
    return data


def is_reached(stranger: FakeProvider, path: str, body: Any) -> bool:
    before = len(stranger.received)
    requests.post(stranger.url + path, json=body, timeout=60)
    httpx.post(stranger.url + path, json=body, timeout=60)
    return len(stranger.received) == before + 2


@pytest.mark.parametrize("mode", ["replay", "once"])
def test_the_application_under_test_can_be_asked(tmp_path: Path, mode: Any) -> None:
    """What it is asked is not what models are asked; or its host is named."""
    Store.create(tmp_path)
    with serving_in_thread(whole(b"{}")) as app:
        port = urlsplit(app.url).port
        with intercept(tmp_path, mode):
            assert is_reached(app, "/messages", {"text": 'a text that names "model" and "messages"'})
            assert is_reached(app, "/api/chat", {"messages": ASKED["messages"]})
        for host in (f"127.0.0.1:{port}", "localhost", f"LOCALHOST:{port}"):
            with intercept(tmp_path, mode, allow_hosts=[host]) as interception:
                assert is_reached(app, "/v1/chat/completions", ASKED)
                assert interception.calls == 0


def test_a_configured_provider_is_never_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.create(tmp_path)
    with model_server() as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        with intercept(tmp_path, "replay", allow_hosts=["localhost"]) as interception:
            assert httpx.post(f"{provider.url}/v1/chat/completions", json=ASKED).status_code == 424
        assert interception.calls == 1
        assert provider.received == []


def test_nobody_is_refused_in_live_or_without_a_guard(tmp_path: Path) -> None:
    Store.create(tmp_path)
    with serving_in_thread(whole(b"{}")) as stranger:
        for options in ({"mode": "live"}, {"mode": "replay", "guard": False}):
            with intercept(tmp_path, **options):
                with_socket(f"{stranger.url}/v1/chat/completions")
        wait_until(lambda: len(stranger.received) == 2)
