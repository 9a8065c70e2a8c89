"""How like two requests are: the quick way against one that looks at every byte."""

from __future__ import annotations

import random
from heapq import nlargest

import pytest

from cortex_replay.misses.likeness import Ends, Lines

_WORDS = (b"you", b"are", b"terse", b"Oslo", b"and", b'\\"quoted\\"', b"a", b"long", b"report")


def text(dice: random.Random, count: int) -> bytes:
    return b" ".join(dice.choices(_WORDS, k=count))


def request(dice: random.Random) -> bytes:
    """Lines as a stored request has them: some are long."""
    return b"\n".join(b"  " + text(dice, dice.choice([1, 2, 3, 60, 200])) for _ in range(dice.randint(1, 9)))


def edited(written: bytes, dice: random.Random) -> bytes:
    """The same with some words more, fewer or other ones, lines more or less, or one that has little to do
    with it."""
    words = written.split(b" ")
    for _ in range(dice.randint(0, 4)):
        words[dice.randrange(len(words))] = dice.choice([b"", b"Bergen", b"Oslo or\n  Bergen", text(dice, 9)])
    if dice.random() < 0.2:
        words = words[dice.randrange(len(words)) :]
    return request(dice) if dice.random() < 0.2 else b" ".join(words)


def common(one: bytes, other: bytes, step: int) -> int:
    """How many bytes two begin with in common, in whole steps."""
    pairs = enumerate(zip(one, other, strict=False))
    differs = next((i for i, (left, right) in pairs if left != right), min(len(one), len(other)))
    return differs // step * step


def likeness_at_ends(written: bytes, other: bytes) -> float:
    """As the documentation of :class:`Ends` says it, byte by byte; for what is not very long."""
    step = len(written) // 512 + 1
    both = common(written, other, step) + common(written[::-1], other[::-1], step)
    least, most = sorted((len(written), len(other)))
    return (min(both, least) - 1e-3 * (most - least)) / (most or 1)


def likeness_of_lines(written: bytes, other: bytes) -> float:
    """As :class:`Lines` says it, with every line of both."""
    lines, others = written.split(b"\n"), other.split(b"\n")
    longest = nlargest(4, range(len(lines)), key=lambda i: len(lines[i]))
    longest = [i for i in longest if 10 * len(lines[i]) >= len(written)] or longest
    found = 0.0
    for i in longest:
        below = i - len(lines) + len(others)
        likely = [likeness_at_ends(lines[i], others[i]) if i < len(others) else 0.0]
        likely += [likeness_at_ends(lines[i], others[below])] if below >= 0 else []
        found += max(likely) * len(lines[i])
    return found / sum(len(lines[i]) for i in longest)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_as_if_every_byte_were_looked_at(seed: int) -> None:
    """Whatever was compared before: that is where the next one is looked at first."""
    dice = random.Random(seed)
    written = request(dice)
    ends, lines = Ends(written), Lines(written)
    for _ in range(40):
        other = edited(written, dice)
        assert ends.likeness(other) == pytest.approx(likeness_at_ends(written, other))
        assert lines.likeness(other) == pytest.approx(likeness_of_lines(written, other), abs=1e-9)


def test_the_same_is_most_like_it_and_nothing_is_least() -> None:
    written = request(random.Random(1))

    assert Ends(written).likeness(written) == 1
    assert Ends(written).likeness(b"") <= 0
    assert Ends(b"").likeness(b"") == 0
