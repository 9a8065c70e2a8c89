"""Bytes that are no text, as somebody would read them who looks for a secret.

A sound file says nothing, but other bytes do: text in another code, and streams that frame each event in
bytes of their own, with JSON in it or base64 of JSON.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from cortex_replay.canonical import JsonValue

__all__ = ["readings_of"]

_DECODER: Final = json.JSONDecoder()
_MOST_READ: Final = 4
"""How often each character may be read, on average: what begins like JSON need not end like it."""
_LONGEST_EVENT: Final = 64 * 1024
# Few other bytes look like these, and what is read takes time.
_UTF8: Final = re.compile(rb"(?:[\t\n\r -~]|[\xc2-\xf4][\x80-\xbf]{1,3}+){8,}+")
_UTF16: Final = re.compile(rb"(?:[\t\n\r -~]\0){8,}+|(?:\0[\t\n\r -~]){8,}+")


def readings_of(data: bytes) -> dict[str, JsonValue]:
    """What bytes say, by the way to read them."""
    read: dict[str, JsonValue] = {"as latin-1": data.decode("latin-1")}
    if texts := [text for text in _UTF8.findall(data) if not text.isascii()]:
        read["as UTF-8"] = b"\n".join(texts).decode("utf-8", "replace")
    if texts := _UTF16.findall(data):
        read["as UTF-16"] = b"\n".join(texts).replace(b"\0", b"").decode("latin-1")
    documents = list(_documents(data.decode("utf-8", "replace")))
    if documents:
        read["as events"] = documents
        read["as encoded events"] = [inner for one in documents for inner in _base64_json(one)]
    return read


def _documents(text: str) -> Iterator[JsonValue]:
    """Every JSON object in a text."""
    left = _MOST_READ * len(text)
    start = text.find('{"')
    while start >= 0 and left > 0:
        window = text[start : start + _LONGEST_EVENT]
        try:
            document, size = _DECODER.raw_decode(window)
        except (RecursionError, ValueError):
            left -= len(window)
            size = 1
        else:
            yield document
        start = text.find('{"', start + size)


def _base64_json(document: Any) -> Iterator[JsonValue]:
    """The JSON that the strings of an event hold as base64."""
    for value in document.values():
        if isinstance(value, str):
            try:
                yield json.loads(binascii.a2b_base64(value))
            except (ValueError, RecursionError):
                continue
