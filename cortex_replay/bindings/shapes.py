"""Values that are known by their shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cortex_replay.bindings.boundaries import is_free
from cortex_replay.bindings.dates import MONTHS, WEEKDAYS

__all__ = ["ALWAYS", "SHAPES", "SHORTEST_ECHO", "ULID_START", "Shape", "find_ulids", "find_uuids"]

_START: Final = r"(?<![0-9A-Za-z])"
_END: Final = r"(?![0-9A-Za-z])"
_HEX: Final = "[0-9a-fA-F]"

_UUID: Final = rf"{_HEX}{{8}}-{_HEX}{{4}}-[1-8]{_HEX}{{3}}-[89abAB]{_HEX}{{3}}-{_HEX}{{12}}"
ULID_START: Final = "01"
"""Of the years 2004 to 2039."""
_ULID: Final = rf"{ULID_START}(?:[0-9A-HJKMNP-TV-Z]{{24}}|[0-9a-hjkmnp-tv-z]{{24}})"
_MONTH: Final = "(?:" + "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS) + ")"
_WEEKDAY: Final = "(?:" + "|".join(f"{day[:3]}(?:{day[3:]})?" for day in WEEKDAYS) + ")"
_CLOCK: Final = (
    r"[0-9]{1,2}[:-][0-9]{2}(?:[:-][0-9]{2}(?:[.,][0-9]{1,9})?)?(?:\s?[AaPp]\.?[Mm]\b\.?)?"
    r"(?:\s?(?:Z\b|(?:UTC|GMT)(?:[+-][0-9]{1,4})?\b|[+-][0-9]{2}:?[0-9]{2}\b|[A-Z]{3,4}\b))?"
    r"(?: \([A-Z][A-Za-z ]{2,50}\))?"
)
_NUMERIC_DAY: Final = (
    r"(?:[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.](?:[0-9]{4}|[0-9]{2})|[0-9]{8})"
)
_WORDED_DAY: Final = (
    rf"(?:(?:{_WEEKDAY},? )?"
    rf"(?:{_MONTH} {{1,2}}[0-9]{{1,2}}(?:st|nd|rd|th)?,?|[0-9]{{1,2}}[ -]{_MONTH},?)(?:[ -][0-9]{{4}})?)"
)
_TIME: Final = (
    rf"(?:(?:{_NUMERIC_DAY}|{_WORDED_DAY})(?:(?:T|,? (?:at )?|_){_CLOCK}(?: [0-9]{{4}})?)?"
    rf"|[0-9]{{8}}(?:T|_|-)?[0-9]{{4,6}}Z?|{_CLOCK})"
)
_EPOCH: Final = r"(?:[0-9]{10}\.[0-9]{1,9}|[0-9]{19}|[0-9]{16}|[0-9]{13}|[0-9]{10})"
_UNIT: Final = (
    r"(?:ns|nanoseconds?|µs|μs|us|microseconds?|ms|msecs?|milliseconds?|s|secs?|seconds?|m|mins?|minutes?"
    r"|h|hrs?|hours?|d|days?)"
)
_AMOUNT: Final = r"[0-9]+(?:[.,][0-9]+)?"
_DURATION: Final = (
    rf"(?:{_AMOUNT} ?{_UNIT}(?:,? ?{_AMOUNT} ?{_UNIT}){{0,4}}|[0-9]+(?::[0-9]{{2}}){{1,2}}(?:[.,][0-9]+)?)"
)
_PORT: Final = r"(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
_NUMBER: Final = r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?%?"
_PATH: Final = r"""(?:~|\.{1,2})?(?:/[^\s/"'`<>|*?;,()\[\]{}\\⟦⟧]+)+/?"""
_FRACTION: Final = re.compile(r"[0-9][.,][0-9]{2,}")


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of value that programs make up or measure."""

    core: str
    """A regular expression of such a value."""
    is_measured: bool = False
    """Whether two of them may be equal by chance: each is then numbered by itself. Else equal ones share
    a number."""
    is_coarse: Callable[[str], bool] | None = None
    """Whether that holds for a value as it is written."""
    start: str = _START
    """What must not stand right before it, where nothing else says what does."""
    end: str = _END

    @property
    def pattern(self) -> re.Pattern[str]:
        """Such a value where it stands by itself."""
        return re.compile(self.between("", ""))

    def is_numbered_alone(self, text: str) -> bool:
        """Whether another value that is equal gets another number."""
        return self.is_measured or (self.is_coarse is not None and self.is_coarse(text))

    def fits(self, text: str) -> bool:
        """Whether a text is such a value and no more."""
        return re.fullmatch(self.core, text) is not None

    def between(self, before: str, after: str) -> str:
        """A regular expression of such a value between two texts."""
        return f"{'' if before else self.start}{self.core}{'' if after else self.end}"


def _is_coarse_time(text: str) -> bool:
    """To the second: a recording waits for a model between two of them, and a replay does not."""
    return _FRACTION.search(text) is None


def _is_coarse_epoch(text: str) -> bool:
    return text.isdigit() and len(text) == 10


SHAPES: Final[Mapping[str, Shape]] = {
    "uuid": Shape(_UUID),
    "ulid": Shape(_ULID),
    "time": Shape(_TIME, is_coarse=_is_coarse_time),
    "epoch": Shape(_EPOCH, is_coarse=_is_coarse_epoch, end=r"(?![0-9A-Za-z]|\.[0-9])"),
    "duration": Shape(_DURATION, is_measured=True),
    "port": Shape(_PORT),
    "pid": Shape(r"[1-9][0-9]{0,6}"),
    "hex-id": Shape(rf"{_HEX}{{4,128}}"),
    "number": Shape(_NUMBER, is_measured=True, start=r"(?<![0-9A-Za-z.])", end=r"(?![0-9A-Za-z]|\.[0-9])"),
    "path": Shape(_PATH, start=r"(?<![\w.~/-])", end=r"(?![\w/-])"),
}
ALWAYS: Final = ("uuid", "ulid", "time", "epoch")
"""The shapes that need no rule; the last two only for times of the run."""
SHORTEST_ECHO: Final = 4
"""Of a value that is looked for where it comes again: a shorter one stands there by chance."""

_UUID_END: Final = re.compile(rf"-{_HEX}{{4}}-[1-8]{_HEX}{{3}}-[89abAB]{_HEX}{{3}}-{_HEX}{{12}}{_END}")
_HEAD: Final = re.compile(rf"{_HEX}{{8}}")
_HEAD_LENGTH: Final = 8
_ULID_ALONE: Final = re.compile(rf"{_ULID}{_END}")


def find_uuids(text: str) -> Iterator[tuple[int, int]]:
    """The UUIDs of a text, looked for by their first hyphen: most texts have few."""
    for match in _UUID_END.finditer(text):
        start = match.start() - _HEAD_LENGTH
        if start >= 0 and _HEAD.match(text, start) and is_free(text, start):
            yield start, match.end()


def find_ulids(text: str) -> Iterator[tuple[int, int]]:
    for match in _ULID_ALONE.finditer(text):
        if is_free(text, match.start()):
            yield match.span()
