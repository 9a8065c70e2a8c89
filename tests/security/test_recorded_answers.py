"""What a recording says besides its answer leads a client nowhere: a stranger may have written it."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import http.server
import threading
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import cortex_replay
from cortex_replay import LlmRequest, Store
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.render import reply_of_wire
from cortex_replay.store import FixtureKey
from cortex_replay.store.exchange import Exchange, parse_exchange, render_exchange
from cortex_replay.store.fixture_json import FixtureError
from tests.gateway.conftest import gateway_over

ASKED: dict[str, JsonValue] = {
    "model": "claude-x",
    "max_tokens": 16,
    "messages": [{"role": "user", "content": "hi"}],
}
REQUEST = LlmRequest("claude-x", "", "hi", None, 16)
KEY = "sk-" + "ant-" + "0123456789abcdef" * 2


@contextlib.contextmanager
def strangers_server() -> Iterator[tuple[str, list[str]]]:
    """A server that notes who comes."""
    came: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(str(self.headers))
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", came
        server.shutdown()


def store_with(root: Path, wire: dict[str, JsonValue]) -> Path:
    """A store as somebody's pull request has it: one completion and one other call, with such an answer."""
    store = Store.open_or_create(root)
    failure: dict[str, JsonValue] = {"protocol": "anthropic-messages", **wire}
    store.add_exchange(Exchange.failure(store.key(REQUEST), 1, failure))
    request: dict[str, JsonValue] = {"upstream": "anthropic", "method": "GET", "path": "/v1/models"}
    store.add_exchange(parse_exchange(render_exchange(Exchange(wire, request=request | {"query": []}))))
    store.commit()
    return root


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("name", ["location", "Location"])
def test_a_recorded_redirect_leads_no_client_to_another_server(
    tmp_path: Path, status: int, name: str
) -> None:
    """SDKs follow redirects, with their key in a header of their own; it was delivered, in replay."""
    with strangers_server() as (url, came):
        store = store_with(tmp_path / "llm", {"status": status, "headers": {name: url}, "body": ""})
        with (
            cortex_replay.intercept(store, "replay"),
            httpx.Client(follow_redirects=True, headers={"x-api-key": KEY}) as client,
        ):
            posted = client.post("https://api.anthropic.com/v1/messages", json=ASKED)
            listed = client.get("https://api.anthropic.com/v1/models")
        with gateway_over(store) as gateway, httpx.Client(follow_redirects=True) as client:
            behind = client.get(gateway.url("anthropic") + "/v1/models")
        assert [posted.status_code, listed.status_code, behind.status_code] == [status] * 3
        assert came == []


def test_a_recorded_answer_brings_only_the_headers_that_are_recorded(tmp_path: Path) -> None:
    """No cookie, no second length, no compression, under which a small file is a large answer."""
    headers: dict[str, JsonValue] = {
        "content-type": "application/json",
        "x-request-id": "r1",
        "set-cookie": "a=b",
        "content-length": "1",
        "content-encoding": "gzip",
        "transfer-encoding": "chunked",
        "refresh": "0; url=http://127.0.0.1:1/",
    }
    body = gzip.compress(b"0" * 2**20)
    wire: dict[str, JsonValue] = {
        "status": 200,
        "headers": headers,
        "body_base64": b64encode(body).decode(),
    }
    store = store_with(tmp_path / "llm", wire)
    with gateway_over(store) as gateway:
        answer = httpx.get(gateway.url("anthropic") + "/v1/models")
    assert answer.content == body
    assert set(answer.headers) == {"content-type", "x-request-id", "content-length"}


@pytest.mark.parametrize("value", ["r1\r\nset-cookie: a=b", "r1\nx: y", "\x00", "r\u20ac", ["r1"], None])
def test_a_recorded_header_is_one_line_of_plain_text(value: JsonValue) -> None:
    wire: dict[str, JsonValue] = {"status": 200, "headers": {"request-id": value}, "body": ""}
    assert reply_of_wire(wire).headers == ()


@pytest.mark.parametrize("status", [-1, 0, 99, 100, 101, 199, 600, 999, 2**63, True])
def test_a_recorded_answer_has_a_status_that_ends_a_call(status: int) -> None:
    wire: dict[str, JsonValue] = {"status": status, "headers": {}, "body": ""}
    data = render_exchange(Exchange.failure(FixtureKey("m", "0" * 64), 1, wire))
    with pytest.raises(FixtureError, match="status"):
        parse_exchange(data)


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_without_a_body_brings_none(tmp_path: Path, status: int, is_stream: bool) -> None:
    """A client would take it for the answer to its next call on this connection."""
    planted = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nplanted"
    content: dict[str, JsonValue] = {"body": planted}
    if is_stream:
        content = {"events": [{"at_ms": 0, "text": planted}]}
    root = store_with(tmp_path / "llm", {"status": status, "headers": {}, **content})
    with gateway_over(root) as gateway:
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        with contextlib.closing(connection):
            answers = []
            for path in ("/anthropic/v1/models", "/anthropic/v1/nothing"):
                connection.request("GET", path)
                answer = connection.getresponse()
                answers.append((answer.status, b"planted" in answer.read()))
    assert answers == [(status, False), (424, False)]
