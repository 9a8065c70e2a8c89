"""A day, as programs print it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import lru_cache
from typing import Final, NamedTuple

from cortex_replay.bindings.forms import spell

__all__ = ["MONTHS", "WEEKDAYS", "days_in", "forms_of_days", "months_in", "present_days_in"]

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("{y}-{m}-{d}",),
    "slash": ("{y}/{m}/{d}",),
    "dot": ("{y}.{m}.{d}",),
    "compact": ("{y}{mm}{dd}",),
    "numeric": ("{m}/{d}/{y}", "{d}/{m}/{y}"),
    "numdot": ("{d}.{m}.{y}", "{m}.{d}.{y}"),
    "numdash": ("{d}-{m}-{y}", "{m}-{d}-{y}"),
    "short": ("{m}/{d}/{yy}", "{d}/{m}/{yy}"),
    "wmdy": ("{weekday}, {month} {d}, {y}", "{weekday}, {mon} {d}, {y}"),
    "smdy": ("{wd}, {mon} {d}, {y}", "{wd}, {month} {d}, {y}"),
    "wmd": ("{weekday} {month} {d} {y}", "{weekday} {mon} {d} {y}"),
    "js": ("{wd} {mon} {d} {y}",),
    "wdmy": ("{weekday}, {d} {month} {y}", "{weekday}, {d} {mon} {y}"),
    "wdm": ("{weekday} {d} {month} {y}", "{weekday} {d} {mon} {y}"),
    "rfc": ("{wd}, {d} {mon} {y}", "{wd}, {d} {month} {y}"),
    "sdm": ("{wd} {d} {mon} {y}", "{wd} {d} {month} {y}"),
    "mdy": ("{month} {d}, {y}", "{mon} {d}, {y}"),
    "mdth": ("{month} {d}{th}, {y}", "{mon} {d}{th}, {y}"),
    "md": ("{month} {d} {y}", "{mon} {d} {y}"),
    "dmy": ("{d} {month} {y}", "{d} {mon} {y}"),
    "dmth": ("{d}{th} {month} {y}", "{d}{th} {mon} {y}"),
    "dmdash": ("{d}-{mon}-{y}",),
    "my": ("{month} {y}", "{mon} {y}"),
    "mycomma": ("{month}, {y}", "{mon}, {y}"),
    "ym": ("{y}-{mm}",),
}
"""By the name of the form, with spellings that fall together on some days: in May, or on the 5th of it.
Each is written with leading zeros and without."""
_ZEROS_FIRST: Final = frozenset(["", "slash", "dot", "compact", "js", "rfc", "short", "dmdash"])
"""Where most programs write leading zeros."""
_LEAST_DAYS: Final = 4
"""That a run may be on: its first and its last, here and in UTC. Less of them have as many names."""

_NAMES: Final = "|".join(f"{month[:3]}(?:{month[3:]})?" if month[3:] else month for month in MONTHS)
_WORD: Final = r"(?:(?<![0-9A-Za-z])|(?<=\\[nrt]))"
"""Where a word may start, also in JSON."""
_YEAR_FIRST: Final = re.compile(r"[12][0-9]{3}[-/.]?[0-9]")
_YEAR_LAST: Final = re.compile(r"[/.-][12][0-9]{3}")
_YEAR_APART: Final = re.compile(r"[12][0-9]{3}(?<=[ ,-]....)")
_SHORT_YEAR: Final = re.compile(r"/[0-9]{2}(?![0-9/])")
"""What a text with a day in one of the forms has; it is looked for sooner than the form."""
_DAYS: Final = (
    (
        _YEAR_FIRST,
        re.compile(
            r"(?<![0-9])(?P<y>[12][0-9]{3})(?P<s>[-/.]?)(?P<m>[0-9]{1,2})(?P=s)(?P<d>[0-9]{1,2})(?![0-9])"
        ),
    ),
    (
        _YEAR_LAST,
        re.compile(
            r"(?<![0-9])(?P<m>[0-9]{1,2})(?P<s>[/.-])(?P<d>[0-9]{1,2})(?P=s)(?P<y>[12][0-9]{3})(?![0-9])"
        ),
    ),
    (
        _YEAR_LAST,
        re.compile(
            r"(?<![0-9])(?P<d>[0-9]{1,2})(?P<s>[/.-])(?P<m>[0-9]{1,2})(?P=s)(?P<y>[12][0-9]{3})(?![0-9])"
        ),
    ),
    (
        _YEAR_APART,
        re.compile(
            rf"{_WORD}(?:(?P<d>[0-9]{{1,2}})[a-z]{{0,2}}[ -])?(?P<name>{_NAMES})(?![a-z])[ ,-]{{1,2}}"
            r"(?:(?P<e>[0-9]{1,2})(?:[a-z]{2})?[, ]{1,2}(?:[0-9:]{4,8} (?:[A-Z]{2,5} )?)?)?"
            r"(?P<y>[12][0-9]{3})(?![0-9])"
        ),
    ),
    (
        _SHORT_YEAR,
        re.compile(r"(?<![0-9/])(?P<m>[0-9]{1,2})/(?P<d>[0-9]{1,2})/(?P<y>[0-9]{2})(?![0-9/])"),
    ),
    (
        _SHORT_YEAR,
        re.compile(r"(?<![0-9/])(?P<d>[0-9]{1,2})/(?P<m>[0-9]{1,2})/(?P<y>[0-9]{2})(?![0-9/])"),
    ),
    (
        _YEAR_FIRST,
        re.compile(r"(?<![0-9])(?<![0-9][-/.])(?P<y>[12][0-9]{3})-(?P<m>[0-9]{2})(?![0-9]|-[0-9])"),
    ),
)
"""The forms above, told apart by the order of their parts; each with what a text must have."""
_CENTURY: Final = 100
_THIS_CENTURY: Final = 2000
_PRESENT: Final = re.compile(rf"{_WORD}(?:today|current|now(?![a-z]))[^0-9]{{0,40}}\Z", re.IGNORECASE)
"""What says of a day behind it that it is today."""
_LONGEST_PRESENT: Final = 50


def forms_of_days(days: Sequence[date]) -> Mapping[str, str]:
    """Each form in which one of these days may be written; the first day is the usual one."""
    return _forms_of_days((*days, *[days[0]] * (_LEAST_DAYS - len(days))))


@lru_cache(maxsize=16)
def _forms_of_days(days: tuple[date, ...]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    by_day = {day: _forms_of_day(day) for day in days}
    for form in _FORMS:
        found |= spell(form, [text for day in days for text in by_day[day][form]])
    return found


def _forms_of_day(day: date) -> dict[str, list[str]]:
    words = {
        "y": f"{day.year:04}",
        "yy": f"{day.year % 100:02}",
        "mm": f"{day.month:02}",
        "dd": f"{day.day:02}",
        "month": MONTHS[day.month - 1],
        "mon": MONTHS[day.month - 1][:3],
        "weekday": WEEKDAYS[day.weekday()],
        "wd": WEEKDAYS[day.weekday()][:3],
        "th": _ordinal(day.day),
    }
    padded = words | {"m": words["mm"], "d": words["dd"]}
    plain = words | {"m": str(day.month), "d": str(day.day)}
    return {
        form: [
            pattern.format_map(numbers)
            for pattern in patterns
            for numbers in ((padded, plain) if form in _ZEROS_FIRST else (plain, padded))
        ]
        for form, patterns in _FORMS.items()
    }


def _ordinal(number: int) -> str:
    return "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def days_in(text: str, most: int) -> list[date]:
    """The days that a text names, in order; the first of a month where it names no more than that."""
    found: dict[date, int] = {}
    for named in _named_in(text):
        found[named.day] = min(named.start, found.get(named.day, len(text)))
    return sorted(found, key=lambda day: found[day])[:most]


def present_days_in(text: str) -> set[date]:
    """The days that a text says are today."""
    return {
        named.day
        for named in _named_in(text)
        if _PRESENT.search(text[max(0, named.start - _LONGEST_PRESENT) : named.start])
    }


def months_in(text: str) -> set[date]:
    """The first days of the months that a text names, where it does not name that day."""
    named = _named_in(text)
    return {one.day for one in named if one.is_month} - {one.day for one in named if not one.is_month}


class _Named(NamedTuple):
    day: date
    start: int
    is_month: bool


_LONGEST_READ: Final = 4 * 1024 * 1024
"""How much of a text is read for days: a prompt tells the day near its start, and a stranger sends 32 MB."""


@lru_cache(maxsize=1)
def _named_in(text: str) -> tuple[_Named, ...]:
    """Read once: one look at a call asks for all that it names several times."""
    return tuple(_find_named(text[:_LONGEST_READ]))


def _find_named(text: str) -> Iterator[_Named]:
    for hint, pattern in _DAYS:
        for match in pattern.finditer(text) if hint.search(text) else ():
            parts = match.groupdict()
            number = parts.get("d") or parts.get("e")
            name = parts.get("name")
            month = int(parts["m"] or 0) if name is None else _MONTH_NUMBERS[name[:3]]
            with suppress(ValueError):
                year = int(parts["y"] or 0)
                day = date(year if year >= _CENTURY else year + _THIS_CENTURY, month, int(number or 1))
                yield _Named(day, match.start(), number is None)


_MONTH_NUMBERS: Final = {month[:3]: number for number, month in enumerate(MONTHS, 1)}
