"""Who is let in: by raw sockets, since no client would send most of this."""

from __future__ import annotations

import json
import socket
from itertools import product
from pathlib import Path

import httpx
import pytest

from cortex_replay import Run, Store
from cortex_replay.config import Settings
from cortex_replay.errors import InvalidRequest, StoreIo
from cortex_replay.gateway import Gateway, Pace
from cortex_replay.gateway.access import Access, Entry, Refusal, hosts_of
from tests.gateway.conftest import Opened
from tests.waiting import LONGEST_S

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "q"}]}).encode()
METHODS = ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"]
FOREIGN_HOSTS = [
    "",
    "localhost",
    "127.0.0.1",
    "127.0.0.1:1",
    "127.0.0.1:{port}.evil.example",
    "evil.example",
    "evil.example:{port}",
    "localhost.evil.example:{port}",
    "127.0.0.2:{port}",
    "0.0.0.0:{port}",
    "0:{port}",
    "2130706433:{port}",
    "0x7f.1:{port}",
    "[::]:{port}",
    "::1:{port}",
    "127.0.0.1:{port}:{port}",
    "user@127.0.0.1:{port}",
    "127.0.0.1:{port}, evil.example",
    "model.internal:{port}",
    "host.docker.internal:{port}",
    "127.0.0.1:0{port}",
    "127.0.0.1.:{port}",
]
BROWSERS = [
    "origin: null",
    "origin: http://127.0.0.1:{port}",
    "origin: https://evil.example",
    "Origin: http://localhost:{port}",
    "sec-fetch-site: cross-site",
    "sec-fetch-site: same-site",
    "sec-fetch-site: same-origin",
    "Sec-Fetch-Site: SAME-ORIGIN",
]


def raw(gateway: Gateway, request: bytes, *, until: float = LONGEST_S) -> bytes:
    """What comes back to bytes on a socket, until it is closed or has its body."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=until) as connection:
        connection.sendall(request)
        received = b""
        while b"\r\n\r\n" not in received:
            data = connection.recv(65536)
            if not data:
                break
            received += data
    return received


def asked(gateway: Gateway, *lines: str, method: str = "POST", path: str = "/v1/chat/completions") -> int:
    head = [f"{method} {path} HTTP/1.1", *lines, f"content-length: {len(BODY)}", "", ""]
    answer = raw(gateway, "\r\n".join(head).replace("{port}", str(gateway.port)).encode() + BODY)
    return int(answer.split(b" ", 2)[1]) if answer else 0


def test_no_foreign_host_and_no_browser_is_served(opened: Opened) -> None:
    """A page that a browser shows reaches this machine, by any name that points here."""
    with opened() as gateway:
        for host, method in product(FOREIGN_HOSTS, METHODS):
            assert asked(gateway, f"host: {host}", method=method) in (400, 403), (host, method)
        for header, method in product(BROWSERS, METHODS):
            own = "host: 127.0.0.1:{port}"
            assert asked(gateway, own, header, method=method) == 403, (header, method)
        assert asked(gateway) == 403, "no host at all"
        assert asked(gateway, "host: 127.0.0.1:{port}", "host: 127.0.0.1:{port}") == 403, "two hosts"
        assert gateway.run.ledger.calls == 0


def test_its_own_names_are_served(opened: Opened) -> None:
    with opened() as gateway:
        for host in ("127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}", "LOCALHOST:{port}"):
            assert asked(gateway, f"host: {host}") == 424, host
        assert asked(gateway, "host: localhost:{port}", "sec-fetch-mode: cors") == 424, "as Node sends it"
        assert asked(gateway, "host: localhost:{port}", "sec-fetch-site: none") == 424


@pytest.mark.parametrize("mode", ["record", "once", "live"])
def test_without_the_token_nothing_is_spent(opened: Opened, mode: str) -> None:
    own = "host: 127.0.0.1:{port}"
    with opened(mode, "http://127.0.0.1:9", token="right") as gateway:
        for path in (
            "/v1/chat/completions",
            "/t-/v1/chat/completions",
            "/t-wrong/v1/chat/completions",
            "/t-righ/v1/chat/completions",
            "/t-right2/v1/chat/completions",
            "/t-right%00/v1/chat/completions",
            "/openai/t-right/v1/chat/completions",
            "/s-a/t-right/v1/chat/completions",
            "/T-right/v1/chat/completions",
        ):
            assert asked(gateway, own, path=path) == 401, path
        assert asked(gateway, own, "x-cortex-replay-token: wrong") == 401
        assert asked(gateway, own, "x-cortex-replay-token: right", path="/t-wrong/v1/models") == 401
        assert gateway.run.ledger.calls == 0
        assert asked(gateway, own, path="/t-right/v1/chat/completions") == 502, "let in, and nobody behind"
        assert asked(gateway, own, "x-cortex-replay-token: right") == 502


def test_the_token_is_asked_for_before_the_body(opened: Opened) -> None:
    with opened("once", "http://127.0.0.1:9") as gateway:
        head = f"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1:{gateway.port}\r\ncontent-length: 900\r\n\r\n"
        assert b" 401 " in raw(gateway, head.encode()), "and no byte of the body was sent"
        assert gateway.token is not None
        assert len(bytes.fromhex(gateway.token)) == 32
        assert gateway.token in gateway.url("anthropic")


def test_bodies_have_a_limit(opened: Opened) -> None:
    """By their own word, or by what comes."""
    with opened(max_body=1000) as gateway:
        own = f"host: 127.0.0.1:{gateway.port}\r\n"
        head = f"POST /v1/messages HTTP/1.1\r\n{own}content-length: 1001\r\n\r\n".encode()
        assert b" 413 " in raw(gateway, head)
        head = f"POST /v1/messages HTTP/1.1\r\n{own}transfer-encoding: chunked\r\n\r\n".encode()
        assert b" 413 " in raw(gateway, head + b"400\r\n" + b"x" * 1024 + b"\r\n" + b"0\r\n\r\n")


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=str,
)
def test_what_is_not_http_is_refused(opened: Opened, request_: bytes) -> None:
    with opened() as gateway:
        answer = raw(gateway, request_)
        assert answer == b"" or answer.split(b" ")[1] in (b"400", b"403"), answer
        assert asked(gateway, "host: localhost:{port}") == 424, "and the next one is served"


def test_a_flood_of_headers_is_cut_off(opened: Opened) -> None:
    with opened() as gateway:
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=5) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n")
            flood = (b"x-header: " + b"y" * 1000 + b"\r\n") * 20_000
            with pytest.raises((ConnectionError, TimeoutError)):
                connection.sendall(flood)
        assert asked(gateway, "host: localhost:{port}") == 424


def test_slow_clients_do_not_slow_the_others(opened: Opened) -> None:
    """Two hundred that never finish their first line."""
    with opened() as gateway:
        slow = [socket.create_connection(("127.0.0.1", gateway.port), timeout=LONGEST_S) for _ in range(200)]
        try:
            for connection in slow:
                connection.sendall(b"POST /v1/mess")
            assert asked(gateway, "host: localhost:{port}") == 424
        finally:
            for connection in slow:
                connection.close()


def test_a_client_too_many_takes_the_place_of_an_idle_one(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortex_replay.gateway.protocol._MOST_CONNECTIONS", 5)
    with opened() as gateway:
        idle = [socket.create_connection(("127.0.0.1", gateway.port), timeout=LONGEST_S) for _ in range(20)]
        try:
            assert asked(gateway, "host: localhost:{port}") == 424
        finally:
            for connection in idle:
                connection.close()


def test_binding_elsewhere_needs_a_word(opened: Opened) -> None:
    with opened() as gateway:
        with pytest.raises(InvalidRequest, match="--allow-remote"):
            Gateway(gateway.run, host="0.0.0.0")
        with pytest.raises(StoreIo, match="cannot listen"):
            Gateway(gateway.run, port=gateway.port)
        exposed = Gateway(gateway.run, host="0.0.0.0", allow_remote=True, allowed_hosts=["box:80"])
        assert exposed.token is not None, "there, also in replay"
        exposed._socket.close()


def test_names_of_a_server() -> None:
    assert hosts_of("127.0.0.1", 80)[:3] == ["127.0.0.1:80", "localhost:80", "[::1]:80"]
    assert "localhost" in hosts_of("localhost", 80), "the usual port is left out by clients"
    assert hosts_of("fe80::1", 9) == ["[fe80::1]:9"]


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        ("/openai/v1/models", Entry("/openai/v1/models", "")),
        ("/s-a/openai", Entry("/openai", "a")),
        ("/t-x/s-test%2Fone%20%5Bp-1%5D/openai/v1", Entry("/openai/v1", "test/one [p-1]")),
        ("//openai//v1", Entry("/openai/v1", "")),
        ("/t-x", Entry("/", "")),
        ("/s-a//v1/messages", Entry("/v1/messages", "a")),
    ],
)
def test_what_a_path_brings(path: str, entry: Entry) -> None:
    assert Access(["h"], "token", is_open=lambda _: True).enter(path, [(b"host", b"h")]) == entry


def test_a_header_brings_the_scope_too() -> None:
    doors = Access(["h"], "tok")
    headers = [(b"host", b"h"), (b"x-cortex-replay-token", b"tok"), (b"x-cortex-replay-scope", b"t1")]

    assert doors.enter("/v1/models", headers) == Entry("/v1/models", "t1")
    assert isinstance(doors.enter("/v1/models", headers[:1]), Refusal)


@pytest.mark.parametrize("pace", ["", "fast", "-1", "nan", "inf", "1001"])
def test_what_is_no_pace(pace: str) -> None:
    with pytest.raises(InvalidRequest, match="pace"):
        Pace.parse(pace)


def test_an_unknown_place_is_told_what_there_is(opened: Opened) -> None:
    with opened() as gateway:
        answer = httpx.get(gateway.url() + "/nowhere")

    assert answer.status_code == 404
    assert "/anthropic, /ollama, /openai, /gemini" in answer.json()["error"]["message"]


def test_a_scope_that_may_ask_needs_the_token_though_the_run_replays(tmp_path: Path) -> None:
    """A test in another mode than its session: by its name alone nobody makes a live call."""
    run = Run(Settings(), "replay", Store.create(tmp_path / "store"), environment={})
    run.open_scope("writes", mode="once")
    with Gateway(run).running() as gateway:
        origin = f"http://127.0.0.1:{gateway.port}"
        asked = {"model": "m", "messages": []}

        def ask(path: str, **headers: str) -> int:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            return httpx.post(
                f"{origin}{path}/openai/v1/chat/completions", json=asked, headers=sent
            ).status_code

        assert "/t-" in gateway.url("openai", "writes")
        assert "/t-" not in gateway.url("openai", "reads")
        assert ask("/s-writes") == 401
        assert ask("", x_cortex_replay_scope="writes") == 401
        assert ask("/s-reads") == 424
        assert run.ledger.live == 0


PAGE = Access(["127.0.0.1:80", "localhost:80"], "token", has_pages=True)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"sec-fetch-site", b"none")],
        [(b"sec-fetch-site", b"same-origin")],
        [(b"origin", b"http://127.0.0.1:80"), (b"sec-fetch-site", b"same-origin")],
    ],
    ids=str,
)
def test_who_shows_pages_lets_its_own_in(headers: list[tuple[bytes, bytes]]) -> None:
    entry = PAGE.enter("/t-token/data/store", [(b"host", b"127.0.0.1:80"), *headers])

    assert isinstance(entry, Entry)
    assert entry.path == "/data/store"


@pytest.mark.parametrize(
    "headers",
    [
        [(b"sec-fetch-site", b"cross-site")],
        [(b"sec-fetch-site", b"same-site")],
        [(b"sec-fetch-site", b"")],
        [(b"origin", b"null")],
        [(b"origin", b"https://127.0.0.1:80")],
        [(b"origin", b"http://127.0.0.1:81")],
        [(b"origin", b"http://127.0.0.1:80"), (b"origin", b"http://evil.example")],
        [(b"origin", b"http://127.0.0.1:80"), (b"sec-fetch-site", b"cross-site")],
    ],
    ids=str,
)
def test_who_shows_pages_lets_no_other_page_in(headers: list[tuple[bytes, bytes]]) -> None:
    refused = PAGE.enter("/t-token/data/store", [(b"host", b"127.0.0.1:80"), *headers])

    assert refused == Refusal(403, "other pages are not served here")


CONTROL_PATHS = [
    *("/-/faults", "/-/ledger", "//-/ledger", "/-//ledger", "///-///ledger", "/s-x/-/ledger"),
    *("/s-x//-/ledger", "//s-x/-/ledger"),
]


@pytest.mark.parametrize("path", CONTROL_PATHS)
@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
def test_the_control_door_needs_the_token_however_it_is_written(path: str, is_open: bool) -> None:
    """Also where clients of providers need none."""
    access, host = Access(["here"], "right", is_open=lambda _: is_open), (b"host", b"here")

    for wrong in (b"", b"wrong", b"righ"):
        entry = access.enter(path, [host, (b"x-cortex-replay-token", wrong)])
        assert entry == Refusal(401, "the token is missing or wrong"), wrong
    for entry in (
        access.enter(path, [host, (b"x-cortex-replay-token", b"right")]),
        access.enter(f"/t-right{path}", [host]),
    ):
        assert isinstance(entry, Entry)
        assert entry.path.startswith("/-/")
        assert "//" not in entry.path


@pytest.mark.parametrize("path", ["/rpc", "//rpc"])
def test_the_rpc_asks_for_tokens_itself_and_nothing_beside_it(path: str) -> None:
    access, host = Access(["here"], "right", has_rpc=True), [(b"host", b"here")]

    assert isinstance(access.enter(path, host), Entry)
    assert isinstance(access.enter(f"{path}/x", host), Refusal)
    assert isinstance(Access(["here"], "right").enter(path, host), Refusal)
