"""What kind of value differs between two runs: one that a program made up, or one that says something.

A shape alone is not enough. ``5 seconds`` behind ``took`` is a measurement and behind ``timeout`` an
instruction; ``12`` behind ``pid`` is made up and behind ``total`` a result. What could be read either way is
a change, because a rule that hides a change is worse than a miss.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from cortex_replay.bindings.placeholders import CLOSE, OPEN, name_of
from cortex_replay.bindings.shapes import SHAPES

__all__ = ["Noise", "Place", "noise_of"]

_NEAR: Final = 40
_PATTERNS: Final = {name: re.compile(shape.between("", "")) for name, shape in SHAPES.items()}
_PLACEHOLDER: Final = re.compile(rf"{OPEN}([a-z][^{OPEN}{CLOSE}\s]*){CLOSE}")


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a line."""

    line: str
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.line[self.start : self.end]

    @property
    def before(self) -> str:
        """What stands right before it."""
        return self.line[max(0, self.start - _NEAR) : self.start]

    @property
    def after(self) -> str:
        return self.line[self.end : self.end + _NEAR]

    def placeholder(self) -> tuple[str, Place] | None:
        """The placeholder that this is a part of, and the name of its binding."""
        for match in _PLACEHOLDER.finditer(self.line):
            if match.start() <= self.start and self.end <= match.end() and self.end > match.start():
                return name_of(match[1]), Place(self.line, *match.span())
        return None

    def widen(self, name: str) -> Place | None:
        """The value of a shape that this is a part of, or the placeholder of one."""
        there = self.placeholder()
        if there is not None:
            return there[1] if there[0] == name else None
        for match in _PATTERNS[name].finditer(self.line):
            if match.end() >= self.end:
                return Place(self.line, *match.span()) if match.start() <= self.start else None
        return None


@dataclass(frozen=True, slots=True)
class Noise:
    """A value of one shape on both sides."""

    name: str
    recorded: Place
    asked: Place
    doubt: str = ""
    """Why it may be a change all the same; "" if it is noise."""


def noise_of(recorded: Place, asked: Place) -> Noise | None:
    """The shape of which a value stands on both sides, if there is one: the first that leaves no doubt.

    Args:
        recorded: What differs, in a line as it is stored.
        asked: The same, in a line as it came.
    """
    doubtful: Noise | None = None
    for name, judge in _JUDGES.items():
        one, other = recorded.widen(name), asked.widen(name)
        if one is None or other is None:
            continue
        noise = Noise(name, one, other, judge(one, other))
        if not noise.doubt:
            return noise
        if doubtful is None or doubtful.name in _DIGITS:
            doubtful = noise
    return doubtful


def _word(words: str) -> re.Pattern[str]:
    """One of these words right before a value, with at most a colon or the like between."""
    return re.compile(rf"(?i)(?<![a-z])(?:{words})[\s:=#(\[\"'`]{{0,4}}\Z")


_PID: Final = _word(r"p?pid|pgid|tid|process(?:[ _-]group)?(?:[ _-]id)?|thread(?:[ _-]id)?")
_PORT: Final = re.compile(
    r"(?i)(?:(?<![a-z])port[\s:=#(\[\"'`]{0,4}|(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):)\Z"
)
_MEASURE: Final = _word(
    r"took|elapsed|time|duration|in|after|real|user|sys|ran|finished|done|completed|uptime|latency"
)
_LIMIT: Final = re.compile(
    r"(?i)(?<![a-z])(?:time-?outs?|limit\w*|max\w*|min\w*|waits?|every|within|deadline|interval|ttl|sleeps?|"
    r"at (?:most|least)|(?:less|more) than|up to|retry|retries)(?![a-z])[^.;]{0,24}\Z"
)
_COUNT: Final = _word(
    r"token count|tokens|seed|rss|(?:session|run|job|request|trace|build|task|thread|worker)[ _-]?"
    r"(?:id|number|no\.?)|id"
)
_HEX: Final = _word(
    r"(?:[a-z]+[ _-])?id|chunk|session|trace|span|request|run|container|nonce|"
    r"commit(?:ted)?|git hash|revision|rev"
)
_CHECKSUM: Final = re.compile(
    r"(?i)(?:sha-?\d*|md5|blake\d\w*|checksum|digest|etag|integrity|crc\d*)\W{0,4}\Z"
)
_CLOCK: Final = re.compile(r"\d:\d\d:\d\d|\d\D{1,5}\d\d?:\d\d|\d{8}\D?\d{4,6}|\d-\d\d-\d\d[T_]\d\d")
"""A time of day with its seconds, or behind a date."""
_OLDEST: Final = 1_420_000_000
_NEWEST: Final = 4_100_000_000
_FRACTION: Final = re.compile(r"\d\.\d|(?i:\d\s?(?:ms|µs|us|ns|milli\w+|micro\w+|nano\w+))")
_LONG: Final = 16
_TEMPORARY: Final = re.compile(r"/(?:private/)?(?:tmp|var/tmp|var/folders|dev/shm|run/user)/|⟦tmp[^⟧]*⟧/")
_MADE_UP: Final = re.compile(r"\d|\A\.?te?mp|[._-][A-Za-z0-9_]{6,}\Z")


def _certain(_: Place, __: Place) -> str:
    return ""


def _time(recorded: Place, asked: Place) -> str:
    if all(_CLOCK.search(side.text) for side in (recorded, asked) if OPEN not in side.text):
        return ""
    return "a date or an hour by itself; that of today is bound without a rule"


def _epoch(recorded: Place, asked: Place) -> str:
    values = [int(side.text[:10]) for side in (recorded, asked) if OPEN not in side.text]
    return "" if all(_OLDEST <= value <= _NEWEST for value in values) else _NUMBER_DOUBT


def _duration(recorded: Place, asked: Place) -> str:
    if _LIMIT.search(recorded.before):
        return "a duration that reads like a limit, not like a measurement"
    if _MEASURE.search(recorded.before) or any(_FRACTION.search(side.text) for side in (recorded, asked)):
        return ""
    return "a duration that may be meant, not measured"


def _hex_id(recorded: Place, asked: Place) -> str:
    if _CHECKSUM.search(recorded.before):
        return "a checksum, which says what is in a file"
    if not any(any(map(str.isdigit, side.text)) for side in (recorded, asked)):
        return "a word, as far as can be told"
    is_long = min(len(recorded.text), len(asked.text)) >= _LONG
    is_mixed = all(
        re.search("[a-fA-F]", side.text) and re.search("[0-9]", side.text) for side in (recorded, asked)
    )
    if (is_long and is_mixed) or _HEX.search(recorded.before):
        return ""
    return "no label says that it is an id"


def _path(recorded: Place, asked: Place) -> str:
    if not all(_TEMPORARY.match(side.text) for side in (recorded, asked)):
        return "a path that is not below a temporary directory"
    one, other = recorded.text.split("/"), asked.text.split("/")
    if len(one) == len(other):
        names = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
        if all(_MADE_UP.search(name) for pair in names for name in pair):
            return ""
    return "another path, not only another made-up name in one"


def _after(pattern: re.Pattern[str], doubt: str) -> Callable[[Place, Place], str]:
    return lambda recorded, _: "" if pattern.search(recorded.before) else doubt


_DIGITS: Final = frozenset(["port", "pid", "hex-id"])
"""Shapes of which any digits may be: in doubt, they are a number."""
_NUMBER_DOUBT: Final = "a number that may say something"
_JUDGES: Final[Mapping[str, Callable[[Place, Place], str]]] = {
    "uuid": _certain,
    "ulid": _certain,
    "time": _time,
    "epoch": _epoch,
    "duration": _duration,
    "port": _after(_PORT, _NUMBER_DOUBT),
    "pid": _after(_PID, _NUMBER_DOUBT),
    "path": _path,
    "hex-id": _hex_id,
    "number": _after(_COUNT, _NUMBER_DOUBT),
}
"""By shape, in the order in which they are tried: why a value of it may be a change."""
