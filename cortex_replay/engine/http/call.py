"""What a client asks, and what it gets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.http.upstreams import UpstreamServer
from cortex_replay.secret_names.names import CREDENTIAL_PARAMETERS

__all__ = ["Call", "Event", "Headers", "HttpReply", "stored_query"]

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


def stored_query(query: str) -> list[JsonValue]:
    """A query as a recording holds it: pairs in order, without credentials."""
    return [
        [name, value]
        for name, value in sorted(parse_qsl(query, keep_blank_values=True))
        if name.lower() not in CREDENTIAL_PARAMETERS
    ]
