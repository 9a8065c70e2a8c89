"""Patterns of users run with a limit, and mean what they always meant.

What a pattern matches is part of every key: an engine that stops in time is worth nothing if it finds
something else. So the two engines are held against each other, on patterns and texts made at random.
"""

from __future__ import annotations

import asyncio
import random
import re
import signal
import subprocess
import sys
import unicodedata
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex_replay import expressions
from cortex_replay.config import Normaliser
from cortex_replay.config.key_rules import KeyRules
from cortex_replay.errors import InvalidRequest
from cortex_replay.expressions import Expression, PatternError
from cortex_replay.redact.redactor import Redactor
from cortex_replay.testing.rules import When
from cortex_replay.testing.scripted import ScriptedAdapter
from cortex_replay.types import LlmRequest
from tests.sampling import IS_TORTURE

HOSTILE = [
    (r"(a+)+$", "a" * 50_000 + "b"),
    (r"(x|x)*y", "x" * 50_000),
    (r"(\w+\s?)*$", "word " * 10_000 + "!"),
    (r"(a|aa)+$", "a" * 50_000 + "b"),
    (r"(.*)*z", "q" * 50_000),
    (r"\d+\d+\d+\d+z", "1" * 50_000),
    (r"(?:\w+é?)+$", "é" * 50_000 + "!"),
    (r"(?i)(?:k+s?)+$", "K" * 50_000 + "!"),
    (r"(.+)\1+\1+z", "ab" * 25_000),
    (r"(?=(a+)+b)c", "a" * 50_000),
    (r"(?:(?:a?){30}){30}b", "a" * 5000),
]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "SECONDS", 0.1)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("pattern", "text"), HOSTILE)
def test_no_pattern_takes_long(pattern: str, text: str) -> None:
    """It answers, or is stopped with an error that names its setting; and is not tried again."""
    expression = Expression(pattern, "normalisers.slow")
    error = None
    try:
        expression.sub(lambda _: "", text)
    except InvalidRequest as caught:
        error = caught
    if error is not None:
        assert error.field == "normalisers.slow"
        assert "took more than" in error.reason
        with pytest.raises(InvalidRequest):
            expression.search("anything")


def messages_of(text: str) -> LlmRequest:
    return LlmRequest("m", messages=text)


@pytest.mark.usefixtures("short")
def test_every_place_that_takes_a_pattern() -> None:
    """Normalisers, patterns of secrets in the key and in the store, and rules of a script."""
    pattern, text = HOSTILE[0]
    with pytest.raises(InvalidRequest, match=r"normalisers\.slow"):
        KeyRules({"slow": Normaliser("(a+)+#", "<x>")}).apply(messages_of(text))
    with pytest.raises(InvalidRequest, match=r"redaction\.extra_patterns\.slow"):
        KeyRules({}, {"slow": pattern}).apply(messages_of(text))
    with pytest.raises(InvalidRequest, match=r"redaction\.extra_patterns\.slow"):
        Redactor([], {"slow": pattern}).text(text)
    script = ScriptedAdapter([{"when": When(matches=pattern), "say": "x"}])
    with pytest.raises(InvalidRequest, match="matches"):
        asyncio.run(script.complete(messages_of(text)))


@pytest.mark.skipif(not IS_TORTURE, reason="waits for the limit as it is: make torture")
def test_a_command_ends(tmp_path: Path) -> None:
    """With the limit as it is, in a process of its own: no key is made, and the setting is named."""
    (tmp_path / "cortex-replay.toml").write_text("normalisers.slow = '(a+)+#'\nprovider = 'echo'\n")
    result = subprocess.run(
        [sys.executable, "-m", "cortex_replay", "record", "--model", "m", "--prompt", "a" * 50_000],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert result.returncode == 2, result.stderr
    assert "normalisers.slow: its pattern took more than" in result.stderr
    assert not list(tmp_path.rglob("*.json"))


ATOMS = [
    *("a", "b", "1", "_", " ", ".", "^", "$", "é", "½", "ß", "k", "s", "i", "{", "{e<=1}", "\\{1}"),
    *(r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\b", r"\B", r"\A", r"\Z", r"\x1c", r"\u0301"),
    *("[ab]", "[^a]", r"[\w-]", r"[^\W1]", r"[\Wa]", r"[^\D\S]", "[a-z]", "[A-K]", "[À-ÿ]", r"[^\s]", "(?!)"),
]
COUNTS = ["*", "+", "?", "{1,2}", "{2}", "{,2}", "*?", "+?", "??", "{0,3}?", "*+", "++", "?+", "{1,2}+"]
LETTERS = "ab1_ -\n{½é\u0301ßſKkK" + "SsÉ²\x1c\xa0٣İiı"


class Patterns:
    """Makes patterns that nobody would write."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._groups = 0

    def one(self) -> str:
        self._groups = 0
        flags = ["", "", "(?i)", "(?m)", "(?s)", "(?a)", "(?ai)", "(?im)", "(?x)"]
        return self.random.choice(flags) + self._part(4)

    def text(self) -> str:
        letters = LETTERS if self.random.random() < 0.7 else "ab1_ \n{\x1c"
        return "".join(self.random.choices(letters, k=self.random.randint(0, 12)))

    def _part(self, depth: int) -> str:
        pick = self.random.random()
        if depth == 0 or pick < 0.45:
            return self.random.choice(ATOMS)
        part, other = self._part(depth - 1), self._part(depth - 1)
        if pick < 0.6:
            return part + other
        if pick < 0.7:
            return f"(?:{part}|{other})"
        if pick < 0.88:
            return f"(?:{part}){self.random.choice(COUNTS)}"
        if pick < 0.93:
            self._groups += 1
            inner = "a" if other.startswith("(") else other
            return f"({inner})" + self.random.choice(["", rf"\{self._groups}"])
        if pick < 0.98:
            return self.random.choice(["(?=", "(?!", "(?<=", "(?<!"]) + part + ")"
        return self.random.choice(["(?i:", "(?s:", "(?m:", "(?>", "(?-i:", "(?x: "]) + part + ")"


def of_python(pattern: str) -> re.Pattern[str] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return re.compile(pattern)
        except (re.error, Warning):
            return None


@pytest.mark.parametrize("seed", range(300 if IS_TORTURE else 2))
def test_a_pattern_means_what_it_means_to_python(seed: int) -> None:
    """The same matches and the same text instead, or the pattern is refused."""
    made, compared = Patterns(seed), 0
    for _ in range(1000):
        pattern = made.one()
        theirs = of_python(pattern)
        try:
            ours = Expression(pattern, "")
        except PatternError:
            continue
        assert theirs is not None, f"{pattern!r} is nothing to Python"
        assert (ours.groups, ours.names) == (theirs.groups, dict(theirs.groupindex))
        for text in (made.text(), made.text(), made.text()):
            with in_time() as is_over:
                wanted = [match.span() for match in theirs.finditer(text)], theirs.sub(mark, text)
            if is_over:
                continue
            found = [match.span() for match in ours.finditer(text)], ours.sub(mark, text)
            assert found == wanted, (pattern, text)
            compared += 1
    assert compared > 2000


def mark(match: object) -> str:
    return f"<{match[0]}>"  # type: ignore[index]


class in_time:  # noqa: N801 - reads as what it does
    """Gives up after a second what Python's own engine does not."""

    def __enter__(self) -> list[bool]:
        self._over: list[bool] = []
        signal.signal(signal.SIGALRM, self._stop)
        signal.setitimer(signal.ITIMER_REAL, 1)
        return self._over

    def _stop(self, *_: object) -> None:
        raise TimeoutError

    def __exit__(self, kind: object, *_: object) -> bool:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if kind is TimeoutError:
            self._over.append(True)
        return kind is TimeoutError


def characters() -> Iterator[str]:
    """All that this Python knows."""
    for code in range(0x20000 if IS_TORTURE else 0x3000):
        if unicodedata.category(chr(code)) not in ("Cn", "Cs"):
            yield chr(code)


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\b.", r"\B.", r"(?a)\w", r"(?a)\s", r"(?a)\b."),
        *("(?i)[a-z]", "(?i)[^a-z]", "(?i)[A-K]", "(?i)[À-ÿ]", "(?i)[α-ω]", "(?i)[Ā-ſ]", "(?ai)[k-s]"),
        "(?i)ſ",
        *("(?i)i", "(?i)ı", "(?i)İ", "(?i)k", "(?i)ß", "(?i)σ", "(?i)[^İ]", r"(?i)[\Wß]", "(?i)µ", "(?i)ǆ"),
    ],
)
def test_every_character(pattern: str) -> None:
    """Is in the class that it is in to Python: marks, fractions, letters with three cases."""
    theirs, ours = re.compile(pattern), Expression(pattern, "")
    text = "".join(characters())

    assert [m.span() for m in ours.finditer(text)] == [m.span() for m in theirs.finditer(text)]


HONEST = [
    r"\d{4}-\d\d-\d\d",
    r"(?<=run )[0-9a-f]{8}\b",
    r"CUST-\d{6}",
    r"[\w.+-]+@[\w-]+\.[\w.]+",
    r"\b(?:foo|bar|quick)\b",
    r"(?i)größe \d+",
    r"(?P<a>x)(?P=a)+",
    r"(?x) a  b # and so on",
    r"^\s*Date: .*$",
    r"(?m)^\s*Date: .*$",
    r'"id":\s*"[^"]*"',
    r"(?<![\w-])[0-9a-f]{32}(?![\w-])",
]


@pytest.mark.parametrize("pattern", HONEST)
def test_what_people_write(pattern: str) -> None:
    """Finds the same as ever in a long text, within its limit."""
    line = 'run 3f9ac41b of 2026-10-17: CUST-004711, a.b@c.de quick Größe 12 xx ab "id": "1"\n Date: now\n'
    text = line * 1000
    found = [match.span() for match in Expression(pattern, "").finditer(text)]

    assert found == [match.span() for match in re.finditer(pattern, text)]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing"),
        ("(?<=a+)b", "look-behind requires fixed-width"),
        ("[[a]", "nested set"),
        (r"\p{L}", "bad escape"),
        ("(?R)", "unknown extension"),
        (r"(?i)(a)\1", "cannot be run with a limit"),
        (r"(?a:\w)", r"put \(\?a\) at its start"),
        ("(?L)a", "bad inline flags"),
        ("a{30000}", "too large"),
        ("(" * 90 + "a" + ")" * 90, "nested too deeply"),
    ],
)
def test_what_is_refused(pattern: str, reason: str) -> None:
    """When the configuration is read, not when it is used."""
    with pytest.raises(PatternError, match=reason):
        Expression(pattern, "")
