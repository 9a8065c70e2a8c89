"""A recorded script that is played to a client."""

from __future__ import annotations

import asyncio

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.mcp.link import Outgoing, SendToClient
from cortex_replay.mcp.messages import (
    PROGRESS,
    Message,
    RequestId,
    parameters_of,
    progress_token,
    render_message,
    request_id,
)
from cortex_replay.mcp.scripts import SUBSCRIPTION

__all__ = ["Playback"]


class Playback:
    """Says what a server said, and waits where the client answered it.

    Args:
        wire: The script, with the values of today.
        message: The client's, which it follows.
        send: Takes what the client gets.
        name: Of this playback: what ids of requests begin with.
    """

    def __init__(self, wire: dict[str, JsonValue], message: Message, send: SendToClient, name: str) -> None:
        entries = wire.get("messages")
        self._entries = entries if isinstance(entries, list) else []
        self._about = request_id(message)
        self._token = progress_token(message)
        self._send = send
        self._name = name
        self._asked: dict[RequestId, asyncio.Future[Message]] = {}
        self._cancelled = asyncio.Event()
        self._has_ended = False

    def cancel(self) -> None:
        """The client gives the call up."""
        self._cancelled.set()
        for waiting in self._asked.values():
            waiting.cancel()

    def take_answer(self, message: Message) -> bool:
        """The client answers a request; whether it is one of this script."""
        found = request_id(message)
        if found is None or found not in self._asked:
            return False
        if not self._asked[found].done():
            self._asked[found].set_result(message)
        return True

    async def play(self) -> str:
        """Play it to its end; gives in what the client's part differs, if that ends it."""
        for entry in self._entries:
            assert isinstance(entry, dict)  # noqa: S101 - the store has checked it
            if self._cancelled.is_set():
                return ""
            match entry:
                case {"notification": dict(said)}:
                    await self._notify(said)
                case {"request": dict(said)}:
                    number = len(self._asked) + 1
                    found = f"{self._name}-{number}"
                    self._asked[found] = asyncio.get_running_loop().create_future()
                    await self._say({"jsonrpc": "2.0", "id": found, **said})
                case {"answer": {"to": int(to), **recorded}}:
                    try:
                        given = await self._asked[f"{self._name}-{to}"]
                    except asyncio.CancelledError:
                        return ""
                    name = "error" if "error" in given else "result"
                    if given[name] != recorded.get(name) and not self._has_ended:
                        return f"the client's answer to request {to} of the server is not the recorded one"
                case {"cancelled": _}:
                    await self._cancelled.wait()
                    return ""
                case {"result": _} | {"error": _}:
                    name = "error" if "error" in entry else "result"
                    self._has_ended = True
                    await self._say({"jsonrpc": "2.0", "id": self._about, name: entry[name]}, is_end=True)
        return ""

    async def _notify(self, said: dict[str, JsonValue]) -> None:
        parameters = dict(parameters_of(said))
        if said.get("method") == PROGRESS and "progressToken" not in parameters:
            if self._token is None:
                return
            parameters = {"progressToken": self._token, **parameters}
        meta = parameters.get("_meta")
        if isinstance(meta, dict) and SUBSCRIPTION in meta and meta[SUBSCRIPTION] is None:
            parameters["_meta"] = {**meta, SUBSCRIPTION: self._about}
        await self._say({"jsonrpc": "2.0", **said, **({"params": parameters} if "params" in said else {})})

    async def _say(self, message: Message, *, is_end: bool = False) -> None:
        about = self._about if is_end or not self._has_ended else None
        await self._send(Outgoing(render_message(message), about, is_end))
