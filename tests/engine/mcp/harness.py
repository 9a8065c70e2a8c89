"""A client and a server of MCP without a transport."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from cortex_replay.engine.core import RunCore
from cortex_replay.engine.mcp.link import Outgoing, Said
from cortex_replay.engine.mcp.session import Session
from cortex_replay.modes import Mode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Store

Reply = Callable[[dict[str, Any]], list[dict[str, Any]]]


class FakeServer:
    """Says what a function makes of each message of the client."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._said: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.heard: list[dict[str, Any]] = []

    async def send(self, frame: bytes) -> None:
        message = json.loads(frame)
        self.heard.append(message)
        for said in self._reply(message):
            self.say(said)

    def say(self, message: dict[str, Any]) -> None:
        self._said.put_nowait(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def frames(self) -> AsyncIterator[Said]:
        while (frame := await self._said.get()) is not None:
            yield Said(frame)

    async def close(self) -> None:
        self._said.put_nowait(None)


class Client:
    """Sends messages to a session, and keeps what it gets."""

    def __init__(self, run: RunCore, server: FakeServer, name: str = "tools") -> None:
        self.got: list[dict[str, Any]] = []
        self._more = asyncio.Event()
        self.connections = 0

        async def connect() -> FakeServer:
            self.connections += 1
            return server

        self.session = Session(run.counting_scope(), name, connect, self._take)

    async def _take(self, out: Outgoing) -> None:
        self.got.append(json.loads(out.frame))
        self._more.set()

    async def say(self, method: str, params: dict[str, Any] | None = None, id: int | None = None) -> None:  # noqa: A002
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        message |= {"params": params} if params is not None else {}
        message |= {"id": id} if id is not None else {}
        await self.session.take(json.dumps(message).encode())

    async def ask(self, method: str, params: dict[str, Any] | None = None, *, id: int) -> dict[str, Any]:  # noqa: A002
        """The answer to a request."""
        await self.say(method, params, id)
        return await self.answer_to(id)

    async def answer_to(self, id: int) -> dict[str, Any]:  # noqa: A002
        """The answer to a request that was sent."""
        return await self._find(lambda message: message.get("id") == id and "method" not in message)

    async def message(self, method: str) -> dict[str, Any]:
        """The first message of the server with a method."""
        return await self._find(lambda message: message.get("method") == method)

    async def answer(self, id: int | str, result: dict[str, Any]) -> None:  # noqa: A002
        """Answer the server."""
        await self.session.take(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode())

    async def _find(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            self._more.clear()
            for message in self.got:
                if is_wanted(message):
                    return message
            await asyncio.wait_for(self._more.wait(), 5)


def run_at(root: Path, mode: Mode) -> RunCore:
    return RunCore(lambda: Store.open_or_create(root), mode, Redactor)
