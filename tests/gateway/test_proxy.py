"""Clients without a base URL, and calls around the gateway."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from cortex_replay.adapters.http import Endpoint
from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.faults import Fault, Faults
from cortex_replay.gateway.proxy import ProxyRules
from cortex_replay.providers import DUMMY_KEY
from cortex_replay.run import Run
from tests.adapters.fake_provider import FakeProvider
from tests.gateway.conftest import Opened
from tests.gateway.proxy_client import (
    ask,
    authorization,
    client_of,
    own_url,
    proxy_address,
    rules_for,
    trusting,
)
from tests.gateway.upstream import REAL_KEY
from tests.waiting import wait_until

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
CHAT = "https://api.openai.com/v1/chat/completions"


@contextmanager
def echo_server() -> Iterator[int]:
    """A server that says back what it got, for one connection after the other."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    data = connection.recv(65536)
                    while data.startswith(b"POST ") and not data.endswith(b"body"):
                        data += connection.recv(65536)
                    head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" if b" HTTP/1" in data else b""
                    connection.sendall(head + data)

        threading.Thread(target=serve, daemon=True).start()
        yield int(listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_recorded_through_the_proxy_replays_by_both_roads(
    opened: Opened, provider: FakeProvider, stream: bool
) -> None:
    body = {**ASKED, "stream": True, "stream_options": {"include_usage": True}} if stream else ASKED
    with opened("once", provider.url, proxy=rules_for(is_open=True)) as gateway, client_of(gateway) as client:
        live = client.post(CHAT, json=body, headers={"authorization": f"Bearer {DUMMY_KEY}"})
    assert live.status_code == 200
    assert provider.received[-1].headers["authorization"] == f"Bearer {REAL_KEY}"

    with opened(proxy=rules_for()) as gateway, client_of(gateway) as client:
        assert client.post(CHAT, json=body).content == live.content
        by_url = httpx.post(f"{gateway.url('openai')}/v1/chat/completions", json=body)
        assert by_url.content == live.content
        assert gateway.run.ledger.hits == 2
        assert not gateway.run.ledger.misses


def test_a_call_recorded_by_base_url_replays_through_the_proxy(
    opened: Opened, provider: FakeProvider
) -> None:
    with opened("once", provider.url) as gateway:
        url = gateway.url("openai")
        live = httpx.post(f"{url}/v1/chat/completions", json=ASKED)
        models = httpx.get(f"{url}/v1/models")
    with opened(proxy=rules_for()) as gateway, client_of(gateway) as client:
        assert client.post(CHAT, json=ASKED).content == live.content
        # Recorded as it is, so that the name of the provider is in the key.
        assert client.get("https://api.openai.com/v1/models").content == models.content
        assert not gateway.run.ledger.misses


def test_a_miss_and_a_fault_look_as_they_do_at_the_gateway(opened: Opened, provider: FakeProvider) -> None:
    with opened("once", provider.url) as gateway:
        httpx.post(f"{gateway.url('openai')}/v1/chat/completions", json=ASKED)
    faults = Faults([Fault.parse("429@1")])
    with opened(proxy=rules_for(), faults=faults) as gateway, client_of(gateway) as client:
        assert client.post(CHAT, json=ASKED).status_code == 429
        assert client.post(CHAT, json=ASKED).status_code == 200
        changed = {**ASKED, "messages": [{"role": "user", "content": "ho"}]}
        missed = client.post(CHAT, json=changed)
        assert missed.status_code == 424
        assert "'hi' → 'ho'" in missed.json()["error"]["message"]


def test_a_scope_comes_as_the_user_of_the_proxy_or_in_a_header(
    opened: Opened, provider: FakeProvider
) -> None:
    with opened("once", provider.url, proxy=rules_for(is_open=True)) as gateway:
        scope = "tests/a.py::one two"
        with client_of(gateway, scope) as client:
            for _ in range(2):
                assert client.post(CHAT, json=ASKED).status_code == 200
        assert gateway.run.ledger.live == 2
        with client_of(gateway) as client:
            client.post(CHAT, json=ASKED)
            assert gateway.run.ledger.live == 2
            client.post(CHAT, json=ASKED, headers={"x-cortex-replay-scope": scope})
        assert gateway.run.ledger.live == 3


def test_hosts_of_models_that_are_no_providers_are_recorded(
    opened: Opened, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What looks like a call to a model by its wire, everything else as it is."""
    base = "https://api.together.xyz/v1"
    monkeypatch.setattr(
        "cortex_replay.adapters.http.Endpoint",
        lambda url: Endpoint(url.replace("https://api.together.xyz", provider.url)),
    )
    rules = rules_for(is_open=True)
    key = {"authorization": f"Bearer {REAL_KEY}"}
    with opened("once", proxy=rules) as gateway, client_of(gateway) as client:
        live = [
            client.post(f"{base}/chat/completions", json=ASKED, headers=key),
            client.get(f"{base}/models", headers=key),
        ]
    assert [received.headers["authorization"] for received in provider.received] == [f"Bearer {REAL_KEY}"] * 2
    assert rules.tunnelled == {}
    with opened(proxy=rules_for()) as gateway, client_of(gateway) as client:
        again = [client.post(f"{base}/chat/completions", json=ASKED), client.get(f"{base}/models")]
        assert [answer.content for answer in again] == [answer.content for answer in live]
        by_url = httpx.post(f"{gateway.url('openai')}/v1/chat/completions", json=ASKED)
        assert by_url.content == live[0].content


def test_a_host_that_the_user_names_is_one_of_a_model(opened: Opened) -> None:
    with opened(proxy=rules_for(None, "*.llm.example.com")) as gateway, client_of(gateway) as client:
        answer = client.post("https://eu.llm.example.com/v1/chat/completions", json=ASKED)
        assert answer.status_code == 424
        assert len(gateway.run.ledger.misses) == 1
        with pytest.raises(httpx.ProxyError):
            client.get("https://llm.example.org/")


def test_a_configured_provider_in_plain_http_is_reached_both_ways(opened: Opened) -> None:
    settings = Settings(
        providers={"mine": ProviderSettings(kind="openai-compat", base_url="http://llm.test:8080/v1")}
    )
    url = "http://llm.test:8080/v1/chat/completions"
    body = json.dumps(ASKED)
    with opened(settings=settings, proxy=rules_for(Run(settings, "live"))) as gateway:
        with client_of(gateway) as client:
            assert client.post(url, json=ASKED).status_code == 424
        connection = http.client.HTTPConnection(*proxy_address(gateway), timeout=60)
        connection.set_tunnel("llm.test", 8080, {"proxy-authorization": authorization(gateway)})
        connection.request("POST", "/v1/chat/completions", body)
        assert connection.getresponse().status == 424
        connection.close()
        assert len(gateway.run.ledger.misses) == 2


def test_other_hosts_are_tunnelled_while_something_is_recorded(opened: Opened) -> None:
    rules = rules_for(is_open=True)
    with echo_server() as port, opened("once", proxy=rules) as gateway:
        with client_of(gateway) as client:
            got = client.post(f"http://127.0.0.1:{port}/x?y", content=b"body")
        assert got.text.startswith("POST /x?y HTTP/1.1\r\n")
        assert "proxy-authorization" not in got.text.lower()  # the token is for the proxy alone
        assert got.text.endswith("\r\n\r\nbody")
        connection = http.client.HTTPConnection(*proxy_address(gateway), timeout=60)
        connection.set_tunnel("127.0.0.1", port, {"proxy-authorization": authorization(gateway)})
        connection.connect()
        connection.sock.sendall(b"any bytes")
        assert connection.sock.recv(100) == b"any bytes"
        connection.close()
        assert rules.tunnelled == {f"127.0.0.1:{port}": 2}
        assert gateway.run.ledger.calls == 0


def test_a_tunnel_goes_through_the_user_s_own_proxy(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    with echo_server() as port, opened("once", proxy=rules_for(is_open=True)) as gateway:
        monkeypatch.setenv("http_proxy", f"http://me:secret@127.0.0.1:{port}")
        monkeypatch.setenv("https_proxy", f"http://me:secret@127.0.0.1:{port}")
        with client_of(gateway) as client:
            got = client.get("http://example.test/x").text
        assert got.startswith("GET http://example.test/x HTTP/1.1\r\n")
        assert "proxy-authorization: Basic bWU6c2VjcmV0\r\n" in got
        with client_of(gateway) as client, pytest.raises(httpx.TransportError):
            client.get("https://example.test/")  # it says 200, and then nothing of TLS
        monkeypatch.setenv("https_proxy", f"socks5://127.0.0.1:{port}")
        with client_of(gateway) as client, pytest.raises(httpx.ProxyError, match="502"):
            client.get("https://example.test/")


def test_in_replay_other_hosts_are_refused_unless_they_are_allowed(opened: Opened) -> None:
    refused: list[str] = []
    with echo_server() as port:
        rules = rules_for(allowed=[f"127.0.0.1:{port}", "allowed.test"], refuse=refused.append)
        with opened(proxy=rules) as gateway, client_of(gateway) as client:
            assert client.get(f"http://127.0.0.1:{port}/").status_code == 200
            assert client.get("http://127.0.0.1:1/").status_code == 403
            assert client.get("http://allowed.test:81/").status_code == 502
    assert refused == ["127.0.0.1:1"]


def test_a_client_that_does_not_trust_the_authority_is_named(opened: Opened) -> None:
    rules = rules_for()
    with opened(proxy=rules) as gateway:
        distrustful = ssl.create_default_context()
        with (
            httpx.Client(proxy=own_url(gateway), verify=distrustful, trust_env=False) as client,
            pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            client.post(CHAT, json=ASKED)
        wait_until(lambda: bool(rules.distrusted))
    assert rules.distrusted == {"api.openai.com:443": 1}


@pytest.mark.parametrize("tunnel", [True, False])
def test_a_client_that_asks_a_proxy_for_this_machine_comes_to_the_gateway(
    opened: Opened, tunnel: bool
) -> None:
    """Whatever NO_PROXY says: some do not look at it. The gateway has a token of its own."""
    refused: list[str] = []
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "q"}]}
    with opened(proxy=ProxyRules(refuse=refused.append)) as gateway:
        if tunnel:
            connection = http.client.HTTPConnection(*proxy_address(gateway), timeout=60)
            connection.set_tunnel("127.0.0.1", gateway.port)
            connection.request("POST", "/anthropic/v1/messages", json.dumps(body))
            status = connection.getresponse().status
            connection.close()
        else:
            with httpx.Client(proxy=own_url(gateway), trust_env=False) as client:
                url = gateway.url("anthropic") + "/v1/messages"
                answers = [client.post(url, json=body) for _ in range(2)]
            status = answers[0].status_code

        assert status == 424
        assert refused == []
        assert len(gateway.run.ledger.misses) == (1 if tunnel else 2)


def test_a_guard_names_and_refuses(opened: Opened) -> None:
    """Also those who do not bring the token: nothing would come of that for them."""
    refused: list[str] = []
    with opened(proxy=ProxyRules(refuse=refused.append)) as gateway:
        assert gateway.certificate is None
        url = "http://{}:{}".format(*proxy_address(gateway))
        with pytest.raises(httpx.ProxyError, match="403"):
            httpx.get("https://api.openai.com/", proxy=url, trust_env=False)
        assert httpx.get("http://u:p@example.com:81/x", proxy=url, trust_env=False).status_code == 403
        assert httpx.get(url, trust_env=False).status_code == 403
        assert ask(gateway, "nonsense\r\n\r\n").startswith(b"HTTP/1.1 403 ")
    assert refused == ["api.openai.com:443", "example.com:81", "somewhere", "somewhere"]


def test_every_spelling_of_a_host_is_one_host(opened: Opened) -> None:
    refused: list[str] = []
    with opened(proxy=ProxyRules(refuse=refused.append)) as gateway:
        port = gateway.port
        for name in ("LOCALHOST", "127.1", "[::1]"):
            head = f"GET http://{name}:{port}/ HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n"
            assert ask(gateway, head).startswith(b"HTTP/1.1 404 "), name
        for target in ("API.OPENAI.COM.:443", "api.openai.com:443", "x@Api.OpenAI.com:443"):
            assert b" 403 " in ask(gateway, f"CONNECT {target} HTTP/1.1\r\n\r\n"), target
        assert b" 403 " in ask(gateway, f"GET http://127.0.0.1:{port}@api.openai.com/ HTTP/1.1\r\n\r\n")
        assert refused == ["api.openai.com:443"] * 3 + ["api.openai.com"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_comes_through(opened: Opened, provider: FakeProvider) -> None:
    """A program that has nothing of Python's."""
    with opened("once", provider.url, proxy=rules_for(is_open=True)) as gateway:
        assert gateway.certificate is not None
        command = ["curl", "-sS", "-m", "10", "-x", own_url(gateway), "--cacert", "/dev/stdin"]
        command += ["-H", "content-type: application/json", "-d", json.dumps(ASKED), CHAT]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as curl:
            out, _ = curl.communicate(gateway.certificate, timeout=300)
    assert json.loads(out)["choices"][0]["message"]["content"] == "You said: hi"


def test_stopping_ends_tunnels(opened: Opened) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with opened("once", proxy=rules_for(is_open=True)) as gateway:
            connection = socket.create_connection(proxy_address(gateway), timeout=60)
            head = (
                f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nproxy-authorization: {authorization(gateway)}\r\n\r\n"
            )
            connection.sendall(head.encode())
            assert b" 200 " in connection.recv(100)
        assert connection.recv(100) == b""
        connection.close()


def test_the_context_is_strict(opened: Opened) -> None:
    """What newer Pythons ask of a certificate by themselves holds, and HTTP/1.1 is all that is spoken."""
    with opened(proxy=rules_for()) as gateway:
        context = trusting(gateway)
        context.set_alpn_protocols(["h2", "http/1.1"])
        with socket.create_connection(proxy_address(gateway), timeout=60) as connection:
            auth = f"proxy-authorization: {authorization(gateway)}"
            connection.sendall(f"CONNECT api.openai.com:443 HTTP/1.1\r\n{auth}\r\n\r\n".encode())
            assert b" 200 " in connection.recv(100)
            with context.wrap_socket(connection, server_hostname="api.openai.com") as tls:
                assert tls.selected_alpn_protocol() == "http/1.1"
