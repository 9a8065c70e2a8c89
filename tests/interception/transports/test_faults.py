"""Faults reach the clients of every library as its own errors, as they would from a real connection."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
import requests
import urllib3

from cortex_replay import intercept
from cortex_replay.faults import Fault, Faults
from tests.gateway.upstream import model_server
from tests.interception.clients import HTTPX, OTHERS, Client
from tests.interception.conftest import point_at

ASKED: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]}
STREAM: Any = {**ASKED, "stream": True}
REQUESTS, URLLIB3, HTTP_CLIENT, AIOHTTP = OTHERS


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """What was recorded, and where."""
    root = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as monkeypatch, model_server() as provider:
        point_at(provider.url, monkeypatch)
        with intercept(root, "once"):
            assert HTTPX[0].post(provider.url, ASKED)[0] == HTTPX[0].post(provider.url, STREAM)[0] == 200
        yield root, provider.url
        assert len(provider.received) == 2


RESET = {
    HTTPX[0]: httpx.ReadError,
    REQUESTS: requests.ConnectionError,
    URLLIB3: urllib3.exceptions.ProtocolError,
    HTTP_CLIENT: ConnectionResetError,
    AIOHTTP: aiohttp.ClientOSError,
}
TIMEOUT = {
    HTTPX[0]: httpx.ReadTimeout,
    REQUESTS: requests.ReadTimeout,
    URLLIB3: urllib3.exceptions.ReadTimeoutError,
    HTTP_CLIENT: TimeoutError,
    AIOHTTP: aiohttp.ServerTimeoutError,
}
STALL = {**TIMEOUT, REQUESTS: requests.ConnectionError}
CUT = {
    HTTPX[0]: httpx.RemoteProtocolError,
    REQUESTS: requests.exceptions.ChunkedEncodingError,
    URLLIB3: urllib3.exceptions.ProtocolError,
    HTTP_CLIENT: http.client.IncompleteRead,
    AIOHTTP: aiohttp.ClientPayloadError,
}
CASES = [
    (fault, body, client, error)
    for fault, body, errors in (
        ("reset", ASKED, RESET),
        ("timeout", ASKED, TIMEOUT),
        ("cut", ASKED, CUT),
        ("cut:2", STREAM, CUT),
        ("stall:2", STREAM, STALL),
    )
    for client, error in errors.items()
]


@pytest.mark.parametrize(("fault", "body", "client", "error"), CASES, ids=str)
def test_a_fault_is_the_librarys_own_error(
    store: tuple[Path, str],
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    body: Any,
    client: Client,
    error: type[Exception],
) -> None:
    root, url = store
    point_at(url, monkeypatch)
    pieces: list[bytes] = []
    with intercept(root, "replay") as interception:
        interception.faults = Faults([Fault.parse(fault)])
        # As a user has it who wants no second try; its own error is then what went wrong.
        monkeypatch.setattr(urllib3.util.Retry, "DEFAULT", urllib3.util.Retry(False))
        with pytest.raises(error):
            _ = client.post(url, body) if fault == "cut" else client.stream(url, body, pieces)
        assert interception.faults.struck
        whole = client.post(url, body)

    assert whole[0] == 200, "it strikes once"
    assert whole[1].startswith(b"".join(pieces))
    assert fault != "cut:2" or len(pieces) == 2


def test_a_status_is_an_answer(store: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    root, url = store
    point_at(url, monkeypatch)
    for client in OTHERS:
        with intercept(root, "replay") as interception:
            interception.faults = Faults([Fault.parse("529")])
            status, body = client.post(url, ASKED)
        assert status == 529
        assert b"overloaded_error" in body
