"""Many values are found in a text as if they were looked for one by one."""

from __future__ import annotations

import random
import string

import pytest

from cortex_replay.redact.needles import Needles
from cortex_replay.redact.redactor import Redactor

DICE = random.Random(24)
ALPHABET = string.ascii_letters + string.digits + "+/=_-.:;%"


def value(length: int) -> str:
    return "".join(DICE.choices(ALPHABET, k=length))


VALUES = [value(DICE.randrange(20, 60)) for _ in range(40)]
AWKWARD = [
    "with a blank in the middle of it",
    'with"a"quote"in"the"middle"of"it',
    "short-one",
    "tab\tin a value of mine",
]
PROSE = "It is what they said of the many words that would be there, and of none. " * 20


@pytest.mark.parametrize("wanted", [VALUES[:3], VALUES, [*VALUES, *AWKWARD]], ids=["few", "many", "awkward"])
@pytest.mark.parametrize("around", ["", " ", '"', "\n", "x", "\u00a0", "é", "\\"])
def test_each_value_is_found_wherever_it_stands(wanted: list[str], around: str) -> None:
    texts = Needles(wanted, " ", '"')
    data = Needles([one.encode() for one in wanted], b" ", b'"')
    for one in wanted:
        text = f"{PROSE}{around}{one}{around}{PROSE}"
        expected = [other for other in wanted if other in text]

        assert sorted(texts.found_in(text)) == sorted(expected)
        assert data.any_in(text.encode())
        assert one in expected


def test_nothing_is_found_where_nothing_stands() -> None:
    texts = Needles([*VALUES, *AWKWARD], " ", '"')

    assert not texts.any_in(PROSE)
    assert not texts.any_in(f"{PROSE}{VALUES[0][1:]}")
    assert not texts.any_in("")
    assert not Needles([], " ", '"').any_in(PROSE)


def test_a_value_of_many_is_cut_out_in_every_encoding() -> None:
    redactor = Redactor(VALUES)
    one = VALUES[17]
    said = [one, one.encode().hex(), "".join(f"%{byte:02X}" for byte in one.encode())]

    for text in said:
        clean, hits = redactor.document({"text": f"{PROSE}{text} {PROSE}"})

        assert hits
        assert isinstance(clean, dict)
        assert text not in str(clean["text"])
        assert redactor.left_in({"text": f"{PROSE}{text}"})
