"""Reading JSON as strictly as the store needs it.

The standard reader takes the last of two equal keys, ``NaN``, ``1e400``, lone surrogates and
UTF-16, and recurses without end. Here each of those is a :class:`JsonError`. Numbers follow the
reference: an integer beyond 64 bits is read as f64, and the text ``-0`` is the float.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import orjson

from cortex_replay.canonical import JsonValue

__all__ = ["MAX_DEPTH", "JsonError", "loads", "may_be_as_written"]

MAX_DEPTH: Final = 127
"""How many containers may be nested, as in serde_json."""

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_MOST_REWRITTEN: Final = 256 * 1024
"""Beyond this, a hostile document that only starts like ours could grow a hundredfold when written."""
_DEEP_INDENT = b"\n" + b"  " * 40
"""Deeper than what people write, and less deep than is allowed: such a document takes the longer road."""
_NEVER_DEEP: Final = 2 * MAX_DEPTH * (MAX_DEPTH - 1)
"""What the indents alone take of a document that is nested too deeply: two spaces for each level, where it
begins and where it ends."""


class JsonError(ValueError):
    """The text is not JSON that may be trusted; the message says why, without quoting it."""


def may_be_as_written(data: bytes) -> bool:
    """Whether a document starts like one that this project wrote, and can be written again at no great cost.

    If those bytes are equal, it is nested no deeper than is allowed.
    """
    if len(data) > _MOST_REWRITTEN or not data.startswith(b"{\n  "):
        return False
    return len(data) < _NEVER_DEEP or _DEEP_INDENT not in data


def loads(data: bytes) -> JsonValue:
    """Parse one JSON document.

    A document in the form this project writes is recognised by writing it again: if the bytes are
    equal, no key was dropped and no number was bent, which costs a tenth of looking at each key.

    Raises:
        JsonError: The document is malformed, ambiguous or nested too deeply.
    """
    if not may_be_as_written(data):
        return _loads_with_care(data)
    try:
        value: JsonValue = orjson.loads(data)
        pretty = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return _loads_with_care(data)  # which finds words for what is wrong
    return value if data in (pretty, pretty[:-1]) else _loads_with_care(data)


def _loads_with_care(data: bytes) -> JsonValue:
    if data.startswith(b"\xef\xbb\xbf"):
        raise JsonError("starts with a byte order mark")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError(f"not UTF-8 at byte {error.start}") from None
    _refuse_deep_nesting(data)
    try:
        value: JsonValue = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise JsonError(f"{error.msg} at line {error.lineno} column {error.colno}") from None
    if _SURROGATE_ESCAPE.search(data):
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise JsonError("a string holds half of a surrogate pair") from None
    return value


def _refuse_deep_nesting(data: bytes) -> None:
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(data):
        token = match[0]
        if token in (b"[", b"{"):
            depth += 1
            if depth > MAX_DEPTH:
                raise JsonError(f"nested deeper than {MAX_DEPTH} levels at byte {match.start()}")
        elif token in (b"]", b"}"):
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise JsonError("a key stands twice in one object")
    return value


def _integer(text: str) -> int | float:
    if text == "-0":
        return -0.0
    if len(text) <= 20:
        value = int(text)
        if -(2**63) <= value < 2**64:
            return value
    return _float(text)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise JsonError("a number is out of range")
    return value


def _constant(name: str) -> float:
    raise JsonError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
