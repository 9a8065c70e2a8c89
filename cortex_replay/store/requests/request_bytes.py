"""The bytes of stored requests as a file has them that holds its request whole. **Unchecked**: to look for
something in all of them fast, never to be shown.

No text of JSON holds a line feed that is not escaped. So the layout alone, as this project writes it, tells
where the messages of a request begin and end, and those of a conversation that is stored once can be put
behind one another without parsing any.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.store.fixture import FixtureKey
from cortex_replay.store.fixture_json import render_document
from cortex_replay.types import LlmRequest

__all__ = ["REQUEST_START", "WholeRequests", "render_request", "request_bytes"]

REQUEST_START: Final = b'\n  "request": {'
"""What the bytes of every request begin with."""
_END: Final = re.compile(rb"\n  \},\n")
"""A pattern: in a long text, it is found in a third of the time that ``bytes.find`` takes."""
_CONTINUES: Final = REQUEST_START + b'\n    "continues": "'
_PARTS: Final = b'\n    "parts": {'
_OBJECT_END: Final = b"\n    }"
_MESSAGES: Final = b'\n    "messages": ['
_MESSAGES_END: Final = b"\n    ]"
_DIGITS: Final = 64


def request_bytes(data: bytes) -> bytes | None:
    """The request in a file, as it stands there; ``None`` if there is none."""
    start = data.find(REQUEST_START)
    if start >= 0 and (end := _END.search(data, start)):
        return data[start : end.start()]
    if b'"request"' not in data:
        return None
    try:  # a file in another layout
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    request = document.get("request") if isinstance(document, dict) else None
    if isinstance(request, dict) and "continues" in request:
        request = {"continues": request["continues"], **request}
    return None if request is None else render_request(request)


def render_request(request: JsonValue) -> bytes:
    """A request as it stands in a file."""
    return request_bytes(render_document({"request_match": {}, "request": request, "response": 0})) or b""


class _Piece(NamedTuple):
    """What one file has of a request: its messages, and what stands around all of them if it begins there."""

    continues: str | None
    head: bytes
    messages: bytes
    tail: bytes


class WholeRequests:
    """Puts the bytes of requests together. A class to read each file once that others continue."""

    def __init__(
        self, find: Callable[[FixtureKey], bytes | None], find_part: Callable[[str], bytes | None]
    ) -> None:
        """Know where to look.

        Args:
            find: The file of a key that others may continue, if it can be read.
            find_part: The file of a part, likewise.
        """
        self._find = find
        self._find_part = find_part
        self._pieces: dict[FixtureKey, _Piece | None] = {}
        self._parts: dict[str, JsonValue] = {}

    def bytes_of(self, model: str, prompt_hash: str, data: bytes) -> bytes | None:
        """The whole request of a file; ``None`` if it has none, or if what it continues is not there."""
        start = data.find(REQUEST_START)
        if start >= 0 and (found := _END.search(data, start)):  # nearly all, in as few steps as possible
            end = found.start()
            if not data.startswith(_CONTINUES, start) and not data.endswith(_OBJECT_END, start, end):
                return data[start:end]
        written = request_bytes(data)
        if written is None or not written.startswith(_CONTINUES):
            return self._with_parts(written)
        key = FixtureKey(model, prompt_hash)
        piece = self._pieces[key] = _cut(written)
        messages: list[bytes] = []
        seen = {key}
        while piece is not None:
            messages.append(piece.messages)
            if piece.continues is None:
                body = b",".join(text for text in reversed(messages) if text)
                return piece.head + body + _MESSAGES_END + piece.tail
            parent = FixtureKey(key.model, piece.continues)
            if parent in seen:
                return None
            seen.add(parent)
            piece = self._piece(parent)
        return None

    def _piece(self, key: FixtureKey) -> _Piece | None:
        if key not in self._pieces:
            data = self._find(key)
            written = None if data is None else self._with_parts(request_bytes(data))
            self._pieces[key] = None if written is None else _cut(written)
        return self._pieces[key]

    def _with_parts(self, written: bytes | None) -> bytes | None:
        """A request with what it names instead of having it."""
        # They stand last, and to look through all of a request for them takes longer than to read it.
        if written is None or not written.endswith(_OBJECT_END) or _PARTS not in written:
            return written
        try:
            request: Any = orjson.loads(b"{%b\n}}" % written)["request"]
            shared = {name: self._part(digest)[name] for name, digest in request.pop("parts").items()}
            return render_request(LlmRequest.from_dict({"model": "", **request, **shared}).to_dict())
        except (orjson.JSONDecodeError, InvalidRequest, AttributeError, KeyError, TypeError):
            return None

    def _part(self, digest: str) -> Any:
        if digest not in self._parts:
            self._parts[digest] = orjson.loads(self._find_part(digest) or b"{}")
        return self._parts[digest]


def _cut(written: bytes) -> _Piece | None:
    """A request, cut where its messages begin and end."""
    start = written.find(_MESSAGES)
    if start < 0:
        return None
    start += len(_MESSAGES)
    end = start if written.startswith(b"]", start) else written.find(_MESSAGES_END, start)
    if end < 0:
        return None
    tail = written[end:].removeprefix(b"]").removeprefix(_MESSAGES_END)
    if not written.startswith(_CONTINUES):
        return _Piece(None, written[:start], written[start:end], tail)
    parent = written[len(_CONTINUES) :][:_DIGITS]
    return _Piece(parent.decode("ascii", "replace"), b"", written[start:end], b"")
