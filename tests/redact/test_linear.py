"""Twice the text takes about twice the time, however the text was chosen."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from cortex_replay.redact.patterns import PATTERNS, SHORT_PATTERNS, Pattern
from cortex_replay.redact.redactor import Redactor
from tests.growth import costs_at_most, grows_linearly

SIZE = 8_000
KNOWN = "s3cr3t\\Value%of the+Process"
REDACTOR = Redactor([KNOWN, "another-known-value-0815"], {"mine": r"mine_[a-z]{8}"})

SHAPES: dict[str, Callable[[str], str]] = {
    "the anchor again and again": lambda anchor: anchor,
    "with a few characters": lambda anchor: f"{anchor}aB3d",
    "with some that nearly suffice": lambda anchor: f" {anchor}{'aB3d9' * 3} ",
    "in a long run": lambda anchor: f"aB3d9-{anchor}",
}
HOSTILE = [
    *("\\", "%", "%25", "\\u00", "\\\\u0073", "\\\\\\", '\\"', "%5C", "%2525", "\\n", "%0", "+%20"),
    *("=", "a=", "key", "key=", "api_key=", 'password: "', "secret ", "token,", "aws_secret "),
    *("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\n", "-----", "-----END "),
    *("ey", "eyJ.", ".eyJ", ".eyJhbGciOiJI", ".eyJhbGciOiJI.abcdefgh", "aB3d9.eyJhbGciOiJI."),
    *("://", "://a:", "://a:b@", "://aaaaaaaa", "@", ":", "://:", "a:b@", "Bearer ", "Basic ", "Basic a"),
    *("A", "aB3d", "aB3d9-", "ab/", "AKIA", "AKIAAAAAAAAAAAAAAAAA ", "0", "0:A", "000000:A", "\n", "\r\n"),
    *("[REDACTED:", "[REDACTED:openai]", "[REDACTED:openai] sk-", "\0", "🙂", "é%", "mine_", "mine_abcdefgh"),
    *(KNOWN[:-1], KNOWN[:5], "s", "s\\", "s%33", KNOWN, "czNjcjN0X", "another-known-value-081"),
    *(
        "aGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8g",
        "aGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8g\n",
        "WVdKalpHVm1aMmhwYW10c2JXNXY=",
    ),
    *('{"a":"', "[", '{"a":', "data: {}\n", "x" * 60 + "\n", "MTIzNDU2Nzg5MDEyMzQ1Njc4.abcdef."),
]


def is_linear(run: Callable[[str], object], unit: str) -> bool:
    small = unit * (SIZE // len(unit))
    return grows_linearly(lambda: run(small), lambda: run(small + small))


@pytest.mark.parametrize("shape", SHAPES)
def test_no_rule_takes_more_than_linear_time(shape: str) -> None:
    """Each rule by itself, on texts made to lead it astray."""
    unit_of = SHAPES[shape]

    def run(rule: Pattern) -> Callable[[str], object]:
        return lambda text: list(rule.find(text))

    slow = [
        (rule.name, rule.anchor)
        for rule in (*PATTERNS.patterns, *SHORT_PATTERNS)
        if not is_linear(run(rule), unit_of(rule.anchor))
    ]
    assert slow == []


@pytest.mark.parametrize("unit", HOSTILE, ids=lambda unit: repr(unit[:24]))
def test_redaction_takes_linear_time(unit: str) -> None:
    """Everything together: views, known values, patterns, the places of what is left."""
    assert is_linear(REDACTOR.text, unit)
    assert is_linear(lambda text: REDACTOR.left_in({"a": text}), unit)


def test_the_check_notices_a_slow_expression() -> None:
    """One that tries every two places costs eight times as much for twice the text."""
    slow = re.compile("a*a*b")
    assert not is_linear(lambda text: slow.findall(text[: len(text) // 40]), "a")


def test_many_pieces_cost_what_the_text_costs() -> None:
    """A stream of a thousand deltas is not looked at a thousand times."""
    text = "The quick brown fox jumps over the lazy dog, and then some more of it. " * 300
    pieces = [text[i : i + 20] for i in range(0, len(text), 20)]
    assert len(pieces) > 1000

    assert costs_at_most(
        2,
        lambda: [REDACTOR.pieces(pieces) for _ in range(20)],
        lambda: [REDACTOR.text(text) for _ in range(20)],
    )
