"""Who may open a WebSocket, and what others are told."""

from __future__ import annotations

import json
import socket

import pytest

from cortex_replay.gateway import Gateway
from cortex_replay.gateway.protocol import Protocol
from tests.adapters.fake_provider import FakeProvider
from tests.gateway.conftest import Opened

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
UPGRADE = ["connection: keep-alive, Upgrade", "upgrade: WebSocket", "sec-websocket-version: 13"]


def upgrade(
    gateway: Gateway, path: str, *lines: str, method: str = "GET", pieces: int = 1, host: str = ""
) -> tuple[int, dict[str, str], bytes]:
    """What a socket says to an upgrade, until it closes or has said its head."""
    host = host or f"127.0.0.1:{gateway.port}"
    head = [f"{method} {path} HTTP/1.1", f"host: {host}", f"sec-websocket-key: {KEY}", *UPGRADE, *lines]
    data = "\r\n".join([*head, "", ""]).encode()
    size = -(-len(data) // pieces)
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), size):
            connection.sendall(data[start : start + size])
        received = b""
        while data := connection.recv(65536):
            received += data
            if received.startswith(b"HTTP/1.1 101"):
                break
    answered, _, body = received.partition(b"\r\n\r\n")
    first, *rest = answered.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in rest)
    return int(first.split()[1]), headers, body


def path_of(gateway: Gateway, rest: str, scope: str = "") -> str:
    return gateway.url("", scope).partition(str(gateway.port))[2] + rest


def test_an_upgrade_that_nobody_serves_is_refused_at_once(opened: Opened, provider: FakeProvider) -> None:
    """With 426, at which Codex and others go over to HTTP; anything else they try again."""
    with opened("once", provider.url) as gateway:
        status, headers, body = upgrade(gateway, path_of(gateway, "/openai/v1/chat/completions"))
    assert status == 426
    assert headers["connection"] == "close"
    assert "ask over HTTP" in json.loads(body)["error"]["message"]
    assert provider.received == [], "it is no GET"


def test_an_upgrade_needs_what_a_call_needs(opened: Opened, provider: FakeProvider) -> None:
    path = "/openai/v1/responses"
    with opened("once", provider.url) as gateway:
        for line, status in (
            ("origin: https://evil.example", 403),
            ("sec-fetch-site: cross-site", 403),
            ("host: evil.example", 403),
            ("x-cortex-replay-token: wrong", 401),
            ("x-nothing: 1", 401),
        ):
            assert upgrade(gateway, path, line)[0] == status, line
        assert upgrade(gateway, f"/t-{'0' * 64}{path}")[0] == 401
    with opened() as gateway:
        assert upgrade(gateway, "/-/ledger")[0] == 401
        assert upgrade(gateway, "/openai/v1/realtime", "origin: null")[0] == 403
        assert upgrade(gateway, "/openai/v1/realtime", host="evil.example")[0] == 403
    assert provider.received == []


def test_a_head_may_come_in_pieces(opened: Opened) -> None:
    with opened() as gateway:
        for pieces in (1, 2, 3, 5, 50):
            assert upgrade(gateway, "/openai/v1/chat/completions", pieces=pieces)[0] == 426, pieces


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_only_a_get_is_an_upgrade(opened: Opened, provider: FakeProvider, method: str) -> None:
    with opened("once", provider.url) as gateway:
        status, _, _ = upgrade(gateway, path_of(gateway, "/openai/v1/x"), "connection: close", method=method)
    assert status == 404, "the upstream's own answer"


def test_a_connection_that_still_answers_is_not_taken_over(opened: Opened, provider: FakeProvider) -> None:
    """The answer to the first call would stand in the middle of the frames."""
    with opened("once", provider.url) as gateway:
        path = path_of(gateway, "/openai/v1/models")
        host = f"host: 127.0.0.1:{gateway.port}"
        first = f"GET {path} HTTP/1.1\r\n{host}\r\n\r\n"
        second = "\r\n".join([f"GET {path} HTTP/1.1", host, f"sec-websocket-key: {KEY}", *UPGRADE, "", ""])
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=60) as connection:
            connection.sendall((first + second).encode())
            received = b""
            while received.count(b"HTTP/1.1 200") < 2:
                data = connection.recv(65536)
                assert data, received
                received += data
    assert b" 101 " not in received


class _Reader(Protocol):
    """Notes what its parser would get."""

    def __init__(self) -> None:
        self._line = bytearray()
        self.read: list[bytes] = []

    def take(self, data: bytes) -> None:
        lines = self._take_lines(data)
        self._has_line = self._has_line or bool(lines)
        self.read += [lines] if lines else []


HEAD = b"POST /v1/x HTTP/1.1\r\nupgrade: websocket\r\ncontent-length: 4\r\n\r\n"


@pytest.mark.parametrize("cut", range(1, len(HEAD) + 4))
def test_no_header_is_cut_in_two(cut: int) -> None:
    """However the bytes come: one that is would not be known for an upgrade."""
    data = HEAD + b"body"
    reader = _Reader()
    reader.take(data[:cut])
    for byte in data[cut : len(HEAD)]:
        reader.take(bytes([byte]))
    is_whole = b"".join(reader.read)[: len(HEAD)] == HEAD

    assert is_whole
    assert all(part.endswith(b"\n") for part in reader.read[:-1])
    assert not reader._line
