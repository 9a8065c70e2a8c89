"""The messages of a recorded WebSocket, as an exchange holds them.

Its request says what the client sent, in order; its ``wire`` is ``{status: 101, frames, subprotocol?,
close?}``. A frame is a message of the server, ``text`` or ``base64``, with the number of the client's
messages that it came ``after`` and its time. So a reader knows when to send it, whatever the messages mean.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Final, NamedTuple

from cortex_replay.canonical import JsonValue
from cortex_replay.store.fixture_json import FixtureError

__all__ = ["OPENED", "WEBSOCKET", "Close", "Frame", "check_frames", "close_in", "frames_in", "wire_of_frames"]

WEBSOCKET: Final = "WEBSOCKET"
"""What stands for the method of a request that opens one."""
OPENED: Final = 101
_CODES: Final = range(1000, 5000)


class Frame(NamedTuple):
    """A message of a server."""

    after: int
    """How many messages of the client came before it."""
    at_ms: int
    """When it came, from the opening."""
    message: str | bytes


class Close(NamedTuple):
    """How a server closed the connection."""

    after: int
    code: int
    reason: str = ""


def wire_of_frames(
    frames: Sequence[Frame], subprotocol: str | None = None, close: Close | None = None
) -> dict[str, JsonValue]:
    """Messages as they are stored."""
    listed: list[JsonValue] = [
        {
            "after": after,
            "at_ms": at_ms,
            **(
                {"text": message}
                if isinstance(message, str)
                else {"base64": base64.b64encode(message).decode()}
            ),
        }
        for after, at_ms, message in frames
    ]
    wire: dict[str, JsonValue] = {"status": OPENED, "headers": {}, "frames": listed}
    if subprotocol is not None:
        wire["subprotocol"] = subprotocol
    if close is not None:
        wire["close"] = dict(close._asdict())
    return wire


def frames_in(wire: dict[str, JsonValue]) -> list[Frame]:
    """The messages of a server.

    Raises:
        FixtureError: They are none.
    """
    listed = wire.get("frames")
    if not isinstance(listed, list):
        raise FixtureError("wire.frames: expected a list")
    frames: list[Frame] = []
    for number, item in enumerate(listed):
        where = f"wire.frames[{number}]"
        match item:
            case {"after": int(after), "at_ms": int(at_ms), "text": str(text), **others} if not others:
                message: str | bytes = text
            case {"after": int(after), "at_ms": int(at_ms), "base64": str(encoded), **others} if not others:
                message = _decode(encoded, where)
            case _:
                raise FixtureError(f"{where}: expected after, at_ms, and text or base64")
        _check_count(after, frames[-1].after if frames else 0, where)
        frames.append(Frame(after, at_ms, message))
    return frames


def close_in(wire: dict[str, JsonValue]) -> Close | None:
    """How the server closed the connection, if it did.

    Raises:
        FixtureError: That is not how one is closed.
    """
    match wire.get("close"):
        case None:
            return None
        case {"after": int(after), "code": int(code), "reason": str(reason), **others} if (
            not others and code in _CODES
        ):
            _check_count(after, 0, "wire.close")
            return Close(after, code, reason)
    raise FixtureError("wire.close: expected after, a code from 1000 to 4999, and a reason")


def check_frames(wire: dict[str, JsonValue], request: JsonValue) -> None:
    """See that a recorded WebSocket can be replayed.

    Raises:
        FixtureError: It cannot.
    """
    if wire.get("status") != OPENED:
        raise FixtureError(f"wire: expected status {OPENED} where there are frames")
    if any(name in wire for name in ("body", "body_base64", "events")):
        raise FixtureError("wire: expected frames and no body")
    if not isinstance(wire.get("subprotocol", ""), str):
        raise FixtureError("wire.subprotocol: expected text")
    sent = request.get("body") if isinstance(request, dict) else None
    if not isinstance(sent, list) or not isinstance(request, dict) or request.get("method") != WEBSOCKET:
        raise FixtureError(f"request: expected the method {WEBSOCKET}, and a list of messages as its body")
    frames, close = frames_in(wire), close_in(wire)
    last = max([*(frame.after for frame in frames[-1:]), *([close.after] if close else []), 0])
    if last > len(sent):
        raise FixtureError("wire: it waits for more messages than the client sent")


def _check_count(after: int, least: int, where: str) -> None:
    if isinstance(after, bool) or after < least:
        raise FixtureError(f"{where}: expected a count that does not go back")


def _decode(encoded: str, where: str) -> bytes:
    try:
        return binascii.a2b_base64(encoded, strict_mode=True)
    except ValueError:
        raise FixtureError(f"{where}: expected base64") from None
