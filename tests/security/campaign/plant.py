"""What is planted: a secret of a kind, in an encoding, for one write path, beside a tag that is harmless."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Literal
from urllib.parse import quote

from tests.redact.kinds import KINDS

__all__ = ["ENCODINGS", "PATTERN_ENCODINGS", "SINGLE_LINE", "Class", "Planted", "Planter"]

Class = Literal["known", "pattern"]
Encode = Callable[[Random, str], str]

_BEFORE: Final = (b"", b" ", b"u ")
"""What stands before a secret in base64: as many bytes as its alignment, none of them part of a word."""


@dataclass(frozen=True)
class Planted:
    """One secret and where it goes."""

    path: str
    """The write path."""
    class_: Class
    kind: str
    encoding: str
    value: str
    written: str
    """The value in its encoding."""
    tag: str
    """Stands beside the secret: where the tag was written, the secret was cut out; where it was not, the
    recording was refused."""

    @property
    def text(self) -> str:
        return f"{self.tag} here: {self.written} and no more."

    @property
    def variable(self) -> str:
        """The variable of the environment that makes a value known."""
        return f"{self.tag.upper().replace('-', '_')}_API_KEY"

    def __str__(self) -> str:
        return f"{self.path} | {self.class_} | {self.kind} | {self.encoding} | {self.tag}"


def _shuffled(random: Random, value: str) -> str:
    letters = [char for char in value if char.isalnum() or char in "-_"]
    random.shuffle(letters)
    return "k" + "".join(letters[:200])


def _percent(random: Random, value: str) -> str:
    """As a browser writes it, every character, or some of them."""
    share = random.choice([0, 1, 0.4])
    return "".join(
        f"%{ord(char):02X}" if random.random() < share and char.isascii() else quote(char, safe="")
        for char in value
    )


def _escapes(random: Random, value: str) -> str:
    share = random.choice([1.0, 0.5])
    return "".join(f"\\u{ord(char):04x}" if random.random() < share else _in_json(char) for char in value)


def _in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _json_twice(_: Random, value: str) -> str:
    return json.dumps({"inner": json.dumps({"value": value})})


def _base64(alignment: int) -> Encode:
    def encode(_: Random, value: str) -> str:
        return base64.b64encode(_BEFORE[alignment] + value.encode() + b" .").decode()

    return encode


def _base64url(random: Random, value: str) -> str:
    made = base64.urlsafe_b64encode(random.choice(_BEFORE) + value.encode()).decode()
    return made.rstrip("=")


def _basic(_: Random, value: str) -> str:
    """The value of a Basic header: base64 of a name and the secret."""
    return "Basic " + base64.b64encode(f"jo:{value}".encode()).decode()


def _hex(random: Random, value: str) -> str:
    made = value.encode().hex()
    return random.choice([made, made.upper()])


PATTERN_ENCODINGS: Final[dict[str, Encode]] = {
    "plain": lambda _, value: value,
    "percent": _percent,
    "escapes": _escapes,
    "json-twice": _json_twice,
    "base64+0": _base64(0),
    "base64+1": _base64(1),
    "base64+2": _base64(2),
    "base64url": _base64url,
    "basic": _basic,
}
ENCODINGS: Final[dict[str, Encode]] = {**PATTERN_ENCODINGS, "hex": _hex}
"""For values that are known: docs/redaction.md promises hex for these alone."""

SINGLE_LINE: Final = tuple(kind for kind in KINDS if kind != "private-key")


class Planter:
    """Makes what is planted, from a seed. Kinds and encodings take turns, and go on from path to path.

    Args:
        seed: Another one gives other secrets.
        count: How many secrets of each class a write path gets.
    """

    def __init__(self, seed: str, count: int) -> None:
        self.planted: list[Planted] = []
        self.count = count
        self._seed = seed
        self._turn = Random(seed).randrange(10_000)

    def plant(
        self,
        path: str,
        *,
        count: int | None = None,
        classes: Sequence[Class] = ("known", "pattern"),
        kinds: Sequence[str] = SINGLE_LINE,
        encodings: Sequence[str] | None = None,
    ) -> Iterator[Planted]:
        """The secrets for one write path."""
        for class_ in classes:
            usual = ENCODINGS if class_ == "known" else PATTERN_ENCODINGS
            names = list(usual) if encodings is None else [name for name in encodings if name in usual]
            for _ in range(count or self.count):
                self._turn += 1
                # The second turns more slowly, so that in time each kind meets each encoding.
                kind = kinds[self._turn % len(kinds)]
                encoding = names[(self._turn + self._turn // len(kinds)) % len(names)]
                yield self._one(path, class_, kind, encoding)

    def _one(self, path: str, class_: Class, kind: str, encoding: str) -> Planted:
        number = len(self.planted)
        random = Random(f"{self._seed}/{path}/{class_}/{kind}/{encoding}/{number}")
        value = KINDS[kind](random).whole
        if class_ == "known" and number % 3:
            # Without its shape, no pattern finds it in place of the search for known values.
            kind, value = f"{kind}, shuffled", _shuffled(random, value)
        written = ENCODINGS[encoding](random, value)
        made = Planted(path, class_, kind, encoding, value, written, f"tag-{number:05}")
        self.planted.append(made)
        return made

    @property
    def known(self) -> dict[str, str]:
        """The environment that makes the known ones known."""
        return {one.variable: one.value for one in self.planted if one.class_ == "known"}
