"""Looks for planted secrets in bytes, by other means than the redactor: none of its code is used here.

Every twelve characters of a secret in a row, and as much of it in hex and in base64 at each alignment, go
into tables. All bytes are then compared with these: as they are, with escapes undone, and with the strings
of each JSON document joined along lists and events.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from tests.redact.kinds import KINDS
from tests.security.campaign.plant import Planted

__all__ = ["Judge", "Leak"]

STEP: Final = 3
"""Of the places looked at: two characters more than a window are never missed."""
_HOST: Final = re.compile(r"^https://[^/@]+/")
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


@dataclass(frozen=True)
class _Form:
    """A way to write a secret, and how much of it in a row gives it away."""

    name: str
    width: int
    common: int
    """So many characters that others have as well are no secret: a prefix, the head of a JWT, a host."""
    runs: re.Pattern[bytes] | None
    """Where it can stand at all; ``None`` for anywhere."""

    def windows(self, value: str) -> Iterator[bytes]:
        """Every part of a secret that gives it away."""
        for text in _written(self.name, value):
            common = _common_grams(self.name)
            shared = [at for at, gram in _grams(text, self.common) if gram in common]
            passed = {one - back for one in shared for back in range(self.width - self.common + 1)}
            yield from (window for at, window in _grams(text, self.width) if at not in passed)

    def parts(self, data: bytes) -> Iterator[bytes]:
        """Where to look for it."""
        return iter([data]) if self.runs is None else (match[0] for match in self.runs.finditer(data))


_FORMS: Final = (
    _Form("as it is", 12, 7, None),
    _Form("base64", 16, 10, re.compile(rb"[A-Za-z0-9+/_-]{16,}")),
    _Form("hex", 24, 14, re.compile(rb"[0-9a-fA-F]{24,}")),
)


class Judge:
    """Knows what was planted."""

    def __init__(self, planted: Iterable[Planted]) -> None:
        self._windows: dict[str, dict[bytes, Planted]] = {form.name: {} for form in _FORMS}
        for one in planted:
            for form in _FORMS:
                windows = dict.fromkeys(form.windows(one.value), one)
                assert windows or form.name != "as it is", f"nothing of {one} could be recognised"
                self._windows[form.name] |= windows

    def leaks(self, sources: Iterable[tuple[str, bytes]]) -> list[Leak]:
        """Every planted secret that stands somewhere, once for each place."""
        found: dict[tuple[str, str], Leak] = {}
        for where, data in sources:
            for view, text in _views(data):
                for form in _FORMS:
                    for one in self._found(form, text):
                        found.setdefault((one.tag, where), Leak(one, where, f"{view}, {form.name}"))
        return list(found.values())

    def _found(self, form: _Form, text: bytes) -> set[Planted]:
        windows, width = self._windows[form.name], form.width
        found = set()
        for part in form.parts(text):
            for at in range(0, len(part) - width + 1, STEP):
                one = windows.get(part[at : at + width])
                if one is not None:
                    found.add(one)
        return found


def _written(form: str, value: str) -> Iterator[bytes]:
    value = _HOST.sub("", value)  # the secret of a webhook is its path
    lines = [line for line in value.splitlines() if not line.startswith("-----")]
    if form == "base64":
        for shift in range(3):
            whole = base64.b64encode(b"\0" * shift + "\n".join(lines).encode())
            inner = whole[4 if shift else 0 :].rstrip(b"=")[:-1]
            yield inner
            yield inner.translate(bytes.maketrans(b"+/", b"-_"))
        return
    for line in lines:
        if form == "hex":
            yield line.encode().hex().encode()
            yield line.encode().hex().upper().encode()
        else:
            yield line.encode()


def _grams(text: bytes, width: int) -> Iterator[tuple[int, bytes]]:
    return ((at, text[at : at + width]) for at in range(len(text) - width + 1))


@cache
def _common_grams(form: str) -> frozenset[bytes]:
    """What a form makes of the texts that secrets share."""
    width = next(one.common for one in _FORMS if one.name == form)
    return frozenset(
        gram for text in _common_texts() for way in _written(form, text) for _, gram in _grams(way, width)
    )


@cache
def _common_texts() -> frozenset[str]:
    """The longest texts that secrets have in common which have nothing to do with each other."""
    width = _FORMS[0].common
    values = [
        make(Random(f"common/{kind}/{seed}")).whole for kind, make in KINDS.items() for seed in range(24)
    ]
    counts: Counter[bytes] = Counter()
    for value in values:
        counts.update({gram for _, gram in _grams(value.encode(), width)})
    texts = set()
    for value in values:
        data = value.encode()
        start = end = 0
        for at, gram in _grams(data, width):
            if counts[gram] > 1:
                if at > end:
                    texts.add(data[start:end])
                    start = at
                end = at + width
        texts.add(data[start:end])
    return frozenset(text.decode() for text in texts if text)


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
                # A stream inside a document, in pieces.
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
