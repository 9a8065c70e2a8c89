"""While recordings are replayed no client reaches a model's host: by no spelling, no proxy and no address."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import http.server
import socket
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import cortex_replay
from cortex_replay import Store
from cortex_replay.hosts import host_of, normal_host
from cortex_replay.interception import LiveCallRefused
from cortex_replay.interception.guard import guarding
from tests.growth import grows_linearly
from tests.waiting import LONGEST_S

HOST = "api.openai.com"
REFUSED = r"refused api\.openai\.com"
SPELLINGS: list[str | bytes] = [
    HOST,
    "API.OPENAI.COM",
    "Api.OpenAI.com",
    "api.openai.com.",
    "API.OPENAI.COM.",
    "\uff41\uff50\uff49.openai.com",
    "api\uff0eopenai\uff0ecom",
    "api\u3002openai\uff61com",
    "a\u00adpi.openai.com",
    "\u24d0pi.openai.com",
    b"api.openai.com",
    b"API.OPENAI.COM.",
]


@pytest.fixture(autouse=True)
def _guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with guarding([HOST, "10.1.2.3"], lambda host: LiveCallRefused(f"refused {host}")):
        yield


class Listener:
    """A proxy, or any server: it agrees to everything, and keeps what it was sent."""

    def __init__(self) -> None:
        self.received = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65536):
                self.received += data
                if data.endswith(b"\r\n\r\n"):
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def proxy() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


def by_loop(host: Any) -> None:
    async def look_up() -> None:
        await asyncio.get_running_loop().getaddrinfo(host, 443)

    asyncio.run(look_up())


async def _opened(host: Any, port: int = 443) -> None:
    await asyncio.open_connection(host, port)


def by_uvloop(host: Any) -> None:
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_opened(host))


def by_socket(host: Any) -> None:
    with socket.socket() as connection:
        connection.connect((host, 443))


WAYS: list[Callable[[Any], Any]] = [
    lambda host: socket.getaddrinfo(host, 443),
    lambda host: socket.getaddrinfo(host=host, port=443),
    lambda host: socket.create_connection((host, 443), timeout=5),
    by_socket,
    by_loop,
    lambda host: asyncio.run(_opened(host)),
    by_uvloop,
]


@pytest.mark.parametrize("host", SPELLINGS, ids=ascii)
def test_no_spelling_of_a_host_is_looked_up(host: str | bytes) -> None:
    for way in WAYS:
        with pytest.raises(LiveCallRefused, match=REFUSED):
            way(host)
    if isinstance(host, str):
        for function in (socket.gethostbyname, socket.gethostbyname_ex):
            with pytest.raises(LiveCallRefused):
                function(host)


@pytest.mark.parametrize("host", ["10.1.2.3", "10.66051", "0xa010203", "167838211", "::ffff:10.1.2.3"])
def test_no_spelling_of_an_address_is_connected_to(host: str) -> None:
    with pytest.raises(LiveCallRefused, match=r"refused 10\.1\.2\.3"):
        socket.create_connection((host, 443), timeout=5)


def test_http_client_does_not_tunnel(proxy: Listener) -> None:
    for host in ("api.openai.com", "API.OPENAI.COM."):
        connection = http.client.HTTPSConnection("127.0.0.1", proxy.port, timeout=5)
        connection.set_tunnel(host, 443)
        with pytest.raises(LiveCallRefused):
            connection.request("POST", "/v1/chat/completions", b"{}")
        connection.close()
    assert proxy.received == b""


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("is_in_environment", [True, False])
def test_urllib_uses_no_proxy(
    proxy: Listener, monkeypatch: pytest.MonkeyPatch, scheme: str, is_in_environment: bool
) -> None:
    if is_in_environment:
        monkeypatch.setenv(f"{scheme}_proxy", proxy.url)
        opener = urllib.request.build_opener()
    else:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({scheme: proxy.url}))
    for host in ("api.openai.com", "API.openai.com."):
        with pytest.raises(OSError, match=REFUSED):
            opener.open(f"{scheme}://{host}/v1/models", timeout=5)
    assert proxy.received == b""


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_requests_uses_no_proxy(proxy: Listener, scheme: str) -> None:
    requests = pytest.importorskip("requests")
    for host in ("api.openai.com", "API.OPENAI.COM."):
        with pytest.raises(requests.ConnectionError, match=REFUSED):
            requests.get(f"{scheme}://{host}/v1/models", proxies={scheme: proxy.url}, timeout=5)
    assert proxy.received == b""


def test_asyncio_does_not_tunnel(proxy: Listener) -> None:
    """As aiohttp does it: CONNECT over plain TCP, then TLS over that."""

    async def connect(request: bytes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        try:
            writer.write(request)
            await writer.drain()
            await reader.read(1)
        finally:
            writer.close()

    for line in (b"CONNECT api.openai.com:443 HTTP/1.1", b"GET http://API.openai.com./v1/models HTTP/1.1"):
        with pytest.raises(LiveCallRefused):
            asyncio.run(connect(line + b"\r\nhost: x\r\n\r\n"))
    assert proxy.received == b""


@pytest.mark.parametrize("name", ["asyncio", "uvloop"])
def test_no_loop_begins_tls_with_it(proxy: Listener, name: str) -> None:
    """However the connection came about."""

    async def begin() -> None:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(asyncio.Protocol, "127.0.0.1", proxy.port)
        try:
            context = ssl.create_default_context()
            await loop.start_tls(transport, protocol, context, server_hostname="API.OPENAI.COM")
        finally:
            transport.close()

    factory = pytest.importorskip(name).new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner, pytest.raises(LiveCallRefused):
        runner.run(begin())
    assert proxy.received == b""


def test_an_address_with_the_host_s_name_is_refused(proxy: Listener) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
    with pytest.raises(LiveCallRefused):
        connection.request("GET", "/v1/models", headers={"Host": "Api.OpenAI.com:443"})
    connection.close()
    context = ssl.create_default_context()
    with (
        socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as plain,
        pytest.raises(LiveCallRefused),
    ):
        context.wrap_socket(plain, server_hostname="api.openai.com.")
    with (
        socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as plain,
        pytest.raises(LiveCallRefused),
    ):
        plain.sendmsg([b"POST /v1/messages HTTP/1.1\r\n", b"HOST:api.openai.com\r\n\r\n"])
    assert proxy.received == b""


@pytest.mark.parametrize("method", ["get", "Post", "PUT"])
def test_a_proxy_is_asked_for_it_by_no_method(proxy: Listener, method: str) -> None:
    """``http.client`` sends a method as it is given, and servers take it."""
    client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
    with contextlib.closing(client), pytest.raises(LiveCallRefused, match=REFUSED):
        client.request(method, f"http://{HOST}/v1/models")
    assert proxy.received == b""


@pytest.mark.parametrize(
    "data",
    [
        b"GET " + b"a" * 65536,
        b"GET http://" + b"a" * 65536,
        b"get " + b"a " * 32768,
        b"GET " + b" HTTP/" * 10000,
        b"a" * 65536,
    ],
)
def test_what_is_written_is_looked_at_in_no_time(data: bytes) -> None:
    """Texts of recordings go over sockets too; the first of these took twenty seconds."""
    one, other = socket.socketpair()
    with one, other:
        one.setblocking(False)

        def send(size: int) -> None:
            with contextlib.suppress(BlockingIOError):
                one.send(data[:size])

        assert grows_linearly(lambda: send(len(data) // 2), lambda: send(len(data)))


def test_everything_else_is_as_ever(proxy: Listener) -> None:
    """Also what only looks alike."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=LONGEST_S)
    for host in ("localhost", "api.openai.com.evil.example", "notapi.openai.com", "example.com"):
        connection.request("GET", "/api.openai.com", headers={"Host": host, "X-Of": "api.openai.com"})
        assert connection.getresponse().read() == b""
    connection.close()
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=LONGEST_S) as plain:
        for data in (b"", b"\x00\x01", b"A", bytearray(b"GET "), memoryview(b"api.openai.com")):
            plain.send(data)
        with pytest.raises(TypeError):
            plain.send("text")  # type: ignore[arg-type]
    assert socket.getaddrinfo(None, 80)


def test_nothing_stays_watched() -> None:
    """Here the fixture's guard is still active; behind it everything is what it was."""
    places = [
        (socket, "getaddrinfo"),
        (socket.socket, "send"),
        (ssl.SSLContext, "wrap_bio"),
        (asyncio.BaseEventLoop, "start_tls"),
    ]
    code = (
        "import asyncio, socket, ssl, uvloop\n"
        "from cortex_replay.interception.guard import guarding\n"
        "kinds = [socket, socket.socket, ssl.SSLSocket, ssl.SSLObject, ssl.SSLContext,\n"
        "         asyncio.BaseEventLoop, uvloop.Loop, asyncio.selector_events._SelectorSocketTransport]\n"
        "before = [dict(vars(kind)) for kind in kinds]\n"
        "with guarding(['a'], OSError):\n"
        "    with guarding(['b'], OSError): pass\n"
        "    assert [dict(vars(kind)) for kind in kinds] != before\n"
        "assert [dict(vars(kind)) for kind in kinds] == before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
    assert all(getattr(owner, name).__name__ == "replacement" for owner, name in places)


@pytest.mark.parametrize("host", ["api.openai.com.", "API.OPENAI.COM"])
@pytest.mark.parametrize("has_proxy", [False, True])
def test_an_sdk_is_intercepted_by_any_spelling(
    tmp_path: Path, proxy: Listener, host: str, has_proxy: bool
) -> None:
    """It gets the recording, or a miss; a client with a proxy as well."""
    Store.create(tmp_path / "store")
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
    options: dict[str, Any] = {"proxy": proxy.url} if has_proxy else {}
    with (
        cortex_replay.intercept(tmp_path / "store", "replay") as interception,
        httpx.Client(**options) as client,
    ):
        assert client.post(f"https://{host}/v1/chat/completions", json=body).status_code == 424
        assert interception.calls == 1
    assert proxy.received == b""


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("user:password@Api.OpenAI.com.:443", "api.openai.com"),
        ("[::FFFF:7f00:1]:80", "127.0.0.1"),
        ("[0:0::1]", "::1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("a..b", "a..b"),
        ("x" * 70 + ".com", "x" * 70 + ".com"),
        ("", ""),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
    ],
)
def test_a_host_has_one_form(authority: str, host: str) -> None:
    assert host_of(authority) == host
    assert normal_host(host) == host
