"""Recorded messages of WebSockets, as the suite of pydantic-ai keeps them beside its cassettes.

Such a file lists messages that were ``sent`` and ``received``, in order, and how a connection was closed. It
does not say where the connection led, so that is told from what was said first, and from the file's name.
Audio may be cut to its first bytes in it; then only these are compared.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from cortex_replay.canonical import JsonValue
from cortex_replay.cassettes.documents import CassetteError
from cortex_replay.engine.ws.messages import PREFIX, ClientMessages
from cortex_replay.store.frames import WEBSOCKET, Close, Frame, wire_of_frames

__all__ = ["CassetteSession", "sessions_in"]

_CUT_AUDIO: Final = 44
"""How many characters of base64 are left of audio that was cut."""
_GEMINI_PATH: Final = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"


class CassetteSession(NamedTuple):
    """One WebSocket of a file."""

    number: int
    """Of its first message in the file, from 1."""
    request: dict[str, JsonValue]
    """As an exchange has it."""
    wire: dict[str, JsonValue]

    @property
    def call(self) -> str:
        """What was called, for a person."""
        return f"{WEBSOCKET} {self.request['path']} of {self.request['upstream']}"


def sessions_in(document: Any, file: Path) -> list[CassetteSession] | None:
    """The WebSockets in a file; ``None`` if it is no such file.

    Raises:
        CassetteError: It is one, and cannot be read.
    """
    entries = document.get("interactions") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries or not all(_is_entry(entry) for entry in entries):
        return None
    return [_session(number, connection, file) for number, connection in _connections(entries)]


def _is_entry(entry: Any) -> bool:
    match entry:
        case {"kind": "message", "direction": "sent" | "received", "data": _}:
            return True
        case {"kind": "close", "code": int()}:
            return True
    return False


def _connections(entries: list[Any]) -> Iterator[tuple[int, list[Any]]]:
    """The entries of each connection: a new one begins behind a close."""
    start, open_ = 1, []
    for number, entry in enumerate(entries, 1):
        open_.append(entry)
        if entry["kind"] == "close":
            yield start, open_
            start, open_ = number + 1, []
    if open_:
        yield start, open_


def _session(number: int, entries: list[Any], file: Path) -> CassetteSession:
    messages, close = ClientMessages(), None
    sent: list[JsonValue] = []
    frames: list[Frame] = []
    for entry in entries:
        if entry["kind"] == "close":
            reason = entry.get("reason", "")
            close = Close(len(sent), entry["code"], reason if isinstance(reason, str) else "")
            continue
        try:
            text = json.dumps(entry["data"])
        except (TypeError, ValueError):
            raise CassetteError(f"message {number} is not JSON") from None
        if entry["direction"] == "sent":
            sent.append(_mark_cut_audio(entry["data"], messages.read(text)))
        else:
            frames.append(Frame(len(sent), 0, text))
    upstream, path, model = _place(entries, file)
    request: dict[str, JsonValue] = {
        "upstream": upstream,
        "method": WEBSOCKET,
        "path": path,
        "query": [["model", model]] if model else [],
        "body": sent,
    }
    return CassetteSession(number, request, wire_of_frames(frames, close=close))


def _mark_cut_audio(given: Any, plain: JsonValue) -> JsonValue:
    """A message whose audio is told by its first bytes, where there are no others."""
    if isinstance(given, dict) and isinstance(plain, dict):
        return {name: _mark_cut_audio(given.get(name), item) for name, item in plain.items()}
    if isinstance(given, list) and isinstance(plain, list):
        return [_mark_cut_audio(one, item) for one, item in zip(given, plain, strict=True)]
    if isinstance(given, str) and isinstance(plain, dict) and len(given) == _CUT_AUDIO and _is_whole(given):
        return {**plain, PREFIX: True}
    return plain


def _is_whole(encoded: str) -> bool:
    return len(base64.b64decode(encoded)) == _CUT_AUDIO // 4 * 3


class _Place(NamedTuple):
    """Whose API it was, its path there, and the model."""

    upstream: str
    path: str
    model: str = ""


def _place(entries: list[Any], file: Path) -> _Place:
    """Where a connection led, by what was said first."""
    name = "/".join(file.parts[-2:]).lower()
    first: dict[str, Any] = next(
        (entry["data"] for entry in entries if isinstance(entry.get("data"), dict)), {}
    )
    if isinstance(first.get("setup"), dict):
        return _Place("gemini", _GEMINI_PATH)
    session = first.get("session") if first.get("type") == "session.created" else None
    given = session.get("model") if isinstance(session, dict) else None
    model = given if isinstance(given, str) else ""
    if model.startswith("grok") or "xai" in name:
        return _Place("xai", "/v1/realtime", model)
    if "voice_live" in name:
        return _Place("azure", "/voice-live/realtime", model)
    if "azure" in name:
        return _Place("azure", "/openai/v1/realtime", model)
    return _Place("openai", "/v1/realtime", model)
