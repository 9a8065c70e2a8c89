"""requests and urllib3: what they do above a connection stays theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from cortex_replay import Store, intercept
from cortex_replay.faults import Fault, Faults
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import serving_in_thread, whole
from tests.gateway.upstream import model_server
from tests.interception.clients import HEADERS
from tests.interception.conftest import point_at

ASKED: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]}
CLAUDE = DIALECTS[0]


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.headers.update(HEADERS)
        yield session


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    Store.create(tmp_path)
    return tmp_path


def test_a_failure_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: requests.Session
) -> None:
    """By urllib3, as its user has told it to: a real one, and one on demand."""
    session.mount("http://", HTTPAdapter(max_retries=Retry(2, status_forcelist=[503], allowed_methods=None)))
    scripts = [whole(b"{}", 503), whole(CLAUDE.answer("Hi."))]
    with serving_in_thread(*scripts) as provider:
        point_at(provider.url, monkeypatch)
        url = f"{provider.url}/v1/messages"
        with intercept(tmp_path, "once") as recording:
            assert session.post(url, json=ASKED).status_code == 200
        with intercept(tmp_path, "replay") as replaying:
            replaying.faults = Faults([Fault.parse("503"), Fault.parse("reset@2")])
            assert session.post(url, json=ASKED).status_code == 200
        assert (recording.calls, replaying.calls) == (2, 3)
        assert len(provider.received) == 2


def test_a_miss_is_not_tried_again(empty: Path, session: requests.Session) -> None:
    session.mount("https://", HTTPAdapter(max_retries=Retry(3, status_forcelist=[500, 502, 503, 504])))
    with intercept(empty, "replay") as interception:
        answer = session.post("https://api.anthropic.com/v1/messages", json=ASKED)
    assert (answer.status_code, interception.calls) == (424, 1)
    assert "nothing is recorded" in answer.json()["error"]["message"]
    assert answer.url == "https://api.anthropic.com/v1/messages"


def test_no_proxy_is_asked_for_what_is_ours_and_it_is_for_the_rest(
    empty: Path, session: requests.Session
) -> None:
    """A proxy that is not there."""
    session.proxies = dict.fromkeys(("http", "https"), "http://127.0.0.1:9")
    with intercept(empty, "replay") as interception:
        for scheme in ("https", "http"):
            asked = session.post(f"{scheme}://model.example/v1/messages", json=ASKED)
            assert asked.status_code == 424
        assert session.post("https://api.anthropic.com/v1/messages", json=ASKED).status_code == 424
        assert interception.calls == 3
        for url in ("https://other.example/", "http://other.example/"):
            with pytest.raises(requests.exceptions.ProxyError):
                session.get(url)
        # It has the path of a model's, and its body says that it is none.
        with pytest.raises(requests.exceptions.ProxyError):
            session.post("https://other.example/v1/messages", json={"text": "Hello."})


def test_one_pool_serves_both_what_is_ours_and_what_is_not(tmp_path: Path, session: requests.Session) -> None:
    """On one connection, one after the other, with the body that tells which it is."""
    with model_server() as server:
        url = f"{server.url}/v1/messages"
        with intercept(tmp_path, "once") as interception:
            statuses = [
                session.get(f"{server.url}/nothing").status_code,
                session.post(url, json=ASKED).status_code,
                session.post(f"{server.url}/messages", json={"text": "Hello."}).status_code,
                session.post(url, data=iter([json.dumps(ASKED).encode()])).status_code,
                session.get(f"{server.url}/nothing").status_code,
            ]
        assert statuses == [404, 200, 404, 200, 404]
        assert interception.calls == 2
        paths = [call.path for call in server.received]
        assert paths == ["/nothing", "/v1/messages", "/messages", "/v1/messages", "/nothing"]


def test_lines_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: requests.Session) -> None:
    """Read line by line, and sent from a file."""
    stream = tmp_path / "body.json"
    stream.write_text(json.dumps({**ASKED, "stream": True}))

    def lines(url: str) -> list[bytes]:
        with stream.open("rb") as file, session.post(url, data=file, stream=True) as answer:
            answer.raise_for_status()
            assert answer.headers["content-type"].startswith("text/event-stream")
            return list(answer.iter_lines())

    with model_server() as server:
        point_at(server.url, monkeypatch)
        url = f"{server.url}/v1/messages"
        with intercept(tmp_path / "llm", "once"):
            live = lines(url)
        with intercept(tmp_path / "llm", "replay"):
            assert lines(url) == live
        assert len(server.received) == 1
    assert b"event: message_stop" in live


def test_a_response_of_urllib3_is_a_whole_one(empty: Path) -> None:
    with intercept(empty, "replay"), urllib3.PoolManager() as pools:
        answer = pools.request("GET", "https://api.openai.com/v1/models")
        pool = pools.connection_from_url("https://api.openai.com")
        assert answer.status == 424
        assert answer.headers["x-should-retry"] == "false"
        assert answer.json()["error"]["type"] == "no_fixture"
        assert (pool.num_requests, pool.num_connections) == (1, 1)
        assert urlsplit(answer.geturl() or "").path == "/v1/models"
