"""Messages of a WebSocket: what must not leave does not, in any mode; and who hears which session."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store
from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.ws.sessions import SessionTape, opening_request
from cortex_replay.errors import InvalidRequest
from cortex_replay.gateway import Pace
from cortex_replay.gateway.session_socket import Played, SessionSocket
from cortex_replay.gateway.websocket_connection import Gone
from tests.engine.http.harness import run_over

LABELLED = ["[SENSITIVITY:high] the plan", '{"type":"x","text":"[sens:high] the plan"}', '{"[sens:high]":1}']


class _Upstream:
    def __init__(self) -> None:
        self.heard: list[str | bytes] = []

    async def send(self, message: str | bytes) -> None:
        self.heard.append(message)


@pytest.mark.parametrize("message", LABELLED)
@pytest.mark.parametrize(
    ("mode", "most", "leaves"),
    [
        ("live", "medium", False),
        ("live", "high", True),
        ("once", "medium", False),
        ("once", "high", False),
        ("record", "high", False),
    ],
)
def test_labelled_text_leaves_only_where_it_may(
    tmp_path: Path, message: str, mode: str, most: Any, leaves: bool
) -> None:
    """By what may be sent, and by what the store may hold if it is recorded."""
    with run_over(tmp_path, mode, max_sensitivity=most) as run:
        opening = Call("GET", Route("openai", "/v1/realtime", None))
        parts: Any = (None, run.engine(), None, Pace(), run.open_scope(), opening, None, Played())
        socket, upstream = SessionSocket(*parts), _Upstream()
        tape = SessionTape(socket._request, None)

        async def send(text: str) -> None:
            await socket._pass_on(text, upstream, tape)  # type: ignore[arg-type]

        asyncio.run(send("Hello."))
        if leaves:
            asyncio.run(send(message))
        else:
            with pytest.raises(InvalidRequest, match="labelled above"):
                asyncio.run(send(message))

    assert upstream.heard == ["Hello.", *([message] if leaves else [])]


class _Client:
    """Says one thing, and leaves."""

    subprotocol = None

    def __init__(self) -> None:
        self.heard: list[str | bytes] = []
        self._has_spoken = False

    async def accept(self, _: object) -> None:
        pass

    async def send(self, message: str | bytes) -> None:
        self.heard.append(message)

    async def receive(self) -> str:
        if self._has_spoken:
            raise Gone
        self._has_spoken = True
        return "Hi"


def test_each_scope_hears_the_sessions_in_turn(tmp_path: Path) -> None:
    """What it has not heard yet comes first; what others heard makes no difference."""
    opening = Call("GET", Route("openai", "/v1/realtime", None))
    recorded = []
    for said in ("one", "two"):
        tape = SessionTape(opening_request(opening), None)
        tape.add_sent("Hi")
        tape.add_received(said)
        recorded.append(tape.exchange())
    store = Store.create(tmp_path)
    store.add_exchange(replace(recorded[0], then=(recorded[1].wire,)))
    store.commit()

    with run_over(tmp_path) as run:
        played = Played()

        def hear(scope: str) -> list[str | bytes]:
            client = _Client()
            parts: Any = (client, run.engine(), None, Pace(), run.scope(scope), opening, None, played)
            asyncio.run(SessionSocket(*parts).serve())
            return client.heard

        assert [hear(scope) for scope in ("a", "a", "b", "a", "b")] == [
            *(["one"], ["two"], ["one"], ["one"], ["two"])
        ]
