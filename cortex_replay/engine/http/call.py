"""What a client asks, and what it gets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal

from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.http.upstreams import UpstreamServer

__all__ = ["Call", "Event", "Headers", "HttpReply"]

Headers = Sequence[tuple[str, str]]
Event = tuple[float, bytes]
"""When it came, in milliseconds from the start of the call, and its bytes."""


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request for a model's provider."""

    method: str
    route: Route
    query: str = ""
    headers: Headers = ()
    """Names in lower case."""
    body: bytes = b""
    server: UpstreamServer | None = None
    """Who is asked, if a client in this process named a server that is none of the configured."""

    outer_scope: str = ""
    """The name under which the gateway of a command around us counts it."""

    addressed: str = ""
    """The server that the client itself addressed, where it did: its key goes to no other."""

    def header(self, name: str) -> str:
        """The first header of a name, or nothing."""
        return next((value for known, value in self.headers if known == name), "")


@dataclass(frozen=True, slots=True)
class HttpReply:
    """One HTTP answer: whole, as a recorded stream, or as one that is under way."""

    status: int
    headers: Headers
    body: bytes = b""
    events: Sequence[Event] = ()
    """A recorded stream; ``body`` is then all of it."""
    live: AsyncIterator[bytes] | None = None
    """What an upstream sends while it is being recorded."""
    ending: Literal["whole", "cut", "reset", "hang"] = "whole"
    """How it ends: well; or cut off, reset or left open behind its events, as a fault wants it."""
    is_in_pieces: bool = False
    """Whether each event is to be written by itself."""
