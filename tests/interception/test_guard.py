"""The guard: all the ways to a host are watched while it lasts, and nothing is behind it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import socket
import ssl
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.interception import guard
from cortex_replay.interception.guard import LiveCallRefused, guarding
from cortex_replay.interception.interception import Interception
from tests.engine.http.harness import run_over

HOST = "api.openai.com"


def refuse(host: str) -> LiveCallRefused:
    return LiveCallRefused(host)


def name_in_tls(host: str) -> None:
    context = ssl.create_default_context()
    with socket.socket() as plain:
        context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)


def name_in_tls_of_a_loop(host: str) -> None:
    ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=host)


def write(*pieces: str) -> Callable[[str], None]:
    def write_to(host: str) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for piece in pieces:
                ours.sendall(piece.replace("HOST", host).encode())

    return write_to


WAYS: dict[str, Callable[[str], Any]] = {
    "a name that is looked up": lambda host: socket.getaddrinfo(host, 443),
    "a name that is looked up in the old way": lambda host: socket.gethostbyname_ex(str(host)),
    "a name in TLS": name_in_tls,
    "a name in TLS of a loop": name_in_tls_of_a_loop,
    "a request": write("GET / HTTP/1.1\r\nhost: HOST\r\n\r\n"),
    "a request to a proxy": write("GET http://HOST/ HTTP/1.1\r\nhost: proxy.example\r\n\r\n"),
    "a tunnel": write("CONNECT HOST:443 HTTP/1.1\r\nhost: HOST:443\r\n\r\n"),
}
"""How a client names its host."""


@pytest.mark.parametrize("way", WAYS)
def test_a_guarded_host_is_reached_in_no_way(way: str) -> None:
    with guarding([HOST], refuse), pytest.raises(LiveCallRefused, match=HOST):
        WAYS[way](HOST)


CHAT = "POST /api/chat HTTP/1.1\r\nhost: HOST\r\ncontent-type: application/json\r\n\r\n"
BODY = '{"model": "m", "messages": []}'


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_call_to_a_model_is_seen_in_pieces_too(size: int) -> None:
    """At a host that no provider has: as soon as its body tells."""
    pieces = [CHAT, *(BODY[start : start + size] for start in range(0, len(BODY), size))]
    with guarding([], refuse), pytest.raises(LiveCallRefused, match=r"other\.example"):
        write(*pieces)("other.example")
    with guarding([], refuse, lambda host: host == "other.example"):
        write(*pieces)("other.example")
    with guarding([], refuse):
        write(CHAT, '{"nothing": "of a model"}')("other.example")


def test_a_loop_that_is_imported_later_is_watched_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks names up and connects below Python's sockets."""
    pytest.importorskip("uvloop")
    monkeypatch.delitem(sys.modules, "uvloop")
    with guarding([HOST], refuse):
        loop = importlib.import_module("uvloop").new_event_loop()
        try:
            for ask in (loop.getaddrinfo, partial(loop.create_connection, asyncio.Protocol)):
                with pytest.raises(LiveCallRefused, match=HOST):
                    ask(HOST, 443)
        finally:
            loop.close()
    assert "create_connection" not in vars(type(loop))  # but in what it derives from, as ever


def test_nothing_stays_behind_the_last_guard() -> None:
    def found() -> list[Any]:
        owners = (socket, socket.socket, ssl.SSLSocket, ssl.SSLObject, ssl.SSLContext)
        return [dict(vars(owner)) for owner in owners]

    before = found()
    with guarding([HOST], refuse):
        with contextlib.suppress(ValueError), guarding([HOST], refuse):
            assert found() != before
            raise ValueError
        assert found() != before, "the outer one still holds"
    assert found() == before
    assert (guard._REPLACED, guard._ACTIVE, dict(guard._PENDING)) == ([], [], {})


@pytest.mark.parametrize(
    ("allowed", "authority", "is_left"),
    [
        ("app.example", "app.example:80", True),
        ("app.example", "app.example", True),
        ("app.example:80", "app.example:80", True),
        ("app.example:80", "app.example:81", False),
        ("app.example:80", "app.example", False),
        ("localhost:80", "127.0.0.1:80", True),
        ("localhost:80", "[::1]:81", False),
        ("app.example", "app.example.org", False),
    ],
)
def test_a_host_is_left_alone_as_it_is_named(
    tmp_path: Path, allowed: str, authority: str, is_left: bool
) -> None:
    with run_over(tmp_path) as run:
        made = Interception(run.engine(), run.open_scope(), allow_hosts=[allowed])
        assert made.is_allowed(authority) == is_left
