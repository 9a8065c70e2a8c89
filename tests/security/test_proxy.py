"""Attacks on the proxy of a command, and on what its authority could be misused for."""

from __future__ import annotations

import os
import socket
import ssl
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cortex_replay.disk import scratch_folder
from cortex_replay.gateway import Gateway
from cortex_replay.gateway.authority import Authority
from cortex_replay.providers import DUMMY_KEY
from cortex_replay.run.certificates import trust_variables
from tests.adapters.fake_provider import FakeProvider
from tests.cli.programs import Shell
from tests.gateway.conftest import Opened, gateway_over
from tests.gateway.proxy_client import ask, authorization, client_of, own_url, proxy_address, rules_for
from tests.gateway.upstream import model_server
from tests.waiting import wait_until

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
CHAT = "https://api.openai.com/v1/chat/completions"
KEY = "sk-proj-Zq8vN3xK2mB7tR5wY1cD9fG4hJ6kL0pS"
MODEL = "CONNECT api.openai.com:443 HTTP/1.1\r\n"


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return lambda mode="replay", upstream=None, **options: gateway_over(
        tmp_path / "store", mode, upstream, **options
    )


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with model_server() as serving:
        yield serving


@pytest.mark.parametrize(
    "credential",
    [
        "",
        "proxy-authorization: Basic\r\n",
        "proxy-authorization: Basic ????\r\n",
        "proxy-authorization: Basic Y29ydGV4LXJlcGxheTo=\r\n",
        "proxy-authorization: Bearer {}\r\n",
        "authorization: {}\r\n",
        "x: y\r\n proxy-authorization: {}\r\n",
    ],
)
def test_nobody_gets_through_without_the_token(opened: Opened, credential: str) -> None:
    """Another user of this machine can connect to the port."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0)
        with opened("once", proxy=rules_for(is_open=True)) as gateway:
            line = credential.format(authorization(gateway).removeprefix("Basic "))
            heads = (MODEL, f"CONNECT 127.0.0.1:{other.getsockname()[1]} HTTP/1.1\r\n")
            for head in heads:
                assert ask(gateway, f"{head}{line}\r\n").startswith(b"HTTP/1.1 407 "), head
            plain = f"GET http://127.0.0.1:{other.getsockname()[1]}/ HTTP/1.1\r\n"
            assert ask(gateway, f"{plain}{line}\r\n").startswith(b"HTTP/1.1 407 ")
        with pytest.raises(BlockingIOError):
            other.accept()


def test_the_authority_speaks_for_no_other_host() -> None:
    """Whoever got hold of its key could not be a bank, not for the command either."""
    rules = rules_for()
    assert rules.models is not None
    authority = Authority(rules.models.patterns)
    for host, is_believed in (
        ("api.openai.com", True),
        ("my.openai.azure.com", True),
        ("bedrock-runtime.eu-west-1.amazonaws.com", True),
        ("openai.com", False),
        ("bank.example", False),
        ("10.0.0.1", False),
        ("fe80::1", False),
    ):
        assert believes(authority, host) is is_believed, host


def believes(authority: Authority, host: str) -> bool:
    """Whether a client that trusts the authority takes its word for a host; without any socket."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.certificate.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname=host)
    server = authority.context(host).wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return True


def test_no_key_is_on_disk_in_clear(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """That of the authority never is; that of a host is there for a moment, under a password."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen: list[tuple[int, bytes]] = []

    def load(_: ssl.SSLContext, certfile: Path, **options: object) -> None:
        seen.append((stat.S_IMODE(certfile.parent.stat().st_mode), certfile.read_bytes()))
        assert len(bytes(options["password"])) == 32  # type: ignore[call-overload]

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load)
    authority = Authority(["api.openai.com"])
    authority.context("api.openai.com")
    [(mode, written)] = seen
    assert mode == 0o700
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in written
    assert b"BEGIN PRIVATE KEY" not in written
    assert b"BEGIN EC PRIVATE KEY" not in written
    with scratch_folder() as folder:
        made = trust_variables({}, authority.certificate, folder)
        assert not any(b"PRIVATE" in Path(path).read_bytes() for path in made.values())
        assert all(authority.certificate in Path(path).read_bytes() for path in made.values())
    assert list(tmp_path.iterdir()) == []


def test_each_run_has_an_authority_of_its_own(opened: Opened) -> None:
    """One that a run before has left behind opens nothing."""
    with opened(proxy=rules_for()) as former:
        pass
    with opened(proxy=rules_for()) as gateway:
        assert former.certificate != gateway.certificate
        assert own_url(former) != own_url(gateway)


@pytest.mark.parametrize(
    "place", ["authorization", "x-api-key", "api-key", "x-goog-api-key", "x-my-token", "query"]
)
def test_a_client_s_key_goes_to_no_other_server(opened: Opened, provider: FakeProvider, place: str) -> None:
    """It addressed its provider; that calls go elsewhere is what the user of the proxy wants."""
    headers = {} if place == "query" else {place: f"Bearer {KEY}" if place == "authorization" else KEY}
    parameters = {"key": KEY, "alt": "sse"} if place == "query" else {"alt": "sse"}
    servers = {"openai": f"{provider.url}/v1"}
    with (
        opened("once", proxy=rules_for(is_open=True), servers=servers) as gateway,
        client_of(gateway) as client,
    ):
        assert client.post(CHAT, json=ASKED, headers=headers, params=parameters).status_code == 200
    [received] = provider.received
    assert KEY not in str(received.headers)
    assert received.path == "/v1/chat/completions?alt=sse"


def test_a_client_s_key_stays_out_of_the_store(
    opened: Opened, provider: FakeProvider, tmp_path: Path
) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": f"my key is {KEY}"}]}
    servers = {"openai": f"{provider.url}/v1"}
    with (
        opened("once", proxy=rules_for(is_open=True), servers=servers) as gateway,
        client_of(gateway) as client,
    ):
        client.post(CHAT, json=body, headers={"authorization": f"Bearer {KEY}"})
        token = own_url(gateway).rpartition(":")[0].rpartition(":")[2].partition("@")[0]
    files = [file.read_bytes() for file in (tmp_path / "store").rglob("*") if file.is_file()]
    assert not any(KEY.encode() in data or token.encode() in data for data in files)


def test_a_connection_leads_to_one_host(opened: Opened, provider: FakeProvider) -> None:
    """The host that TLS and the proxy agreed on, whatever a request says."""
    with opened("once", provider.url, proxy=rules_for(is_open=True)) as gateway, client_of(gateway) as client:
        assert client.post(CHAT, json=ASKED, headers={"host": "api.anthropic.com"}).status_code == 421
        assert client.post(CHAT, json=ASKED, headers={"host": "127.0.0.1"}).status_code == 421
        assert client.post(CHAT, json=ASKED, headers={"host": "API.OpenAI.com:443"}).status_code == 200


@pytest.mark.parametrize("path", ["/-/ledger", "/rpc", "/t-{token}/-/ledger", "/t-{token}/openai/v1/models"])
def test_the_gateway_s_own_doors_are_not_there(opened: Opened, path: str) -> None:
    with opened(proxy=rules_for()) as gateway, client_of(gateway) as client:
        answer = client.get(f"https://api.openai.com{path.format(token=gateway.token)}")
        assert answer.status_code == 424
        assert "nothing is recorded" in answer.text


@pytest.mark.parametrize("path", ["/v1/../x", "/v1/%2e%2e/x", "/v1/%"])
def test_a_path_that_leads_elsewhere_is_refused(opened: Opened, path: str) -> None:
    with opened(proxy=rules_for()) as gateway:
        head = f"POST http://api.openai.com{path} HTTP/1.1\r\nhost: api.openai.com\r\n"
        auth = f"proxy-authorization: {authorization(gateway)}\r\n"
        assert ask(gateway, f"{head}{auth}content-length: 0\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_a_second_request_behind_the_first_reaches_nobody_else(opened: Opened) -> None:
    """A request in the form for proxies is the only one on its connection."""
    with opened(proxy=rules_for()) as gateway:
        auth = f"proxy-authorization: {authorization(gateway)}\r\n"
        one = f"GET http://api.openai.com/v1/models HTTP/1.1\r\nhost: api.openai.com\r\n{auth}\r\n"
        with socket.create_connection(proxy_address(gateway), timeout=60) as connection:
            connection.sendall((one + one.replace("api.openai.com", "api.anthropic.com")).encode())
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        assert answer.count(b"HTTP/1.1 ") == 1
        assert len(gateway.run.ledger.misses) == 1


def test_whoever_sends_no_head_is_dropped(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_replay.gateway.proxy._HEAD_S", 0.01)
    with opened(proxy=rules_for()) as gateway:
        assert ask(gateway, "CONNECT ") == b""
        long = "x" * 200_000
        assert ask(gateway, f"GET http://example.com/{long} HTTP/1.1\r\n").startswith(b"HTTP/1.1 403 ")


def test_there_are_only_so_many_connections(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_replay.gateway.proxy._MOST_CONNECTIONS", 2)
    with opened(proxy=rules_for()) as gateway:
        held = [socket.create_connection(proxy_address(gateway), timeout=60) for _ in range(2)]
        with socket.create_connection(proxy_address(gateway), timeout=60) as third:
            assert third.recv(1) == b""
        for connection in held:
            connection.close()
        wait_until(lambda: is_answered(gateway))


def is_answered(gateway: Gateway) -> bool:
    try:
        return ask(gateway, f"{MODEL}\r\n").startswith(b"HTTP/1.1 407 ")
    except ConnectionError:
        return False


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("ending", ["os.kill(os.getpid(), 9)", "os.kill(os.getppid(), 15); time.sleep(60)"])
def test_what_the_command_trusts_ends_with_the_run(tmp_path: Path, ending: str) -> None:
    """Also where the command is killed, or we are asked to end."""
    (tmp_path / "tmp").mkdir()
    program = f"import os, time; print(os.environ['SSL_CERT_FILE'], flush=True); {ending}"
    shell = Shell(
        tmp_path, {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path / "tmp")}
    )
    done = shell.run("record", "--store", "llm", "--proxy", "--", sys.executable, "-c", program)
    trusted = Path(done.out.splitlines()[0])
    assert trusted.is_relative_to(tmp_path / "tmp")
    assert list((tmp_path / "tmp").iterdir()) == []
    assert done.status in (137, 143)


def test_dummies_are_not_sent(opened: Opened, provider: FakeProvider) -> None:
    servers = {"openai": f"{provider.url}/v1"}
    with (
        opened("once", proxy=rules_for(is_open=True), servers=servers) as gateway,
        client_of(gateway) as client,
    ):
        client.post(CHAT, json=ASKED, headers={"authorization": f"Bearer {DUMMY_KEY}"})
    assert "authorization" not in provider.received[0].headers


def test_a_web_page_could_not_come_in_by_the_proxy(opened: Opened) -> None:
    """It cannot bring the token, and a plain request to the port is none that a proxy answers."""
    with opened(proxy=rules_for(is_open=True)) as gateway:
        url = "http://{}:{}/".format(*proxy_address(gateway))
        assert httpx.get(url, trust_env=False, headers={"origin": "https://evil.example"}).status_code == 403
