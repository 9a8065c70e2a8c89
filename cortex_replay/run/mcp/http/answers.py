"""What the answers of an MCP server over HTTP say, where they are not what they should be."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from cortex_replay.errors import LlmError, ResponseParse, Transport
from cortex_replay.mcp.messages import NotAMessage, messages_in

if TYPE_CHECKING:
    from cortex_replay.adapters.http import RelayReply, ReplyBody

__all__ = ["Refusal", "problem_of", "read_body", "read_start", "wrong_type"]

_MOST_REASON: Final = 64 * 1024
_REASON_S: Final = 5.0


class Refusal(Transport):
    """The server answered, but not as it should; ``status`` is what it answered with."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


async def read_body(body: ReplyBody, most: int) -> bytes:
    """All of a body.

    Raises:
        ResponseParse: It is larger than it may be.
    """
    pieces, size = [], 0
    while data := await body.read():
        pieces.append(data)
        size += len(data)
        if size > most:
            raise ResponseParse(f"the answer is larger than {most} bytes")
    return b"".join(pieces)


async def read_start(body: ReplyBody) -> bytes:
    """So much of a body as a reason may take; nothing where it breaks off."""
    data = b""
    with contextlib.suppress(LlmError, TimeoutError):
        async with asyncio.timeout(_REASON_S):
            while len(data) < _MOST_REASON and (piece := await body.read()):
                data += piece
    return data[:_MOST_REASON]


def problem_of(reply: RelayReply, body: bytes) -> str:
    """What a status means, in words."""
    status = reply.status
    if 300 <= status < 400:
        return f"the server answered with a redirect (status {status}), which is never followed"
    if status in (401, 403):
        how = "name its key with key_env, or let your client bring one"
        return f"the server does not let this call in (status {status}): {how}"
    if status == 404:
        return "there is no MCP server at this URL (status 404)"
    if 200 <= status < 300:
        return wrong_type(reply.body.content_type)
    said = ""
    with contextlib.suppress(NotAMessage):
        match messages_in(body)[0]:
            case {"error": {"message": str(text)}}:
                said = f": {text[:200]}"
    return f"the server answered with status {status}{said}"


def wrong_type(content_type: str) -> str:
    shown = content_type[:80] or "nothing"
    return f"the server answered with {shown!r}, which is neither JSON nor a stream of events"
