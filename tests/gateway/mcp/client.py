"""A client of the door without a socket, and servers behind it that are none."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cortex_replay.engine.mcp.link import Connect, ServerLink
from cortex_replay.gateway.mcp.door import Door
from cortex_replay.gateway.mcp.requests import Request
from cortex_replay.mcp.events import Event, EventReader
from cortex_replay.modes import Mode
from cortex_replay.run.mcp.desk import Desk
from cortex_replay.run.mcp.http.server import ClientHeaders
from tests.engine.mcp.harness import FakeServer, Reply, run_at
from tests.waiting import until

BOTH = "application/json, text/event-stream"
VERSION = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


@dataclass
class Answer:
    """What came so far."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_whole: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Event]:
        return list(EventReader(2**30).feed(self.body))

    @property
    def messages(self) -> list[Any]:
        """All that came, as one document or as events."""
        if self.headers.get("content-type") == "application/json":
            return [self.json]
        return [json.loads(event.data) for event in self.events if event.data]

    async def until(self, count: int) -> list[Any]:
        """The messages, once there are so many."""
        await until(lambda: self.status and len(self.messages) >= count)
        return self.messages

    async def leave(self) -> None:
        """Close the connection."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class House:
    """A door, and what is behind it: one server for every session."""

    def __init__(self, root: Path, mode: Mode, reply: Reply) -> None:
        self.run = run_at(root, mode)
        self.servers: list[FakeServer] = []
        self.brought: list[ClientHeaders] = []
        self.written: list[tuple[str, bytes]] = []
        """What connections got, in the order in which it was written, with the methods of their requests."""
        self._reply = reply
        self.door = Door(Desk(self.run, self))  # type: ignore[arg-type]

    def connect(self, name: str, client: ClientHeaders) -> Connect:
        async def connect() -> ServerLink:
            self.servers.append(FakeServer(self._reply))
            self.brought.append(client)
            return self.servers[-1]

        return connect

    async def aclose(self) -> None:
        """There are no connections."""

    def open(
        self,
        method: str,
        body: Any = None,
        *,
        part: str = "",
        query: str = "",
        scope: str = "",
        server: str = "tools",
        **headers: str,
    ) -> Answer:
        """Ask for something, and go on before it is all there."""
        given = {"accept": BOTH, "content-type": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(method, server, part, scope, list(given.items()), f"/mcp/{server}", query, data)
        answer = Answer()

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                answer.body += message.get("body", b"")
                self.written.append((method, message.get("body", b"")))
                answer.is_whole = not message.get("more_body")

        answer.task = asyncio.ensure_future(self.door.answer(request, send))
        return answer

    async def ask(self, method: str, body: Any = None, **options: Any) -> Answer:
        answer = self.open(method, body, **options)
        assert answer.task is not None
        await asyncio.wait_for(answer.task, 10)
        assert answer.is_whole
        return answer

    async def begin(self, **options: Any) -> str:
        """The id of a new session."""
        answer = await self.ask("POST", request("initialize", 0, protocolVersion="2025-11-25"), **options)
        assert answer.status == 200, answer.body
        return answer.headers["mcp-session-id"]

    async def call(self, session: str, name: str, id: int, **options: Any) -> Answer:  # noqa: A002
        return await self.ask("POST", request("tools/call", id, name=name), mcp_session_id=session, **options)


def request(method: str, id: int | str | None = None, **params: Any) -> dict[str, Any]:  # noqa: A002
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return message | ({} if id is None else {"id": id})


@contextlib.asynccontextmanager
async def house_at(root: Path, mode: Mode, reply: Reply = lambda _: []) -> AsyncIterator[House]:
    """A house, whose recordings are committed when it is left."""
    house = House(root, mode, reply)
    try:
        yield house
    finally:
        await house.door.aclose()
    if mode.writes:
        house.run.commit()
