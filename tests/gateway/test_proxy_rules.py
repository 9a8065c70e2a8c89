"""What the proxy lets through, for whom, and to whom: no connection is made."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator

import pytest

from cortex_replay.config.servers import Server
from cortex_replay.gateway.access import Entry, Refusal
from cortex_replay.gateway.proxy import Proxy, ProxyRules, _read
from cortex_replay.gateway.visits import Visit


def head(first: str, *lines: str) -> bytes:
    return "\r\n".join([first, *lines, "", ""]).encode()


def basic(user: str, password: str) -> str:
    return f"proxy-authorization: Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """One that takes no connections."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        yield Proxy(ProxyRules(), ("127.0.0.1", 1), None, listening)  # type: ignore[arg-type]


def test_only_the_token_opens_the_proxy(proxy: Proxy) -> None:
    token = proxy._token
    scopes = {
        (): None,
        (basic("cortex-replay", ""),): None,
        (basic("cortex-replay", "wrong"),): None,
        (basic("cortex-replay", token[:-1]),): None,
        (f"proxy-authorization: Bearer {token}",): None,
        (f"proxy-authorization: Basic {token}",): None,
        (basic("cortex-replay", token).replace("proxy-", ""),): None,
        (basic("cortex-replay", token),): "",
        (basic("s-mine", token).replace("Basic", "basic"),): "mine",
    }
    for lines, scope in scopes.items():
        request = _read(head("CONNECT api.openai.com:443 HTTP/1.1", *lines))
        assert request is not None
        assert proxy._scope(request) == scope, lines


def test_what_is_for_the_proxy_goes_no_further(proxy: Proxy) -> None:
    request = _read(
        head(
            "GET http://a.example/x HTTP/1.1",
            basic("cortex-replay", proxy._token),
            "Proxy-Connection: keep-alive",
            "Connection: keep-alive",
            "X-Other: 1",
        )
    )
    assert request is not None
    sent = request.for_server("/x").decode().lower()

    assert sent == "get /x http/1.1\r\nx-other: 1\r\nconnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("allowed", "host", "port", "is_let"),
    [
        ("a.example", "a.example", 443, True),
        ("a.example", "a.example", 80, True),
        ("a.example:443", "a.example", 443, True),
        ("a.example:443", "a.example", 80, False),
        ("a.example:443", "b.example", 443, False),
        ("[::1]:443", "::1", 443, True),
        ("[::1]:443", "::1", 80, False),
        ("A.Example.", "a.example", 443, True),
    ],
)
def test_a_host_is_let_through_as_it_is_named(allowed: str, host: str, port: int, is_let: bool) -> None:
    assert ProxyRules(allowed=[allowed]).lets_through(host, port) == is_let
    assert ProxyRules(is_open=True).lets_through(host, port)
    assert not ProxyRules().lets_through(host, port)


@pytest.mark.parametrize(
    ("hosts", "status"),
    [
        (["api.openai.com"], 0),
        (["API.OpenAI.com:443"], 0),
        (["other.example"], 421),
        (["api.openai.com", "other.example"], 421),
        (["api.openai.com", "api.openai.com"], 403),
        ([], 403),
    ],
)
def test_a_visit_is_to_one_host(hosts: list[str], status: int) -> None:
    """A connection that was opened to one is used for no other."""
    visit = Visit(Server("https", "api.openai.com", 443), "mine")
    entry = visit.enter("/v1/models", [(b"host", host.encode()) for host in hosts])

    assert (entry.status if isinstance(entry, Refusal) else 0) == status
    if isinstance(entry, Entry):
        assert entry == Entry("/v1/models", "mine")
