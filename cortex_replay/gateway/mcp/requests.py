"""A client's request to the gateway as an MCP server, read and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, unquote

from cortex_replay.mcp.headers import (
    EVENT_STREAM,
    HANDSHAKE_VERSIONS,
    JSON,
    METHOD,
    NAME,
    PROTOCOL_VERSION,
    name_in,
    plain_name,
    version_in,
)
from cortex_replay.mcp.messages import INVALID_REQUEST, PARSE_ERROR, Message, error_message, request_id

__all__ = [
    "MCP_PATH",
    "Problem",
    "Request",
    "is_modern",
    "problem_of_headers",
    "server_at",
    "status_of",
]

MCP_PATH: Final = "/mcp/"
_PLACE: Final = re.compile(r"/mcp/([^/]{1,300})(?:/(sse|messages))?/?")
_INVALID_PARAMETERS: Final = -32602
_HEADER_MISMATCH: Final = -32020
_UNSUPPORTED_VERSION: Final = -32022
_STATUSES: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    _INVALID_PARAMETERS: 400,
    _HEADER_MISMATCH: 400,
    -32021: 400,
    _UNSUPPORTED_VERSION: 400,
    -32601: 404,
}
"""What an error of a request that stands alone is to HTTP."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request is not served."""

    status: int
    error: Message
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, status: int, reason: str, code: int = INVALID_REQUEST, about: Message | None = None
    ) -> Problem:
        """One of a status, in words."""
        return cls(status, error_message(request_id(about or {}), code, f"cortex-replay: {reason}"))


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks."""

    method: str
    server: str
    part: str
    """``sse`` or ``messages`` of the older transport, else nothing."""
    scope: str
    headers: list[tuple[str, str]]
    """Names in lower case."""
    base: str
    """The path that the client has for the server, with token and scope."""
    query: str = ""
    body: bytes = b""
    by_name: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[str, str] = {}
        for name, value in self.headers:
            found.setdefault(name, value)
        object.__setattr__(self, "by_name", found)

    def header(self, name: str) -> str:
        return self.by_name.get(name, "")

    @property
    def session(self) -> str:
        """The session that the query names, in the older transport."""
        return parse_qs(self.query).get("session_id", [""])[0]

    def accepts(self, kind: str) -> bool:
        """Whether the client takes an answer of a kind; one that does not say takes any."""
        given = [one.partition(";")[0].strip().lower() for one in self.header("accept").split(",")]
        return given == [""] or any(one in ("*/*", kind, f"{kind.partition('/')[0]}/*") for one in given)

    @property
    def problem(self) -> Problem | None:
        """What of its form is wrong, before its body is looked at."""
        if self.method == "POST" and self.header("content-type").partition(";")[0].strip().lower() != JSON:
            return Problem.of(415, f"a message comes as {JSON}")
        wanted = (JSON, EVENT_STREAM) if self.method == "POST" else (EVENT_STREAM,)
        if self.method != "DELETE" and self.part != "messages" and not any(map(self.accepts, wanted)):
            return Problem.of(406, f"the answer is {' or '.join(wanted)}, and the client accepts neither")
        return None


def server_at(path: str) -> tuple[str, str] | None:
    """The name of the server that a path is for, and the part of the older transport that it names."""
    found = _PLACE.fullmatch(path)
    return None if found is None else (unquote(found[1]), found[2] or "")


def is_modern(request: Request, messages: list[Message]) -> bool:
    """Whether it is of the era in which each request stands alone."""
    said = request.header(PROTOCOL_VERSION)
    return (bool(said) and said not in HANDSHAKE_VERSIONS) or any(version_in(one) for one in messages)


def problem_of_headers(request: Request, message: Message) -> Problem | None:
    """Why a request that stands alone cannot be served: its headers do not say what it says."""
    version = version_in(message)
    if version is None:
        return Problem.of(400, "the request does not say its version in _meta", _INVALID_PARAMETERS, message)
    named = name_in(message)
    wanted = {PROTOCOL_VERSION: version, METHOD: str(message.get("method"))}
    wanted |= {} if named is None else {NAME: named}
    for name, value in wanted.items():
        if plain_name(request.header(name)) != value:
            return Problem.of(
                400, f"the header {name} is not what the message says", _HEADER_MISMATCH, message
            )
    return None


def status_of(answer: Message) -> int:
    """The status of the answer to a request that stands alone."""
    match answer.get("error"):
        case {"code": int(code)}:
            return _STATUSES.get(code, 200)
    return 200
