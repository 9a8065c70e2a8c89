"""A day, as programs print it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Final

from cortex_replay.bindings.forms import spell

__all__ = ["MONTHS", "WEEKDAYS", "days_in", "forms_of_days"]

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_FORMS: Final[Mapping[str, str]] = {
    "": "{y}-{m}-{d}",
    "slash": "{y}/{m}/{d}",
    "dots": "{y}.{m}.{d}",
    "compact": "{y}{mm}{dd}",
    "us": "{m}/{d}/{y}",
    "eu": "{d}/{m}/{y}",
    "eudots": "{d}.{m}.{y}",
    "dashed": "{d}-{m}-{y}",
    "us2": "{m}/{d}/{yy}",
    "wmdy": "{weekday}, {month} {d}, {y}",
    "wmd": "{weekday}, {mon} {d}, {y}",
    "smd": "{wd}, {mon} {d}, {y}",
    "js": "{wd} {mon} {d} {y}",
    "wdmy": "{weekday}, {d} {month} {y}",
    "wdm": "{weekday} {d} {month} {y}",
    "rfc": "{wd}, {d} {mon} {y}",
    "sdm": "{wd} {d} {mon} {y}",
    "mdy": "{month} {d}, {y}",
    "mdth": "{month} {d}{th}, {y}",
    "md": "{mon} {d}, {y}",
    "mdspace": "{month} {d} {y}",
    "mspace": "{mon} {d} {y}",
    "dmy": "{d} {month} {y}",
    "dmth": "{d}{th} {month} {y}",
    "dm": "{d} {mon} {y}",
    "dmdash": "{d}-{mon}-{y}",
    "my": "{month} {y}",
    "mycomma": "{month}, {y}",
    "mys": "{mon} {y}",
    "ym": "{y}-{mm}",
}
"""By the name of the form; ``m`` and ``d`` are written with a leading zero and without."""
_PLAIN_NUMBERS: Final = frozenset(
    ["us", "wmdy", "wmd", "smd", "wdmy", "wdm", "mdy", "md", "mdspace", "dmy", "dm"]
)
"""Where most programs write no leading zero."""

_NAMES: Final = "|".join(f"{month[:3]}(?:{month[3:]})?" if month[3:] else month for month in MONTHS)
_DAYS: Final = (
    re.compile(
        r"(?<![0-9])(?P<y>[12][0-9]{3})(?P<s>[-/.]?)(?P<m>[0-9]{1,2})(?P=s)(?P<d>[0-9]{1,2})(?![0-9])"
    ),
    re.compile(r"(?<![0-9])(?P<m>[0-9]{1,2})(?P<s>[/.-])(?P<d>[0-9]{1,2})(?P=s)(?P<y>[12][0-9]{3})(?![0-9])"),
    re.compile(r"(?<![0-9])(?P<d>[0-9]{1,2})(?P<s>[/.-])(?P<m>[0-9]{1,2})(?P=s)(?P<y>[12][0-9]{3})(?![0-9])"),
    re.compile(
        rf"(?<![0-9A-Za-z])(?:(?P<d>[0-9]{{1,2}})[a-z]{{0,2}}[ -])?(?P<name>{_NAMES})(?![a-z])[ ,-]{{1,2}}"
        r"(?:(?P<e>[0-9]{1,2})(?:[a-z]{2})?[, ]{1,2}(?:[0-9:]{4,8} (?:[A-Z]{2,5} )?)?)?"
        r"(?P<y>[12][0-9]{3})(?![0-9])"
    ),
)
"""The forms above, told apart by the order of their parts."""


def forms_of_days(days: Iterable[date]) -> dict[str, str]:
    """Each form in which one of these days may be written; the first day is the usual one."""
    found: dict[str, str] = {}
    days = tuple(days)
    for form, pattern in _FORMS.items():
        found |= spell(
            form, (text for day in days for text in _spellings(day, pattern, form in _PLAIN_NUMBERS))
        )
    return found


def _spellings(day: date, pattern: str, is_plain_first: bool) -> Iterator[str]:
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
    padded = {"m": words["mm"], "d": words["dd"]}
    plain = {"m": str(day.month), "d": str(day.day)}
    for numbers in (plain, padded) if is_plain_first else (padded, plain):
        yield pattern.format(**words, **numbers)


def _ordinal(number: int) -> str:
    return "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def days_in(text: str, most: int) -> list[date]:
    """The days that a text names, in order; the first of a month where it names no more than that."""
    found: dict[date, int] = {}
    for pattern in _DAYS:
        for match in pattern.finditer(text):
            day = _day_of(match.groupdict())
            if day is not None and match.start() < found.get(day, len(text)):
                found[day] = match.start()
    return sorted(found, key=lambda day: found[day])[:most]


def _day_of(parts: Mapping[str, str | None]) -> date | None:
    name = parts.get("name")
    month = int(parts.get("m") or 0) if name is None else _MONTH_NUMBERS[name[:3]]
    try:
        return date(int(parts["y"] or 0), month, int(parts["d"] or parts.get("e") or 1))
    except ValueError:
        return None


_MONTH_NUMBERS: Final = {month[:3]: number for number, month in enumerate(MONTHS, 1)}
