"""The RPC has a door of its own: a caller's token opens it and nothing else, and no other token does."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cortex_replay import Store
from cortex_replay.admin import METHOD
from cortex_replay.config import CallerSettings, ProviderSettings, Settings
from cortex_replay.errors import InvalidRequest
from cortex_replay.gateway import Gateway
from cortex_replay.gateway.rpc import Rpc
from cortex_replay.run import Run
from tests.adapters.fake_provider import FakeProvider
from tests.cli.programs import Shell
from tests.gateway.test_rpc import on_pipes
from tests.gateway.upstream import REAL_KEY, model_server

GRANTED = "token-of-a-caller-" + "with-a-grant"
UNGRANTED = "token-of-a-caller-" + "without-one"
GATEWAY = "token-of-the-gateway-" + "itself"
ASKED = {"provider": "local", "model": "m", "messages": [{"role": "user", "content": "Hello."}]}
CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": ASKED}).encode()
CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello."}]}).encode()
FORMS = [
    "/rpc",
    "/{t}/rpc",
    "/s-x/rpc",
    "/{t}/s-x/rpc",
    "//rpc",
    "/./rpc",
    "/rpc/",
    "/rpc/.",
    "/rpc//",
    "/rpc;x",
    "/%72pc",
    "/openai/../rpc",
    "/openai/%2e%2e/rpc",
    "/rpc/../openai/v1/models",
    "/rpc?x=1",
    "/RPC",
    "/Rpc",
    "/rpc%00",
    "/rpc%2f",
    "/s-%2e%2e/rpc",
]
"""Ways to write the door's name."""
DOORS = ("/rpc", "/{t}/rpc", "/s-x/rpc", "/{t}/s-x/rpc", "//rpc", "/rpc?x=1", "/s-%2e%2e/rpc")
"""Those that are it; what else they bring says nothing here."""


class Answer(NamedTuple):
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with model_server() as serving:
        yield serving


@pytest.fixture
def settings(provider: FakeProvider) -> Settings:
    local = ProviderSettings(
        kind="openai-compat", base_url=f"{provider.url}/v1", key_env=("LOCAL_KEY",), models=("m",)
    )
    callers = {
        "granted": CallerSettings(token_env=("GRANTED",), grants=("llm_complete",)),
        "ungranted": CallerSettings(token_env=("UNGRANTED",)),
    }
    return Settings(providers={"local": local}, callers=callers)


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LOCAL_KEY", REAL_KEY), ("GRANTED", GRANTED), ("UNGRANTED", UNGRANTED)):
        monkeypatch.setenv(name, value)


@contextmanager
def serving(root: Path, settings: Settings, mode: Any, token: str | None = GATEWAY) -> Iterator[Gateway]:
    store = Store.open_or_create(root / "store", verify="on-read")
    run = Run(settings, mode, store)
    with Gateway(run, rpc=Rpc(run, os.environ), token=token).running() as gateway:
        yield gateway


def ask(gateway: Gateway, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
    """The answer to a request whose path goes out as it is written: clients would tidy it."""
    lines = [f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{gateway.port}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += [f"content-length: {len(body)}"]
    received = b""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        while data := connection.recv(65536):
            received += data
    head, _, rest = received.partition(b"\r\n\r\n")
    return Answer(int(head.split(b" ")[1]), rest)


def bearer(token: str) -> str:
    return f"Bearer {token}"


@pytest.mark.parametrize("mode", ["once", "record", "live", "replay"])
def test_a_caller_comes_in_by_its_own_token_alone(
    tmp_path: Path, settings: Settings, provider: FakeProvider, mode: str
) -> None:
    with serving(tmp_path, settings, mode) as gateway:
        answer = ask(gateway, "POST", "/rpc", CALL, authorization=bearer(GRANTED))
        refused = ask(gateway, "POST", "/rpc", CALL, authorization=bearer(UNGRANTED))

        assert answer.status == 200
        assert ("result" in answer.json) == (mode != "replay")
        assert (refused.status, refused.json["error"]["code"]) == (200, -32001), "in the RPC's own words"
        assert len(provider.received) == (mode != "replay")


@pytest.mark.parametrize("mode", ["once", "record", "live", "replay"])
@pytest.mark.parametrize("caller", [GRANTED, UNGRANTED])
def test_a_caller_s_token_opens_nothing_else(
    tmp_path: Path, settings: Settings, provider: FakeProvider, mode: str, caller: str
) -> None:
    """Once, a caller had to be given the gateway's token, and with it every provider and every switch."""
    with serving(tmp_path, settings, mode) as gateway:
        for prefix in ("", f"/t-{caller}", f"/t-{bearer(caller).replace(' ', '%20')}"):
            for headers in ({}, {"authorization": bearer(caller)}, {"x_cortex_replay_token": caller}):
                for method, path, body in (
                    ("POST", "/local/v1/chat/completions", CHAT),
                    ("GET", "/local/v1/models", b""),
                    ("GET", "/-/ledger", b""),
                    ("GET", "/-/faults", b""),
                    ("PUT", "/-/faults", b'{"faults": ["500@always"]}'),
                    ("DELETE", "/-/faults", b""),
                ):
                    answer = ask(gateway, method, prefix + path, body, **headers)
                    assert answer.status == 401, (prefix, headers, method, path)
        assert provider.received == []
        assert not gateway.faults.are_any


@pytest.mark.parametrize("mode", ["once", "replay"])
def test_the_gateway_s_token_does_not_open_the_rpc(
    tmp_path: Path, settings: Settings, provider: FakeProvider, mode: str
) -> None:
    with serving(tmp_path, settings, mode) as gateway:
        for path in FORMS:
            for headers in (
                {},
                {"authorization": bearer(GATEWAY)},
                {"x_cortex_replay_token": GATEWAY},
                {"x_cortex_replay_token": GATEWAY, "authorization": bearer(GATEWAY)},
            ):
                answer = ask(gateway, "POST", path.format(t=f"t-{GATEWAY}"), CALL, **headers)
                assert answer.status in (400, 401, 404, 424), (path, headers, answer)
                assert b'"result"' not in answer.body
        assert provider.received == []


def test_no_spelling_of_the_door_leads_around_it(
    tmp_path: Path, settings: Settings, provider: FakeProvider
) -> None:
    """Whatever the path looks like: a caller without a grant spends nothing, a stranger comes nowhere."""
    with serving(tmp_path, settings, "live") as gateway:
        for path in FORMS:
            for token in (UNGRANTED, "stranger" * 4, ""):
                headers = {"authorization": bearer(token)} if token else {}
                answer = ask(gateway, "POST", path.format(t="t-wrong"), CALL, **headers)
                is_door = path in DOORS
                if is_door and token == UNGRANTED:
                    assert (answer.status, answer.json["error"]["code"]) == (200, -32001), path
                else:
                    assert answer.status in (400, 401), (path, token, answer)
        assert provider.received == []


@pytest.mark.parametrize("header", ["origin: https://evil.example", "sec-fetch-site: cross-site"])
def test_browsers_and_foreign_names_stay_outside(tmp_path: Path, settings: Settings, header: str) -> None:
    name, _, value = header.partition(": ")
    with serving(tmp_path, settings, "live") as gateway:
        answer = ask(
            gateway, "POST", "/rpc", CALL, authorization=bearer(GRANTED), **{name.replace("-", "_"): value}
        )
        assert answer.status == 403


@pytest.mark.parametrize("mode", ["once", "live", "replay"])
def test_a_stranger_controls_nothing(tmp_path: Path, settings: Settings, mode: str) -> None:
    """In replay, too, where recordings are served to whoever is on this machine."""
    with serving(tmp_path, settings, mode, token=None) as gateway:
        for method, path, body in (
            ("GET", "/-/ledger", b""),
            ("GET", "/-/faults", b""),
            ("PUT", "/-/faults", b'{"faults": ["500@always"]}'),
            ("DELETE", "/-/faults", b""),
            ("GET", "/-/", b""),
            ("GET", "/-/ledger/", b""),
            ("GET", "//-/ledger", b""),
            ("GET", "/s-x/-/ledger", b""),
        ):
            assert ask(gateway, method, path, body).status == 401, (method, path)
        assert not gateway.faults.are_any
        control = gateway.url("-").partition(str(gateway.port))[2]
        assert ask(gateway, "GET", f"{control}/ledger").status == 200
        assert ask(gateway, "PUT", f"{control}/faults", b'{"faults": ["500@always"]}').status == 200


def test_a_caller_may_not_have_the_gateway_s_token(tmp_path: Path, settings: Settings) -> None:
    with (
        pytest.raises(InvalidRequest, match="caller granted"),
        serving(tmp_path, settings, "live", token=GRANTED),
    ):
        pass


def test_a_caller_on_pipes_gets_no_more(tmp_path: Path, provider: FakeProvider) -> None:
    """`serve --stdio` speaks for one caller, by name; without a grant it is told so, and nothing is asked."""
    (tmp_path / "cortex-replay.toml").write_text(
        f'[callers.ungranted]\n[providers.local]\nkind = "openai-compat"\nbase_url = "{provider.url}/v1"\n'
        'key_env = "LOCAL_KEY"\n'
    )
    shell = Shell(tmp_path, {"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    with on_pipes(shell, "--mode", "once", "--caller", "ungranted", LOCAL_KEY=REAL_KEY) as process:
        out, _ = process.communicate(CALL.decode() + "\n", timeout=300)

    assert json.loads(out)["error"]["code"] == -32001
    assert provider.received == []


def test_a_message_that_is_too_large_is_refused_in_json_rpc(tmp_path: Path, settings: Settings) -> None:
    """It is not read: what its head says is enough."""
    with serving(tmp_path, settings, "replay") as gateway:
        head = f"POST /rpc HTTP/1.1\r\nhost: 127.0.0.1:{gateway.port}\r\nauthorization: {bearer(GRANTED)}\r\n"
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=60) as connection:
            connection.sendall(f"{head}content-length: {2**30}\r\n\r\n".encode())
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(65536)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["jsonrpc"] == "2.0"
