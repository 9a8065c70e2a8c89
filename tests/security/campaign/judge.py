"""Looks for planted secrets in bytes, by other means than the redactor: none of its code is used here.

Every twelve characters of a secret, as they are, in hex and in base64 at each alignment, are put into one
table. All bytes are then compared with the table: as they are, with escapes undone, and with the strings
of each JSON document joined along lists and events.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from tests.security.campaign.plant import Planted
from tests.security.secret_kinds import KINDS

__all__ = ["Judge", "Leak"]

WIDTH: Final = 12
STEP: Final = 3
"""Of the places looked at: fourteen characters in a row are never missed."""
_ESCAPE: Final = re.compile(rb"\\+(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\"'/bfnrt])")
_CONTROLS: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_DATA: Final = re.compile(rb"^(?:data: ?)?(\{.*\}|\[.*\]|\".*\")\r?$", re.MULTILINE)


@dataclass(frozen=True)
class Leak:
    """A planted secret that was written."""

    planted: Planted
    where: str
    how: str

    def __str__(self) -> str:
        return f"{self.planted}: in {self.where} ({self.how})"


class Judge:
    """Knows what was planted."""

    def __init__(self, planted: Iterable[Planted]) -> None:
        self._windows: dict[bytes, tuple[Planted, str]] = {}
        constant: dict[str, set[bytes]] = {}
        for one in planted:
            if one.kind not in constant:
                constant[one.kind] = _constant_windows(one.kind)
            for form, text in _forms(one.value):
                for window in _windows(text):
                    if window not in constant[one.kind]:
                        self._windows[window] = one, form

    def leaks(self, sources: Iterable[tuple[str, bytes]]) -> list[Leak]:
        """Every planted secret that stands somewhere, once for each place."""
        found: dict[tuple[str, str], Leak] = {}
        for where, data in sources:
            for view, text in _views(data):
                for one, form in self._found(text):
                    found.setdefault((one.tag, where), Leak(one, where, f"{view}, {form}"))
        return list(found.values())

    def _found(self, text: bytes) -> Iterator[tuple[Planted, str]]:
        windows = self._windows
        seen: set[str] = set()
        for at in range(0, len(text) - WIDTH + 1, STEP):
            hit = windows.get(text[at : at + WIDTH])
            if hit is not None and hit[0].tag not in seen:
                seen.add(hit[0].tag)
                yield hit


def _forms(value: str) -> Iterator[tuple[str, bytes]]:
    for line in value.splitlines():
        data = line.encode()
        yield "as it is", data
        yield "hex", data.hex().encode()
        yield "hex", data.hex().upper().encode()
    data = value.encode()
    for shift in range(3):
        whole = base64.b64encode(b"\0" * shift + data)
        inner = whole[4 if shift else 0 : len(whole) // 4 * 4 - 4]
        yield f"base64+{shift}", inner
        yield f"base64url+{shift}", inner.translate(bytes.maketrans(b"+/", b"-_"))


def _windows(text: bytes) -> Iterator[bytes]:
    return (text[at : at + WIDTH] for at in range(len(text) - WIDTH + 1))


def _constant_windows(kind: str) -> set[bytes]:
    """What secrets of a kind have in common is no secret: a prefix, the head of a JWT, a host."""
    counts: dict[bytes, int] = defaultdict(int)
    for seed in range(24):
        value = KINDS[kind](Random(f"constant/{kind}/{seed}"))
        for window in {window for _, text in _forms(value) for window in _windows(text)}:
            counts[window] += 1
    return {window for window, count in counts.items() if count > 1}


def _views(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The bytes in every reading that differs from those before."""
    seen = {data}
    yield "raw", data
    readings = {"unescaped": _unescaped(data)}
    readings["unescaped twice"] = _unescaped(readings["unescaped"])
    readings["unquoted"] = unquote_to_bytes(readings["unescaped"])
    readings["unquoted twice"] = unquote_to_bytes(readings["unquoted"])
    readings["unquoted and unescaped"] = _unescaped(readings["unquoted"])
    readings["as HTML"] = html.unescape(data.decode("latin-1")).encode("latin-1", "replace")
    readings["without line breaks"] = re.sub(rb"\s+", b"", readings["unescaped"])
    readings["joined"] = b"\n".join(_joined(data))
    readings["base64 opened"] = b"\n".join(_opened(data))
    for name, text in readings.items():
        if text not in seen:
            seen.add(text)
            yield name, text


def _unescaped(data: bytes) -> bytes:
    def plain(match: re.Match[bytes]) -> bytes:
        code = match[1]
        if code[:1] in (b"u", b"x") and len(code) > 1:
            return chr(int(code[1:], 16)).encode("utf-8", "surrogatepass")
        return _CONTROLS.get(code, code)

    return _ESCAPE.sub(plain, data) if b"\\" in data else data


_RUN: Final = re.compile(rb"[A-Za-z0-9+/_-]{24,}={0,2}")


def _opened(data: bytes) -> Iterator[bytes]:
    """What base64 holds: bodies that are no text are stored so."""
    for run in _RUN.findall(data):
        text = run.rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
        text = text[: len(text) // 4 * 4]
        if text:
            opened = base64.b64decode(text)
            yield opened
            yield unquote_to_bytes(_unescaped(opened))


def _joined(data: bytes) -> Iterator[bytes]:
    """The strings of JSON documents, joined where they stand at the same place of neighbouring entries."""
    documents = _document(data)
    for document in documents:
        places: dict[str, list[str]] = defaultdict(list)
        _collect(document, "", places, 0)
        for texts in places.values():
            if len(texts) > 1:
                whole = "".join(texts).encode("utf-8", "surrogatepass")
                yield whole
                if b"%" in whole or b"\\" in whole:
                    yield unquote_to_bytes(_unescaped(whole))
                # A stream inside of a document, in pieces.
                if b"{" in whole and b"\n" in whole:
                    yield from _lines_joined(whole)


def _document(data: bytes) -> list[Any]:
    try:
        return [json.loads(data)]
    except ValueError:
        pass
    found = []
    for match in _DATA.finditer(data):
        try:
            found.append(json.loads(match[1]))
        except ValueError:
            continue
    return [found, *found] if found else []


def _lines_joined(data: bytes) -> Iterator[bytes]:
    entries = []
    for match in _DATA.finditer(data):
        try:
            entries.append(json.loads(match[1]))
        except ValueError:
            continue
    places: dict[str, list[str]] = defaultdict(list)
    _collect(entries, "", places, 0)
    yield from ("".join(texts).encode("utf-8", "surrogatepass") for texts in places.values())


def _collect(value: Any, place: str, places: dict[str, list[str]], depth: int) -> None:
    if isinstance(value, str):
        places[place].append(value)
        if depth < 3 and value[:1] in "{[de" and ("{" in value or "[" in value):
            for document in _document(value.encode("utf-8", "surrogatepass")):
                _collect(document, f"{place}<json>", places, depth + 1)
    elif isinstance(value, list):
        for entry in value:
            _collect(entry, f"{place}[]", places, depth)
    elif isinstance(value, dict):
        for name, entry in value.items():
            _collect(entry, f"{place}.{name}", places, depth)
            places[f"{place}{{}}"].append(name)
