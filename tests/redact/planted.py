"""Secrets in the encodings in which they travel, planted in recordings. Everything comes from a seed."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from urllib.parse import quote, quote_plus

from tests.redact.kinds import ALNUM, HEX, Secret, some


@dataclass(frozen=True)
class Encoded:
    """A secret as it travels."""

    text: str
    units: tuple[str, ...]
    """How each of its characters is written there; for base64, the characters that hold it."""
    telling: int = 8
    """How many of them in a row give a part of it away."""
    is_split: bool = False


Spell = Callable[[str], str]


def _spelled(secret: Secret, spell: Spell) -> Encoded:
    units = tuple(map(spell, secret.text))
    around = ("".join(map(spell, text)) for text in (secret.before, secret.after))
    return Encoded("".join(units).join(around), units)


def plain(random: Random, secret: Secret) -> Encoded:
    return _spelled(secret, str)


def url(random: Random, secret: Secret) -> Encoded:
    """As a browser does it, every character, a mix of both, or escaped once more."""
    share = random.choice([0, 1, 0.4, 0.7])
    is_twice = share == 0.7

    def spell(character: str) -> str:
        if random.random() < share:
            code = "".join(f"%{byte:02x}" for byte in character.encode())
            code = code.upper() if random.random() < 0.5 else code
        else:
            code = quote(character, safe="")
        return quote(code, safe="") if is_twice else code

    return _spelled(secret, spell)


def in_base64(random: Random, secret: Secret) -> Encoded:
    """Inside something larger, at any alignment, in either alphabet, padded or not."""
    before = some(random, ALNUM, random.randrange(4)) + random.choice(["user:", '{"t": "', "\n", "k "])
    after = random.choice(["", "\n", '"}', " and so on, for a while"])
    data = (before + secret.whole + after).encode()
    text = base64.b64encode(data).decode()
    if random.random() < 0.5:
        text = text.translate(str.maketrans("+/", "-_"))
    if random.random() < 0.5:
        text = text.rstrip("=")
    first = len((before + secret.before).encode()) * 8
    last = first + len(secret.text.encode()) * 8
    return Encoded(text, tuple(text[-(-first // 6) : last // 6]), 10)


def json_twice(random: Random, secret: Secret) -> Encoded:
    text = json.dumps(json.dumps({"value": secret.whole, "note": 'she said "no"'}))
    return Encoded(text, tuple(json.dumps(json.dumps(c)[1:-1])[1:-1] for c in secret.text))


def unicode_escapes(random: Random, secret: Secret) -> Encoded:
    """All characters or some, behind one backslash or two."""
    backslash = random.choice(["\\", "\\\\"])
    share = random.choice([1.0, 0.5, 0.1])

    def spell(character: str) -> str:
        if random.random() >= share:
            return character
        code = character.encode("utf-16-be").hex()
        code = code.upper() if random.random() < 0.5 else code
        return "".join(f"{backslash}u{code[i : i + 4]}" for i in range(0, len(code), 4))

    return _spelled(secret, spell)


def split(random: Random, secret: Secret) -> Encoded:
    return Encoded(secret.whole, tuple(secret.text), is_split=True)


def query(random: Random, secret: Secret) -> Encoded:
    host = random.choice(["https://api.example.com/v1/items", "http://127.0.0.1:8080/hook"])
    encoded = _spelled(secret, quote_plus)
    return Encoded(f"{host}?page=2&q={encoded.text}&sort=asc", encoded.units)


ENCODINGS: Final[dict[str, Callable[[Random, Secret], Encoded]]] = {
    "plain": plain,
    "url": url,
    "base64": in_base64,
    "json-twice": json_twice,
    "unicode-escapes": unicode_escapes,
    "split": split,
    "query": query,
}

_PROSE: Final = [
    "Please look at this and tell me what is wrong: {} Thanks, and be brief.",
    "My configuration was\n\n```\n{}\n```\n\nand it failed at once.",
    "I found {} in the log of yesterday's run. What should I do next?",
    "{}",
    "> {}\n\nThat is what it printed. Nothing else was there.",
]
_PLACEHOLDER: Final = re.compile(r"\[REDACTED:[a-z0-9-]+\]")
_HEADERS: Final = (
    "POST /v1/messages HTTP/1.1\nhost: api.example.com\nx-request-id: req_01\nx-trace: {}\n"
    "content-type: application/json\ncontent-length: 812\n"
)


def fixture(random: Random, encoded: Encoded) -> dict[str, Any]:
    """A recording in which it stands somewhere: prompt, tool arguments, headers, answer, stream."""
    document: dict[str, Any] = {
        "request_match": {"model": "m", "prompt_hash": some(random, HEX, 64)},
        "request": {"system": "Be brief.", "messages": [{"role": "user", "content": "What is this?"}]},
        "response": {"text": "A short answer.", "usage": {"prompt_tokens": 12, "completion_tokens": 3}},
    }
    where = 4 if encoded.is_split else random.randrange(5)
    text = (_HEADERS if where == 2 else random.choice(_PROSE)).format(encoded.text)
    if where == 0:
        document["request"]["messages"][0]["content"] = text
    elif where == 1:
        arguments = {"command": "run", "input": text, "retries": 3}
        document["response"]["tool_calls"] = [{"id": "toolu_01", "name": "shell", "arguments": arguments}]
    elif where == 2:
        message = {"role": "tool", "content": text, "tool_call_id": "toolu_01"}
        document["request"]["messages"].append(message)
    elif where == 3:
        document["response"]["text"] = text
    else:
        document["response"]["text"] = text
        document["stream"] = [
            {"at_ms": 10 * i, "delta": piece} for i, piece in enumerate(pieces_of(random, text))
        ]
    return document


def pieces_of(random: Random, text: str) -> list[str]:
    """The text in pieces of a few characters, some of them empty."""
    pieces = []
    while text:
        size = random.randrange(7)
        pieces.append(text[:size])
        text = text[size:]
    return [*pieces, ""]


def texts_in(document: Any) -> list[str]:
    """The texts of a fixture as a reader sees them, the stream put together."""
    if isinstance(document, str):
        return [document]
    if isinstance(document, list):
        if document and isinstance(document[0], dict) and "delta" in document[0]:
            return ["".join(chunk["delta"] for chunk in document)]
        return [text for item in document for text in texts_in(item)]
    if isinstance(document, dict):
        return [text for item in document.values() for text in texts_in(item)]
    return []


def survives(encoded: Encoded, document: Any) -> bool:
    """Whether a part of the secret worth eight of its characters is still to be read somewhere.

    The name of a rule may be a prefix of its secrets, as ``rubygems`` is.
    """
    width = min(encoded.telling, len(encoded.units))
    windows = ["".join(encoded.units[i : i + width]) for i in range(len(encoded.units) - width + 1)]
    texts = [_PLACEHOLDER.sub("", text) for text in texts_in(document)]
    return any(window in text for text in texts for window in windows)
