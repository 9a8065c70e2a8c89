"""Messages of a client in the form in which they are compared.

A message is compared by value. What is new in every run and says nothing is left out of it: the id of an
event, and the ids that a client makes up for its items, which become ``<client-id-1>`` and so on. A server
repeats such ids, so they are put back into its messages when those are replayed. Audio is compared by the
BLAKE3 of its bytes.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable
from itertools import zip_longest
from typing import Final

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.hashing import blake3_hex
from cortex_replay.strict_json import JsonError, loads

__all__ = ["PREFIX", "ClientMessages", "equal"]

_IDS: Final = ("id", "item_id", "previous_item_id")
_EVENT_ID: Final = "event_id"
_MEDIA_TYPES: Final = ("mimeType", "mime_type")
PREFIX: Final = "prefix"
"""Marks the hash of audio of which somebody kept the first bytes alone."""


class ClientMessages:
    """Reads the messages of one connection, in order."""

    def __init__(self) -> None:
        self.count = 0
        self._names: dict[str, str] = {}
        """Of what the client made up."""
        self._audio: dict[str, bytes] = {}
        """Of the last message, by its hash."""

    def read(self, message: str | bytes) -> JsonValue:
        """A message as it is compared and stored."""
        self.count += 1
        self._audio.clear()
        if isinstance(message, bytes):
            return _hash_of(message)
        try:
            value = loads(message.encode("utf-8", "surrogatepass"))
        except JsonError:
            return message
        if not isinstance(value, dict):
            return value
        event_id = value.pop(_EVENT_ID, None)
        if isinstance(event_id, str):
            self._names[event_id] = f"<client-event-{self.count}>"
        item = value.get("item")
        own_id = item.get("id") if isinstance(item, dict) else None
        if isinstance(own_id, str) and own_id not in self._names:
            number = 1 + sum(name.startswith("<client-id-") for name in self._names.values())
            self._names[own_id] = f"<client-id-{number}>"
        return self._plain(value)

    def _plain(self, value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        if not isinstance(value, dict):
            return value
        is_media = any(name in value for name in _MEDIA_TYPES)
        plain: dict[str, JsonValue] = {}
        for name, item in value.items():
            if isinstance(item, str) and (name == "audio" or (name == "data" and is_media)):
                plain[name] = self._hash_of_base64(item)
            elif isinstance(item, str) and name in _IDS:
                plain[name] = self._names.get(item, item)
            else:
                plain[name] = self._plain(item)
        return plain

    def _hash_of_base64(self, encoded: str) -> JsonValue:
        try:
            data = binascii.a2b_base64(encoded, strict_mode=True)
        except ValueError:
            return encoded
        hashed = _hash_of(data)
        self._audio[str(hashed["blake3"])] = data
        return hashed

    def is_last(self, said: JsonValue, recorded: JsonValue) -> bool:
        """Whether the last message, as it was read, is a recorded one."""
        return equal(said, recorded) or equal(self._cut_like(recorded, said), recorded)

    def _cut_like(self, recorded: JsonValue, said: JsonValue) -> JsonValue:
        """A message with audio cut where somebody has cut the recorded one."""
        if isinstance(recorded, list) and isinstance(said, list):
            pairs = zip_longest(recorded[: len(said)], said)
            return [self._cut_like(one, other) for one, other in pairs]
        if not isinstance(recorded, dict) or not isinstance(said, dict):
            return said
        if recorded.get(PREFIX) is True and isinstance(size := recorded.get("bytes"), int):
            data = self._audio.get(str(said.get("blake3")))
            return said if data is None else {**_hash_of(data[:size]), PREFIX: True}
        return {name: self._cut_like(recorded.get(name), item) for name, item in said.items()}

    def hide(self, text: str) -> str:
        """A server's message as it is stored: without what the client made up."""
        return _replace(text, self._names.items())

    def show(self, text: str) -> str:
        """A stored message with what this client made up."""
        return _replace(text, ((name, value) for value, name in self._names.items()))


def _replace(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    for before, after in pairs:
        quoted = _quote(before)
        if quoted in text:
            text = text.replace(quoted, _quote(after))
    return text


def _quote(text: str) -> str:
    return orjson.dumps(text.encode("utf-8", "replace").decode()).decode()


def _hash_of(data: bytes) -> dict[str, JsonValue]:
    return {"blake3": blake3_hex(data), "bytes": len(data)}


def equal(one: JsonValue, other: JsonValue) -> bool:
    """Whether two messages have the same key."""
    return orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(other, option=orjson.OPT_SORT_KEYS)
