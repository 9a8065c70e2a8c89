"""A client and an MCP server without a transport."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from cortex_replay.engine.core import RunCore
from cortex_replay.engine.mcp.link import Outgoing, Said
from cortex_replay.engine.mcp.session import Session
from cortex_replay.errors import Transport
from cortex_replay.modes import Mode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Store

Message = dict[str, Any]
Reply = Callable[[Message], list[Message]]
"""What a server says to a message of the client."""


class FakeServer:
    """Says what a function makes of each message of the client. With ``about`` in a message, the transport
    tells what request it belongs to."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._said: asyncio.Queue[Said | None] = asyncio.Queue()
        self._problem = ""
        self.heard: list[Message] = []
        self.is_closed = False

    async def send(self, frame: bytes) -> None:
        message = json.loads(frame)
        self.heard.append(message)
        for said in self._reply(message):
            self.say(said)

    def say(self, message: Message) -> None:
        about = message.pop("about", None)
        self.say_bytes(json.dumps({"jsonrpc": "2.0", **message}).encode(), about)

    def say_bytes(self, frame: bytes, about: Any = None) -> None:
        self._said.put_nowait(Said(frame, about))

    def die(self, problem: str = "") -> None:
        self._problem = problem
        self._said.put_nowait(None)

    async def frames(self) -> AsyncIterator[Said]:
        while (said := await self._said.get()) is not None:
            yield said
        if self._problem:
            raise Transport(self._problem)

    async def close(self) -> None:
        self.is_closed = True
        self._said.put_nowait(None)

    @property
    def methods(self) -> list[str]:
        """What it was told and asked, without answers."""
        return [message["method"] for message in self.heard if "method" in message]


class Client:
    """Sends messages to a session, and keeps what it gets.

    Args:
        run: Whose session it is.
        server: The real one, or what makes one for each connection.
        name: Of the server.
        scope: The name of the scope whose calls these are.
    """

    def __init__(
        self,
        run: RunCore,
        server: FakeServer | Callable[[], FakeServer],
        name: str = "tools",
        scope: str = "",
    ) -> None:
        self.got: list[Message] = []
        self.frames: list[Outgoing] = []
        self._more = asyncio.Event()
        self.servers: list[FakeServer] = []

        async def connect() -> FakeServer:
            made = server if isinstance(server, FakeServer) else server()
            self.servers.append(made)
            return made

        self.run = run
        self.session = Session(run.counting_scope(scope), name, connect, self._take)

    @property
    def connections(self) -> int:
        return len(self.servers)

    async def _take(self, out: Outgoing) -> None:
        self.frames.append(out)
        self.got.append(json.loads(out.frame) if out.frame.startswith((b"{", b"[")) else {"raw": out.frame})
        self._more.set()

    async def say(self, method: str, params: Message | None = None, id: int | None = None) -> None:  # noqa: A002
        message: Message = {"jsonrpc": "2.0", "method": method}
        message |= {"params": params} if params is not None else {}
        message |= {"id": id} if id is not None else {}
        await self.session.take(json.dumps(message).encode())

    async def reply(self, request: Message, result: Any) -> None:
        """Answer a request of the server."""
        await self.answer(request["id"], result)

    async def answer(self, id: int | str, result: Any) -> None:  # noqa: A002
        """Answer a request of the server by its id."""
        await self.session.take(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode())

    async def cancel(self, id: int) -> None:  # noqa: A002
        await self.say("notifications/cancelled", {"requestId": id})

    async def message(self, method: str, count: int = 1) -> Message:
        """The first message of the server with a method, or a later one."""
        return await self._find(lambda message: message.get("method") == method, count)

    async def answer_to(self, id: int) -> Message:  # noqa: A002
        """The answer to a request that was sent."""
        return await self._find(lambda message: message.get("id") == id and "method" not in message)

    async def _find(self, is_wanted: Callable[[Message], bool], count: int = 1) -> Message:
        while True:
            self._more.clear()
            found = [message for message in self.got if is_wanted(message)]
            if len(found) >= count:
                return found[count - 1]
            await asyncio.wait_for(self._more.wait(), 5)

    async def ask(self, method: str, params: Message | None = None, *, id: int) -> Message:  # noqa: A002
        """The answer to a request."""
        await self.say(method, params, id)
        return await self.answer_to(id)

    async def call(self, tool: str, id: int, **arguments: Any) -> Message:  # noqa: A002
        """The answer to the call of a tool."""
        return await self.ask("tools/call", {"name": tool, "arguments": arguments}, id=id)


Act = Callable[[Client], Awaitable[None]]


def run_at(root: Path, mode: Mode) -> RunCore:
    return RunCore(lambda: Store.open_or_create(root), mode, Redactor)


def no_server() -> FakeServer:
    raise AssertionError("replay has started a server")


def play(root: Path, mode: Mode, act: Act, server: Callable[[], FakeServer] = no_server) -> Client:
    """What a client got that did something in a session, which is over."""

    async def session() -> Client:
        client = Client(run_at(root, mode), server)
        await act(client)
        await client.session.close()
        if mode.writes:
            client.run.commit()
        return client

    return asyncio.run(session())


def record(root: Path, act: Act, reply: Reply) -> Client:
    return play(root, Mode.RECORD, act, lambda: FakeServer(reply))


def replay(root: Path, act: Act) -> Client:
    return play(root, Mode.REPLAY, act)


def result(message: Message, text: str = "done") -> Message:
    """The answer of a server to a call."""
    return {"id": message["id"], "result": {"content": [{"type": "text", "text": text}]}}


def text_of(answer: Message) -> str:
    return str(answer["result"]["content"][0]["text"])


def log(text: str) -> Message:
    return {"method": "notifications/message", "params": {"level": "info", "data": text}}


def without_ids(messages: list[Message]) -> list[Message]:
    """Messages without the ids of requests of the server, which are others in replay."""
    return [
        {name: value for name, value in message.items() if name != "id" or "method" not in message}
        for message in messages
    ]
