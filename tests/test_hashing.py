from __future__ import annotations

import pytest

from cortex_replay.hashing import are_digests, blake3_hex, is_digest, keyed_hex

GOOD = blake3_hex(b"")
NO_DIGESTS = [
    "",
    GOOD[:-1],
    GOOD + "0",
    GOOD.upper(),
    GOOD[:-1] + "g",
    GOOD[:-1] + "\n",
    GOOD[:-1] + "\u0660",  # a digit, and none of ours
    GOOD[:-1] + "é",
]


def test_the_hash_is_blake3() -> None:
    """From the vectors that come with BLAKE3."""
    assert GOOD == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"


def test_a_key_makes_another_hash() -> None:
    made = {keyed_hex(bytes([n]) * 32, b"x") for n in range(3)} | {blake3_hex(b"x")}

    assert len(made) == 4
    assert all(map(is_digest, made))


@pytest.mark.parametrize("text", NO_DIGESTS)
def test_a_digest_has_one_spelling(text: str) -> None:
    assert is_digest(GOOD)
    assert not is_digest(text)
    assert not are_digests([GOOD, text, GOOD])


def test_many_digests_are_looked_at_as_one() -> None:
    assert are_digests([])
    assert are_digests([GOOD] * 3)
    assert not are_digests([GOOD[:-1], GOOD + "0"])  # together as long as two
