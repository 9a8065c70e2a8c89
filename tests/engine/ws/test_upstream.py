"""One WebSocket for the responses of one client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from cortex_replay import Store
from cortex_replay.adapters.http import RelayReply
from cortex_replay.adapters.http.sockets import UpgradeRefused
from cortex_replay.config import Settings
from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.relay import Relay
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.ws import upstream as upstream_module
from cortex_replay.engine.ws.upstream import ResponsesUpstream, _Whole
from cortex_replay.errors import ResponseParse, Timeout, Transport
from cortex_replay.run import Run
from tests.servers.websockets import socket_upstream

KEY = "of-the-upstream-alone-4711"
BODY = b'{"model": "m", "input": "one", "stream": true}'


def test_what_was_left_in_the_middle_is_not_taken_for_the_next_answer(tmp_path: Path) -> None:
    async def ask(upstream: ResponsesUpstream, environment: Any, pieces: int) -> list[bytes]:
        call = Call("POST", Route("openai", "/v1/responses", "openai-responses"), body=BODY)
        async with upstream.send(call, environment) as reply:
            return [await reply.body.read() for _ in range(pieces)]

    async def go(url: str) -> None:
        environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/v1"}
        run = Run(Settings(), "record", Store.create(tmp_path), environment=environment)
        engine = run.engine()
        upstream = ResponsesUpstream(engine.relay, Call("GET", Route("openai", "/v1/responses", None)))
        await ask(upstream, environment, 2)
        first, *_ = await ask(upstream, environment, 1)
        assert b'"response.created"' in first
        assert b"upstream" in first
        await upstream.aclose()
        await engine.aclose()

    with socket_upstream(KEY) as server:
        asyncio.run(go(server.url))
        assert len(server.openings) == 2


class FakeSocket:
    """Says what it was given, then that it was closed."""

    def __init__(self, *frames: str | bytes) -> None:
        self.frames = list(frames)
        self.sent: list[str] = []
        self.close_frame: Any = None

    async def send(self, frame: str) -> None:
        self.sent.append(frame)

    async def receive(self) -> str | bytes | None:
        return self.frames.pop(0) if self.frames else None

    async def aclose(self) -> None:
        self.close_frame = "closed"


class FakeRelay:
    """Opens sockets, or refuses to; and sends calls over HTTP."""

    def __init__(self, *opened: FakeSocket | UpgradeRefused) -> None:
        self.opened = list(opened)
        self.turns = 0
        self.over_http = 0

    async def open_socket(self, call: Call, environment: Any) -> FakeSocket | UpgradeRefused:
        return self.opened.pop(0)

    async def check_frame(self, call: Call, frame: bytes, environment: Any) -> None:
        assert frame == BODY

    async def take_turn(self, call: Call, environment: Any) -> None:
        self.turns += 1

    @asynccontextmanager
    async def send(self, call: Call, environment: Any) -> AsyncIterator[RelayReply]:
        self.over_http += 1
        yield RelayReply(200, [], _Whole(b"over HTTP", ""))


CREATED, DONE = '{"type":"response.created"}', '{"type":"response.completed"}'


def asked(relay: FakeRelay, times: int = 1) -> list[Any]:
    """What a client gets for the same call, so often: the status and all of the body."""

    async def go() -> list[Any]:
        route = Route("openai", "/v1/responses", "openai-responses")
        upstream = ResponsesUpstream(cast("Relay", relay), Call("GET", route))
        got: list[Any] = []
        for _ in range(times):
            async with upstream.send(Call("POST", route, body=BODY), {}) as reply:
                got.append((reply.status, await reply.body.read_all()))
                assert await reply.body.read() == b"", "nothing follows"
                await reply.body.aclose()
        await upstream.aclose()
        return got

    return asyncio.run(go())


def test_a_socket_serves_many_responses_and_each_but_the_first_takes_a_turn() -> None:
    socket = FakeSocket(CREATED, DONE, CREATED.encode(), DONE)
    relay = FakeRelay(socket)

    first, second = asked(relay, 2)

    assert first == second
    assert first[0] == 200
    assert [line for line in first[1].split(b"\n") if line.startswith(b"data")] == [
        f"data: {CREATED}".encode(),
        f"data: {DONE}".encode(),
    ]
    assert (len(socket.sent), relay.turns) == (2, 1)


def test_a_socket_that_was_closed_meanwhile_is_opened_anew() -> None:
    first, second = FakeSocket(CREATED, DONE), FakeSocket(CREATED, DONE)
    first.close_frame = "closed by the server"
    relay = FakeRelay(first, second)

    asked(relay, 2)

    assert (len(first.sent), len(second.sent), relay.opened) == (1, 1, [])


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ('{"type": "error", "status": 429, "error": {"message": "later"}}', 429),
        ('{"type": "error", "status": 200, "error": {"message": "later"}}', 400),
        ('{"type": "error", "error": {"message": "later"}}', 400),
    ],
)
def test_a_refusal_is_the_error_that_it_would_be_over_http(said: str, status: int) -> None:
    assert asked(FakeRelay(FakeSocket(said))) == [(status, b'{"error":{"message":"later"}}')]


def test_a_server_without_websockets_is_asked_over_http_from_then_on() -> None:
    relay = FakeRelay(UpgradeRefused(404, [], b"no"))

    assert asked(relay, 2) == [(200, b"over HTTP")] * 2
    assert relay.opened == []


@pytest.mark.parametrize("status", [401, 500])
def test_a_refusal_that_a_client_should_see_is_passed_on(status: int) -> None:
    relay = FakeRelay(*(UpgradeRefused(status, [], b"why") for _ in range(2)))

    assert asked(relay, 2) == [(status, b"why")] * 2
    assert relay.over_http == 0


@pytest.mark.parametrize("frames", [(), (CREATED,), ("no JSON",)])
def test_a_socket_that_closes_in_the_middle_is_an_error(frames: tuple[str, ...]) -> None:
    with pytest.raises(Transport, match="in the middle of a response"):
        asked(FakeRelay(FakeSocket(*frames)))


def test_an_answer_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_module, "_MAX_ANSWER", 2 * len(CREATED))

    with pytest.raises(ResponseParse, match="larger than"):
        asked(FakeRelay(FakeSocket(CREATED, CREATED, CREATED, DONE)))


def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_module, "_WAIT_MS", 0)

    class Silent(FakeSocket):
        async def receive(self) -> str | bytes | None:
            await asyncio.Event().wait()
            return None

    with pytest.raises(Timeout):
        asked(FakeRelay(Silent()))
