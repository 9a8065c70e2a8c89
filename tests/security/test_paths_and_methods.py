"""A key stays below its provider's base path, and goes out with no request that could bring it back."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

import cortex_replay
from cortex_replay import Store
from cortex_replay.adapters.deadline import Deadline
from cortex_replay.adapters.http import Endpoint, RelayClient
from cortex_replay.adapters.secret import read_key
from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.engine.http.routes import path_problem
from cortex_replay.errors import InvalidRequest
from cortex_replay.gateway import Gateway
from cortex_replay.run import Run
from tests.adapters.fake_provider import Exchange, FakeProvider, serving_in_thread
from tests.waiting import LONGEST_S

KEY = "key-of-the-" + "provider-0123456789"
BASE = "/team/one"
DOTS = ["..", "%2e%2e", ".%2e", "%2E.", "..;", "..;x=1", "%252e%252e", "%25252e%25252e", "..%00", "..%20"]
DOTS += ["..%09", "%c0%ae%c0%ae", "%ef%bc%8e%ef%bc%8e", "%e2%80%a4%e2%80%a4", "%u002e%u002e", "%e2%80%a5"]
DOTS += [".", "%2e", ".;", "..%3b", "%2e%2e%3bx"]
SLASHES = ["/", "%2f", "%2F", "%252f", "\\", "%5c", "%255c", "%ef%bc%8f", "//"]
LEAVING = [f"/v1{a}{dots}{b}{dots}{b}admin" for dots, a, b in product(DOTS, SLASHES, SLASHES)]
LEAVING += [f"/{dots}/admin" for dots in DOTS] + [f"/v1/models/{dots}" for dots in DOTS]
HARMLESS = [
    "/v1/models/gpt-4o-mini",
    "/v1/models/org%2Fmodel",
    "/v1/models/ft%3Agpt-4o%3Aacme%3A%3A1",
    "/v1/files/file-1/content",
    "/v1beta/models/gemini-2.0-flash:generateContent",
    "/v1/files/r%C3%A9sum%C3%A9.txt",
    "/v1/files/.hidden",
    "/v1/files/a..b",
    "/v1/files/...",
    "/v1/files/..a",
    "/v1/files/100%25",
    "/v1/files/a;v=1",
]


async def echo(exchange: Exchange) -> None:
    """Everything that came, and the key once more in a header."""
    received = exchange.received
    shown = json.dumps({"path": received.path, "headers": received.headers}).encode()
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(shown)}\r\n"
        f"set-cookie: session=1\r\nset-cookie2: x\r\nx-echo: {received.headers.get('authorization', '')}\r\n"
        "connection: x-hop\r\nx-hop: 1\r\nstrict-transport-security: max-age=1\r\nclear-site-data: *\r\n"
        "access-control-allow-origin: *\r\nx-request-id: req-1\r\n\r\n"
    )
    await exchange.send(head.encode() + shown)


@pytest.fixture
def upstream() -> Iterator[FakeProvider]:
    with serving_in_thread(echo) as provider:
        yield provider


@contextmanager
def serving(root: Path, upstream: FakeProvider, kind: Any = "openai-compat") -> Iterator[Gateway]:
    provider = ProviderSettings(kind=kind, base_url=upstream.url + BASE, key_env=("TEAM_KEY",))
    settings = Settings(providers={"team": provider})
    environment = {"TEAM_KEY": KEY}
    store = Store.open_or_create(root / "store", verify="on-read")
    with Gateway(Run(settings, "live", store, environment=environment)).running() as gateway:
        yield gateway


class Connection:
    """One connection to a gateway, for requests that no client would send."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.socket = socket.create_connection(("127.0.0.1", gateway.port), timeout=LONGEST_S)
        self._file = self.socket.makefile("rb")

    def send(self, method: str, path: str, *lines: str, body: bytes = b"", target: str = "") -> None:
        token = self._gateway.url().partition(str(self._gateway.port))[2]
        head = [
            f"{method} {target or token + path} HTTP/1.1",
            f"host: 127.0.0.1:{self._gateway.port}",
            *lines,
        ]
        if not any(line.lower().startswith(("content-length", "transfer-encoding")) for line in lines):
            head.append(f"content-length: {len(body)}")
        self.socket.sendall("\r\n".join([*head, "", ""]).encode("latin-1") + body)

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer; status 0 if the connection was closed instead."""
        line = self._file.readline()
        if not line:
            return 0, {}, b""
        headers: dict[str, str] = {}
        while (header := self._file.readline()).strip():
            name, _, value = header.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        if line.startswith(b"HTTP/1.1 100 "):
            return self.answer()
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self._file.readline(), 16):
                body += self._file.read(size)
                self._file.readline()
            self._file.readline()
        else:
            body = self._file.read(int(headers.get("content-length", "0")))
        return int(line.split(b" ")[1]), headers, body

    def ask(self, method: str, path: str, *lines: str, **options: Any) -> tuple[int, dict[str, str], bytes]:
        self.send(method, path, *lines, **options)
        return self.answer()

    def close(self) -> None:
        self._file.close()
        self.socket.close()


@pytest.fixture
def gateway(tmp_path: Path, upstream: FakeProvider) -> Iterator[Gateway]:
    with serving(tmp_path, upstream) as gateway:
        yield gateway


def asked(gateway: Gateway, method: str, path: str, *lines: str, **options: Any) -> Any:
    connection = Connection(gateway)
    try:
        return connection.ask(method, path, *lines, **options)
    finally:
        connection.close()


def test_no_path_leads_out_of_the_base_path(gateway: Gateway, upstream: FakeProvider) -> None:
    """Whatever a server on the way may take for two dots and a slash."""
    connection = Connection(gateway)
    for path in LEAVING:
        status, _, body = connection.ask("GET", f"/team{path}")
        assert status == 400, (path, status, body)
        if b"Invalid HTTP" in body:
            connection.close()
            connection = Connection(gateway)
    connection.close()
    assert [received.path for received in upstream.received] == []


def test_what_an_sdk_asks_is_passed_on_as_it_is(tmp_path: Path, upstream: FakeProvider) -> None:
    with serving(tmp_path, upstream, "http") as gateway:
        for path in HARMLESS:
            assert asked(gateway, "GET", f"/team{path}")[0] == 200, path
    assert [received.path for received in upstream.received] == [BASE + path for path in HARMLESS]
    assert all(received.headers["authorization"] == f"Bearer {KEY}" for received in upstream.received)


@pytest.mark.parametrize("path", ["/v1/../../../admin", "/v1/../v1", "/..", "//evil/x", "v1"])
def test_the_client_itself_does_not_leave_its_base_path(upstream: FakeProvider, path: str) -> None:
    """Also if everything before it were to let such a path through: httpx would resolve it."""
    key = read_key(KEY)
    assert not isinstance(key, InvalidRequest)

    async def relay() -> None:
        http = RelayClient(Endpoint(upstream.url + BASE), key=key)
        try:
            await http.relay("GET", path, [], b"", Deadline(5000))
        finally:
            await http.aclose()

    with pytest.raises(InvalidRequest):
        asyncio.run(relay())
    assert upstream.received == []


def test_an_intercepted_call_stays_below_it_too(
    tmp_path: Path, upstream: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """httpx hands out decoded paths; escapes must not become dots, slashes or a query on the way."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEAM_KEY", KEY)
    (tmp_path / "cortex-replay.toml").write_text(
        f'[providers.team]\nkind = "http"\nbase_url = "{upstream.url}{BASE}"\nkey_env = "TEAM_KEY"\n'
    )
    with cortex_replay.intercept(tmp_path / "store", "once"), httpx.Client() as client:
        for path in ("/v1/%2e%2e/%2e%2e/%2e%2e/admin", "/v1/..%2f..%2f..%2fadmin"):
            answer = client.get(upstream.url + BASE + path)
            assert answer.status_code == 400, path
        assert client.get(f"{upstream.url}{BASE}/v1/a%3Fb%2Fc").status_code == 200
    assert [received.path for received in upstream.received] == [f"{BASE}/v1/a%3Fb%2Fc"]


@pytest.mark.parametrize(
    "method",
    ["TRACE", "CONNECT", "TRACK", "PROPFIND", "MKCOL", "LOCK", "PURGE", "SOURCE", "M-SEARCH", "trace"],
)
def test_other_methods_are_refused_before_a_key_is_attached(
    gateway: Gateway, upstream: FakeProvider, method: str
) -> None:
    assert asked(gateway, method, "/team/v1/models")[0] in (400, 405)
    assert upstream.received == []


@pytest.mark.parametrize(
    "target",
    ["http://evil.example/v1/models", "//evil.example/v1/models", "evil.example:443", "*", "v1/models", ""],
)
def test_a_target_that_is_no_path_goes_nowhere(gateway: Gateway, upstream: FakeProvider, target: str) -> None:
    for method in ("GET", "POST", "OPTIONS", "CONNECT"):
        status, _, _ = asked(gateway, method, "", target=target or " ")
        assert status in (0, 400, 401, 404, 405), (method, target)
    token = gateway.url().partition(str(gateway.port))[2]
    assert asked(gateway, "GET", "", target=f"http://evil.example{token}/team/v1/models")[0] == 400
    assert upstream.received == []


def test_an_upstream_is_told_nothing_of_the_way(gateway: Gateway, upstream: FakeProvider) -> None:
    lines = [
        "connection: keep-alive, x-api-key, x-listed",
        "x-listed: 1",
        "keep-alive: timeout=5",
        "te: trailers",
        "upgrade: websocket",
        "http2-settings: AAMAAABkAAQAAP__",
        "proxy-authorization: Basic eDp5",
        "proxy-connection: keep-alive",
        "forwarded: for=1.2.3.4;host=evil.example",
        "via: 1.1 evil",
        "x-forwarded-for: 1.2.3.4",
        "x-forwarded-host: evil.example",
        "x-forwarded-proto: http",
        "x-forwarded-prefix: /admin",
        "x-original-url: /admin",
        "x-rewrite-url: /admin",
        "x-http-method-override: TRACE",
        "x-real-ip: 1.2.3.4",
        "cookie: session=1",
        "cookie2: x",
        "referer: http://127.0.0.1/t-token",
        "x-cortex-replay-token: guessed",
        "x-cortex-replay-scope: test",
        "x-cortex-replay-anything: 1",
        "authorization: Bearer mine",
        "x-api-key: mine",
        "api-key: mine",
        "x-goog-api-key: mine",
        "expect: 100-continue",
        "x-custom: stays",
        "anthropic-beta: stays",
    ]
    status, _, body = asked(gateway, "POST", "/team/v1/embeddings", *lines, body=b"{}")
    assert status == 200, body
    (received,) = upstream.received
    sent = received.headers
    assert sent.pop("authorization") == f"Bearer {KEY}"
    assert sent.pop("host") == upstream.url.removeprefix("http://")
    assert sent.pop("connection", "keep-alive") == "keep-alive", "that of our own client"
    assert sent.pop("content-length") == "2"
    assert sent.keys() - {"accept", "user-agent"} == {"accept-encoding", "anthropic-beta", "x-custom"}


def test_a_client_gets_no_cookies_and_no_key_back(gateway: Gateway) -> None:
    """An upstream that repeats the key would give it to a command that is meant to hold none."""
    _, headers, _ = asked(gateway, "GET", "/team/v1/models")
    assert KEY not in str(headers)
    assert headers.pop("x-request-id") == "req-1"
    assert not headers.keys() & {
        "set-cookie",
        "set-cookie2",
        "x-hop",
        "connection",
        "strict-transport-security",
        "clear-site-data",
        "access-control-allow-origin",
    }


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        (["content-length: 2", "content-length: 3"], b"{} "),
        (["content-length: 2", "content-length: 2"], b"{}"),
        (["content-length: 2", "transfer-encoding: chunked"], b"0\r\n\r\n"),
        (["transfer-encoding: chunked", "content-length: 2"], b"0\r\n\r\n"),
        (["transfer-encoding: chunked, identity"], b"0\r\n\r\n"),
        (["transfer-encoding: x"], b""),
        (["content-length: +2"], b"{}"),
        (["content-length: 0x2"], b"{}"),
        (["content-length : 2"], b"{}"),
        (["x-a: 1\rx-b: 2"], b""),
        (["x-a: 1\n  folded"], b""),
        (["x-a: \x00"], b""),
        (["x a: 1"], b""),
        ([": 1"], b""),
    ],
)
def test_a_request_that_can_be_read_in_two_ways_is_refused(
    gateway: Gateway, upstream: FakeProvider, lines: list[str], body: bytes
) -> None:
    status, _, _ = asked(gateway, "POST", "/team/v1/embeddings", *lines, body=body)
    assert status in (0, 400)
    assert upstream.received == []


def test_one_request_does_not_hide_another(gateway: Gateway, upstream: FakeProvider) -> None:
    """Pipelined requests are each let in by themselves."""
    connection = Connection(gateway)
    connection.send("GET", "/team/v1/models")
    connection.send("GET", "", target="/team/v1/models")
    connection.send("TRACE", "/team/v1/models")
    connection.send("GET", "/team/v1/../../admin")
    statuses = [connection.answer()[0] for _ in range(4)]
    connection.close()
    assert statuses == [200, 401, 405, 400]
    assert len(upstream.received) == 1


def test_trailers_are_no_headers(gateway: Gateway, upstream: FakeProvider) -> None:
    chunked = b"2\r\n{}\r\n0\r\nx-api-key: mine\r\nx-cortex-replay-token: x\r\nx-late: 1\r\n\r\n"
    status, _, _ = asked(
        gateway, "POST", "/team/v1/embeddings", "transfer-encoding: chunked", "trailer: x-late", body=chunked
    )
    assert status == 200
    (received,) = upstream.received
    assert not received.headers.keys() & {"x-late", "x-api-key", "trailer", "transfer-encoding"}


def test_an_upgrade_is_never_an_ordinary_call(gateway: Gateway, upstream: FakeProvider) -> None:
    lines = ["connection: Upgrade", "upgrade: websocket", "sec-websocket-key: x", "sec-websocket-version: 13"]
    status, _, _ = asked(gateway, "GET", "/team/v1/realtime", *lines)
    assert status == 400, "its key is none"
    assert upstream.received == []


def test_the_rule_itself() -> None:
    assert [path for path in LEAVING if path_problem(path) is None] == []
    assert [path for path in HARMLESS if path_problem(path) is not None] == []
