"""The server of a session, if there is one: what it says is recorded, and the client gets it."""

from __future__ import annotations

import asyncio

import orjson

from cortex_replay.engine.http.offload import aside
from cortex_replay.engine.mcp.calls import Call
from cortex_replay.engine.mcp.client_side import ClientSide
from cortex_replay.engine.mcp.keeping import Keeper
from cortex_replay.engine.mcp.link import Outgoing, Said, words_of
from cortex_replay.engine.mcp.open_calls import MOST_OPEN
from cortex_replay.engine.scope import Scope
from cortex_replay.errors import LlmError
from cortex_replay.mcp.messages import (
    PING,
    Message,
    NotAMessage,
    RequestId,
    is_answer,
    is_request,
    messages_in,
    render_message,
    request_id,
)

__all__ = ["ServerSide"]


class ServerSide:
    """Takes what a real server says.

    Args:
        scope: Whose calls these are.
        server: The name of the server.
        client: Who gets it.
        keeper: Who keeps it.
    """

    def __init__(self, scope: Scope, server: str, client: ClientSide, keeper: Keeper) -> None:
        self._scope = scope
        self._server = server
        self._client = client
        self._keeper = keeper
        self._questions: dict[RequestId, tuple[Call, Message]] = {}
        """What it has asked the client, and which call that belongs to."""
        self._strange = 0
        self._keeping = asyncio.Lock()

    async def hear(self, said: Said) -> None:
        """Take a frame, or the reason why a call gets none."""
        if said.problem:
            failed = self._client.calls.get(said.about)
            if failed is not None and failed.playback is None:
                await self._client.fail(failed, said.problem)
            return
        try:
            messages = messages_in(said.frame)
        except NotAMessage as error:
            await self._take_strange(said, str(error))
            return
        for message in messages:
            frame = said.frame if len(messages) == 1 else render_message(message)
            if is_answer(message):
                await self._take_result(frame, message)
            else:
                await self._take_other(Said(frame, said.about), message)

    def forget_question(self, about: RequestId | None) -> tuple[Call, Message] | None:
        """What the client answers now, and the call it belongs to; ``None`` if nothing is known of it."""
        return None if about is None else self._questions.pop(about, None)

    async def settle(self) -> None:
        """Wait until no answer is being kept: what the client says next comes behind it."""
        if self._keeping.locked():
            async with self._keeping:
                pass

    async def lose(self, problem: str) -> None:
        """The server has ended."""
        self._keeper.flush()
        for call in self._client.calls:
            if call.playback is None and call.is_sent:
                await self._client.fail(call, problem)

    def sum_up(self) -> None:
        """Say in the summary how much of what it said was no message."""
        if self._strange:
            lines = (
                "1 frame that is no message"
                if self._strange == 1
                else f"{self._strange} frames that are none"
            )
            self._scope.run.ledger.remark(
                f"{self._server}: {lines} of JSON-RPC; the client got what was said"
            )

    async def _take_result(self, frame: bytes, message: Message) -> None:
        about = request_id(message)
        if about is None:  # an error that is about no request
            await self._client.send(Outgoing(frame))
            return
        call = self._client.calls.get(about)
        if call is None or call.playback is not None:
            return  # the client has given it up, or has its answer
        call.script.end(message, len(frame))
        try:
            async with self._keeping:  # a picture takes seconds to look through
                await aside(call.script.size, self._keeper.keep, call)
        except (LlmError, OSError) as error:
            await self._client.fail(call, f"its answer could not be kept: {words_of(error)}")
            return
        await self._client.deliver(Outgoing(frame, about, is_end=True))

    async def _take_other(self, said: Said, message: Message) -> None:
        """A notification, or a request to the client."""
        calls = self._client.calls
        call = calls.owner_of(message, said.about) or self._client.latest
        number, subscribed = calls.subscription_of(message)
        if call is not None and call.turn is not None and message.get("method") != PING:
            if is_request(message):
                call.script.ask(message, len(said.frame))
                self._remember_question(call, message)
            else:
                call.script.notify(message, len(said.frame), number)
            self._keeper.note(call)
        is_open = call is not None and calls.get(call.id) is call
        about = call.id if call is not None and is_open else None
        await self._client.send(Outgoing(said.frame, about if subscribed is None else subscribed))

    def _remember_question(self, call: Call, message: Message) -> None:
        about = request_id(message)
        if about is not None:
            self._questions[about] = call, message
            if len(self._questions) > MOST_OPEN:
                self._questions.pop(next(iter(self._questions)))

    async def _take_strange(self, said: Said, reason: str) -> None:
        """A frame that is no message, or cannot be stored: the client gets it, as it would without us."""
        self._strange += 1
        try:
            message = orjson.loads(said.frame)
        except ValueError:
            message = None
        call = None
        if isinstance(message, dict) and ("result" in message or "error" in message):
            call = self._client.calls.get(request_id(message))
        if call is None or call.playback is not None:
            await self._client.send(Outgoing(said.frame, said.about))
            return
        self._client.withdraw(call, "")
        what = call.name(self._server)
        self._scope.run.ledger.refuse(f"{what}: its answer cannot be stored: {reason}")
        await self._client.deliver(Outgoing(said.frame, call.id, is_end=True))
