"""How a connection ends before its time."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final

__all__ = ["CLOSE", "HELD", "close_transport"]

CLOSE: Final = "cortex_replay.close"
"""Where a call's scope holds the way to close its connection."""
HELD: Final = "cortex_replay.held"
"""Is in the scope of a call that gets no answer, because it asked for none."""


def close_transport(transport: asyncio.Transport, *, is_hard: bool) -> None:
    """Close in the middle of an answer; hard, so that the client's system is told of a reset."""
    if is_hard:
        held = transport.get_extra_info("socket")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    else:
        transport.close()
