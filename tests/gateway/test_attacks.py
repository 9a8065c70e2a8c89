"""What a fresh pair of eyes found, once; each was a defect."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from cortex_replay import LlmRequest, Store
from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.engine.http.tapes import StreamTape
from cortex_replay.gateway import Gateway
from cortex_replay.gateway.proxy import ProxyRules
from cortex_replay.misses.differences import differences, plain_form
from cortex_replay.misses.explanation import explain_miss
from cortex_replay.providers import DUMMY_KEY
from cortex_replay.redact.redactor import Redactor
from cortex_replay.run.environment import command_environment
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import Exchange, FakeProvider, hang_up, serving_in_thread, stream, whole
from tests.builder import StoreBuilder
from tests.cli.programs import ASK, TWICE, Shell, served
from tests.gateway.conftest import Opened
from tests.gateway.upstream import REAL_KEY
from tests.growth import grows_linearly
from tests.waiting import LONGEST_S, wait_until

CLAUDE, CHAT, _, _ = DIALECTS
ASKED = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]}
LABELLED = "[SENSITIVITY:HIGH] the plan"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}


@pytest.fixture
def shell(tmp_path: Path, environment: dict[str, str]) -> Shell:
    return Shell(tmp_path, environment)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("openai/v1/embeddings", {"model": "m", "input": LABELLED}),
        ("anthropic/v1/messages/count_tokens", {**ASKED, "system": LABELLED}),
        ("openai/v1/chat/completions/", {"model": "m", "messages": [{"role": "user", "content": LABELLED}]}),
        ("gemini/v1beta/models/g:generateContent", {"contents": [{"parts": [{"text": LABELLED}]}]}),
    ],
)
def test_labelled_text_does_not_leave_by_another_door(
    opened: Opened, provider: FakeProvider, path: str, body: Any
) -> None:
    with opened("once", provider.url, servers={"gemini": provider.url}) as gateway:
        assert httpx.post(f"{gateway.url()}/{path}", json=body).status_code == 400
        assert provider.received == []


def test_a_budget_is_kept_by_every_kind_of_call(opened: Opened, provider: FakeProvider) -> None:
    with opened("once", provider.url, budget_calls=0) as gateway:
        answer = httpx.post(f"{gateway.url()}/openai/v1/embeddings", json={"model": "m", "input": "a"})
        assert answer.status_code == 400
        assert provider.received == []


@pytest.mark.parametrize("header", ["anthropic-version", "x-goog-api-key"])
def test_a_header_of_one_client_does_not_lead_the_others_astray(
    opened: Opened, provider: FakeProvider, header: str
) -> None:
    with serving_in_thread(whole(b"{}", 500)) as wrong, opened("once", provider.url) as gateway:
        gateway.run.engine().upstreams._by_name |= {
            name: type(gateway.run.engine().upstreams[name])(name, "http", wrong.url)
            for name in ("anthropic", "gemini")
        }
        url = f"{gateway.url()}/v1/chat/completions"
        httpx.post(url, json=ASKED, headers={header: "1"})
        httpx.post(url, json=ASKED)
        assert wrong.received == []


def test_a_damaged_recording_fails_the_run(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    """Even if the command does not mind."""
    shell.record(TWICE, provider.url)
    for path in (tmp_path / "llm/fixtures").rglob("*.json"):
        path.write_bytes(path.read_bytes().replace(b"You said: one", b"You said: 0ne"))
    careless = ASK + "import contextlib\nask('two')\nwith contextlib.suppress(Exception): ask('one')"
    result = shell.replay(careless, "--json")

    assert result.status == 5
    assert result.report["broken"]
    assert (
        shell.replay(ASK + "import contextlib\nwith contextlib.suppress(Exception): ask('one')").status == 5
    )


def test_an_offer_to_upgrade_does_not_cost_the_body(opened: Opened, provider: FakeProvider) -> None:
    """As Java's client makes it by default."""
    body = json.dumps(ASKED).encode()
    with opened("once", provider.url) as gateway:
        head = (
            f"POST {gateway.url('anthropic').partition(str(gateway.port))[2]}/v1/messages HTTP/1.1\r\n"
            f"Connection: Upgrade, HTTP2-Settings\r\nhost: 127.0.0.1:{gateway.port}\r\n"
            "HTTP2-Settings: AAEAAEAAAA\r\n"
            f"Upgrade: h2c\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode()
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=LONGEST_S) as connection:
            for _ in range(2):
                connection.sendall(head + body)
                received = b""
                while b"You said" not in received:
                    data = connection.recv(65536)
                    assert data, received
                    received += data
                assert b" 200 " in received


def test_a_long_secret_is_not_shown_by_a_piece_of_it(tmp_path: Path) -> None:
    secret = "".join(f"{i:x}Qz" for i in range(60))
    builder = StoreBuilder(tmp_path)
    builder.add("The password is none.", "ok")
    builder.write()
    store = Store.open(tmp_path)
    (item,) = store.list()
    recorded = store.get(item.model, item.prompt_hash).request
    assert recorded is not None
    asked = LlmRequest(recorded.model, recorded.system, f"The password is {secret}.", 0.0, 5)
    text = explain_miss(store, asked, store.key(asked), "how", Redactor([secret]))

    assert not any(secret[i : i + 8] in text for i in range(len(secret) - 8))
    assert "REDACTED" in text


async def _lies(exchange: Exchange) -> None:
    await exchange.head(200, {"content-type": "application/json", "content-length": "999"})
    await exchange.send(b"{}")
    exchange.reset()


@pytest.mark.parametrize(
    "script",
    [hang_up, _lies, whole(b"", 302, location="/"), stream(CLAUDE.events("a")[:2], ends=False)],
    ids=["hang up", "lies", "redirect", "cut"],
)
@pytest.mark.parametrize("path", ["anthropic/v1/messages", "openai/v1/embeddings"])
def test_every_live_call_is_counted(opened: Opened, script: Any, path: str) -> None:
    with serving_in_thread(script) as provider, opened("once", provider.url) as gateway:
        with contextlib.suppress(httpx.HTTPError):
            httpx.post(f"{gateway.url()}/{path}", json=ASKED)
        ledger = gateway.run.ledger
        wait_until(lambda: ledger.failed == 1)
        assert (ledger.live, ledger.calls) == (1, 1)


def test_a_recorded_failure_is_counted(opened: Opened) -> None:
    failing = whole(b'{"type":"error","error":{"type":"api_error","message":"x"}}', 500)
    with (
        serving_in_thread(failing) as provider,
        opened("once", provider.url, record_failures=True) as gateway,
    ):
        httpx.post(gateway.url("anthropic") + "/v1/messages", json=ASKED)
        assert gateway.run.ledger.recorded == 1


def test_a_command_whose_provider_is_not_there_is_told_so(shell: Shell) -> None:
    careless = ASK + "import contextlib\nwith contextlib.suppress(Exception): ask('one')"
    result = shell.record(careless, "http://127.0.0.1:1")

    assert "no call came" not in result.talk
    assert "1 live (1 failed)" in result.talk


def test_a_large_event_is_taken_down_in_linear_time() -> None:
    def take_down(size: int) -> None:
        tape = StreamTape("text/event-stream")
        for _ in range(size // 1024):
            tape.add(b"x" * 1024)
        tape.add(b"\n\n")
        assert len(tape.content()["events"]) == 1  # type: ignore[arg-type]

    assert grows_linearly(lambda: take_down(2**22), lambda: take_down(2**23))


def test_headers_that_are_not_ascii_pass(opened: Opened) -> None:
    async def script(exchange: Exchange) -> None:
        body = json.dumps(CLAUDE.answer()).encode()
        await exchange.send(
            "HTTP/1.1 200 X\r\nx-price: 3 €\r\ncontent-type: application/json\r\n".encode()
            + b"content-length: %d\r\n\r\n" % len(body)
            + body
        )

    with serving_in_thread(script) as provider, opened("once", provider.url) as gateway:
        parts = gateway.url("anthropic").removeprefix("http://").partition("/")
        connection = http.client.HTTPConnection(parts[0], timeout=LONGEST_S)
        connection.putrequest("POST", f"/{parts[2]}/v1/messages")
        connection.putheader("x-title", "Café".encode())
        body = json.dumps(ASKED).encode()
        connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        assert connection.getresponse().status == 200
        connection.close()
        assert provider.received[0].headers["x-title"] == "Café".encode().decode("latin-1")


def test_a_second_request_on_a_proxied_connection_is_noted(opened: Opened) -> None:
    noted: list[str] = []
    with opened(proxy=ProxyRules(refuse=noted.append)) as gateway:
        with httpx.Client(proxy=gateway.proxy_url(), trust_env=False, timeout=LONGEST_S) as client:
            client.post(f"{gateway.url('anthropic')}/v1/messages", json=ASKED)
            answer = client.post("http://api.example.com/v1/messages", json=ASKED)

        assert answer.status_code == 403
        assert noted == ["api.example.com"]


def test_a_client_s_own_key_is_as_secret_as_ours(opened: Opened, tmp_path: Path) -> None:
    key = "weird0secret9value7for5this3client1"
    with (
        serving_in_thread(whole(CHAT.answer(f"Your key is {key}"))) as provider,
        opened("once", servers={"openai": provider.url}) as gateway,
    ):
        url = gateway.url("openai") + "/v1/chat/completions"
        answer = httpx.post(url, json=ASKED, headers={"api-key": key, "authorization": f"Bearer {DUMMY_KEY}"})
        assert key in answer.text
        assert provider.received[0].headers["api-key"] == key
        assert "authorization" not in provider.received[0].headers
    assert key.encode() not in b"".join(p.read_bytes() for p in tmp_path.rglob("*.json"))


def test_a_body_that_never_comes_is_given_up(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_replay.gateway.app._BODY_S", 0.2)
    with opened() as gateway:
        for framing in ("transfer-encoding: chunked", "content-length: 100"):
            with socket.create_connection(("127.0.0.1", gateway.port), timeout=LONGEST_S) as connection:
                head = f"POST /v1/messages HTTP/1.1\r\nhost: localhost:{gateway.port}\r\n{framing}\r\n\r\n"
                connection.sendall(head.encode())
                assert b" 408 " in connection.recv(65536)


def test_clients_whose_bodies_do_not_come_give_way(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_replay.gateway.protocol._MOST_CONNECTIONS", 5)
    with opened() as gateway:
        head = f"POST /v1/messages HTTP/1.1\r\nhost: localhost:{gateway.port}\r\ncontent-length: 100\r\n\r\nx"
        slow = [socket.create_connection(("127.0.0.1", gateway.port), timeout=LONGEST_S) for _ in range(20)]
        try:
            for connection in slow:
                connection.sendall(head.encode())
            assert httpx.post(f"{gateway.url()}/v1/messages", json=ASKED).status_code == 424
        finally:
            for connection in slow:
                connection.close()


def test_headers_behind_a_body_have_a_limit(opened: Opened) -> None:
    with opened() as gateway:
        host = f"host: localhost:{gateway.port}"
        head = f"POST /v1/messages HTTP/1.1\r\n{host}\r\ntransfer-encoding: chunked\r\n\r\n"
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=5) as connection:
            connection.sendall(head.encode() + b"2\r\n{}\r\n0\r\n")
            with pytest.raises((ConnectionError, TimeoutError)):
                connection.sendall((b"x-trailer: " + b"y" * 1000 + b"\r\n") * 50_000)


def test_the_command_s_status_wins_over_a_report_that_cannot_be_written(
    shell: Shell, provider: FakeProvider
) -> None:
    shell.record(TWICE, provider.url)
    failing = ASK + "ask('one'); import sys; sys.exit(9)"

    assert shell.replay(failing, "--report", "/nowhere/at/all").status == 9
    result = shell.replay(ASK + "ask('one')", "--report", "/nowhere/at/all", "--json")
    assert result.status == 1
    assert result.report["hits"] == 1


def test_a_closed_terminal_loses_nothing(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    options = ["--mode", "once", "--upstream", f"ollama={provider.url}"]
    with served(shell, *options, stop=signal.SIGHUP) as (facts, process):
        httpx.post(f"{facts['url']}/ollama/api/chat", json={**ASKED, "stream": False})
    assert process.returncode == 0
    assert len(Store.open(tmp_path / "llm")) == 1


def test_numbers_that_python_takes_for_equal_are_told_apart() -> None:
    def asked(value: Any) -> LlmRequest:
        return LlmRequest("m", "", "q", tools=[{"name": "f", "default": value}])

    for one, other in ((1, 1.0), (True, 1), (0, False)):
        (difference,) = differences(plain_form(asked(one)), plain_form(asked(other)))
        assert str(difference) == f"tool 'f', default: {json.dumps(one)} → {json.dumps(other)}"


def test_equal_calls_of_other_kinds_ask_once(opened: Opened) -> None:
    calls = 0

    async def slow(exchange: Exchange) -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.05)
        await exchange.whole(b'{"data": []}')

    with serving_in_thread(slow) as provider, opened("record", provider.url) as gateway:
        threads = [
            threading.Thread(
                target=lambda: httpx.post(
                    f"{gateway.url()}/openai/v1/embeddings", json={"input": "a"}, timeout=LONGEST_S
                )
            )
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (calls, gateway.run.ledger.recorded, gateway.run.ledger.hits) == (1, 1, 7)


def test_several_answers_at_once_come_whole_or_not_at_all(opened: Opened) -> None:
    answer = CHAT.answer("one")
    answer["choices"].append({**answer["choices"][0], "index": 1})
    body = {**ASKED, "n": 2}
    with serving_in_thread(whole(answer)) as provider, opened("once", provider.url) as gateway:
        httpx.post(f"{gateway.url()}/openai/v1/chat/completions", json=body)
    with opened() as gateway:
        url = f"{gateway.url()}/openai/v1/chat/completions"
        assert len(httpx.post(url, json=body).json()["choices"]) == 2
        streamed = httpx.post(url, json={**body, "stream": True})
        assert streamed.status_code == 424
        assert "several answers at once, as a stream (openai-chat); they were recorded whole" in streamed.text


def test_the_pace_is_kept_in_another_protocol(opened: Opened) -> None:
    async def slow(exchange: Exchange) -> None:
        await exchange.start_stream()
        for event in CLAUDE.events("a", "b", "c"):
            await exchange.piece(event)
            await asyncio.sleep(0.1)
        await exchange.end_stream()

    with serving_in_thread(slow) as provider, opened("once", provider.url) as gateway:
        httpx.post(gateway.url("anthropic") + "/v1/messages", json={**ASKED, "stream": True})
    with opened(pace="recorded") as gateway:
        started = time.monotonic()
        httpx.post(gateway.url("openai") + "/v1/chat/completions", json={**ASKED, "stream": True})
        assert time.monotonic() - started > 0.2


def test_a_configured_key_is_replaced_by_a_dummy() -> None:
    acme = ProviderSettings(kind="http", base_url="https://example.com", key_env=("ACME_API_KEY",))
    made = command_environment({"ACME_API_KEY": REAL_KEY}, Settings(providers={"acme": acme}), str)

    assert made["ACME_API_KEY"] == DUMMY_KEY


def test_an_empty_token_is_none(opened: Opened) -> None:
    with opened("once", "http://127.0.0.1:9") as gateway:
        other = Gateway(gateway.run, token="")
        assert other.token
        other._socket.close()


def test_only_the_command_s_own_word_makes_it_a_runner(shell: Shell, tmp_path: Path) -> None:
    Store.create(tmp_path / "record")

    assert shell.run("show", "--store", "record", "--", "abc").status == 3


def test_a_count_is_not_lost_to_a_stream_without_one(opened: Opened, tmp_path: Path) -> None:
    """The stream comes again as it was, and whoever asks for the whole has the count."""

    async def script(exchange: Exchange) -> None:
        if exchange.received.json.get("stream"):
            await exchange.start_stream()
            for event in CHAT.events("same", usage=None):
                await exchange.piece(event)
            await exchange.end_stream()
        else:
            await exchange.whole(json.dumps(CHAT.answer("same")).encode())

    ask: Callable[..., Any] = httpx.post
    with serving_in_thread(script) as provider, opened("once", provider.url) as gateway:
        url = gateway.url("openai") + "/v1/chat/completions"
        ask(url, json={**ASKED, "stream": True})
        ask(url, json=ASKED)
    with opened() as gateway:
        url = gateway.url("openai") + "/v1/chat/completions"
        assert ask(url, json={**ASKED, "stream": True}).content == b"".join(CHAT.events("same", usage=None))
        assert ask(url, json=ASKED).json()["usage"]["total_tokens"] == 7
    assert len(Store.open(tmp_path / "store")) == 1
