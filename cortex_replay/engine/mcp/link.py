"""The two sides of a session, whatever carries them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, Protocol

from cortex_replay.errors import LlmError
from cortex_replay.mcp.messages import RequestId

__all__ = ["Connect", "Outgoing", "Said", "SendToClient", "ServerLink", "words_of"]


class Said(NamedTuple):
    """A frame of a server."""

    frame: bytes
    """Without a line end."""
    about: RequestId | None = None
    """The client's request that it belongs to, where the transport tells."""
    problem: str = ""
    """Why that request gets no answer, though others may; there is no frame then."""


class Outgoing(NamedTuple):
    """A frame for a client."""

    frame: bytes
    """Without a line end."""
    about: RequestId | None = None
    """The client's request that it belongs to; ``None`` for what belongs to none, or comes behind its end."""
    is_end: bool = False
    """Whether it answers that request."""
    closes: bool = False
    """Whether the connection ends behind it, perhaps in the middle of a frame."""


SendToClient = Callable[[Outgoing], Awaitable[None]]


class ServerLink(Protocol):
    """A connection to a real server."""

    async def send(self, frame: bytes) -> None:
        """Give the server a frame of the client.

        Raises:
            Transport: It does not get it. Others may follow, as long as :meth:`frames` has not ended.
        """

    def frames(self) -> AsyncIterator[Said]:
        """What the server says, until it ends.

        Raises:
            Transport: It broke off.
        """

    async def close(self) -> None:
        """End the connection, and the server if it is ours."""


Connect = Callable[[], Awaitable[ServerLink]]
"""Starts or reaches a server.

Raises:
    Transport: It cannot be had; the message says why.
"""


def words_of(error: LlmError | OSError) -> str:
    """What went wrong, for a reader who knows that a server was asked."""
    return str(error).removeprefix("transport: ")
