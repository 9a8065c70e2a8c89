"""What a client has said in a session, for a server that is started later."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.mcp.playback import Answered
from cortex_replay.mcp.messages import CANCELLED, LISTEN, Message, parameters_of, render_message, request_id

__all__ = ["Deed", "Past"]

_MOST_DEEDS: Final = 10_000
_MOST_BYTES: Final = 32 * 2**20


@dataclass(slots=True, eq=False)
class Deed:
    """A request or a notification of the client."""

    message: Message
    number: int
    state: Literal["open", "answered", "cancelled", "failed"] = "open"
    answers: list[Answered] = field(default_factory=list)
    """What the client answered when the server asked it."""

    @property
    def method(self) -> str:
        return str(self.message["method"])

    @property
    def is_told(self) -> bool:
        """Whether a server that is started later hears of it. A request that is open still is a matter of the
        client and the recording, unless it is a subscription."""
        if self.state == "failed":
            return False
        return request_id(self.message) is None or self.state != "open" or self.method == LISTEN

    @property
    def is_awaited(self) -> bool:
        """Whether a server that is told of it answers."""
        return request_id(self.message) is not None and self.state == "answered"

    def frames(self, name: str) -> list[bytes]:
        """What a server is told of it.

        Args:
            name: The id of the request, since the client's is its own. A subscription keeps it: what the
                server says to it from now on is for the client.
        """
        if request_id(self.message) is None or self.state == "open":
            return [render_message(self.message)]
        asked = render_message({**self.message, "id": name, **_without_progress(self.message)})
        if self.state == "answered":
            return [asked]
        cancelled: Message = {"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": name}}
        return [asked, render_message(cancelled)]


def _without_progress(message: Message) -> Message:
    """Parameters that ask for no progress, since the client has its answer."""
    parameters = parameters_of(message)
    meta = parameters.get("_meta")
    if not isinstance(meta, dict) or "progressToken" not in meta:
        return {}
    kept: dict[str, JsonValue] = {name: value for name, value in meta.items() if name != "progressToken"}
    rest = {name: value for name, value in parameters.items() if name != "_meta"}
    return {"params": {**rest, "_meta": kept} if kept else rest}


class Past:
    """All that a client has said so far, as long as it is not too much."""

    def __init__(self) -> None:
        self._deeds: list[Deed] = []
        self._size = 0
        self.is_lost = False
        """Whether it was too much to remember."""

    def add(self, frame: bytes, message: Message) -> Deed:
        """Remember what the client says."""
        deed = Deed(message, len(self._deeds))
        self._size += len(frame)
        if len(self._deeds) >= _MOST_DEEDS or self._size > _MOST_BYTES:
            self.is_lost = True
            self._deeds.clear()
        if not self.is_lost:
            self._deeds.append(deed)
        return deed

    def between(self, start: int, end: int) -> list[Deed]:
        """What was said from one number up to another."""
        return self._deeds[start:end]
