"""Times of the run in a text: those that lie near its clock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Final

from cortex_replay.bindings.boundaries import BOUNDARIES, is_free, occurrences
from cortex_replay.bindings.dates import MONTHS, WEEKDAYS
from cortex_replay.bindings.surroundings import Window

__all__ = ["RunTimes"]

_CLOCK: Final = re.compile(
    r"(?:T|,? (?:at )?|_|-)(?P<hour>[0-9]{1,2})(?P<sep>[:-]?)(?P<minute>[0-9]{2})"
    r"(?:(?P=sep)(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    r"(?:\s?(?P<half>[AaPp])\.?[Mm]\b\.?)?"
    r"(?:\s?(?P<zone>Z\b|(?:UTC|GMT)(?:[+-][0-9]{1,4})?\b|[+-][0-9]{2}:?[0-9]{2}\b|[A-Z]{3,4}\b)"
    r"(?: \([A-Z][A-Za-z ]{2,50}\))?)?(?![0-9A-Za-z]|[:.][0-9])"
)
"""What may follow a date."""
_YEAR: Final = re.compile(r" (?P<year>[0-9]{4})(?![0-9])")
_OFFSET: Final = re.compile(r"([+-])([0-9]{1,2}):?([0-9]{2})?\Z")
_EPOCH: Final = re.compile(
    r"(?:[0-9]{10}\.[0-9]{1,9}|[0-9]{19}|[0-9]{16}|[0-9]{13}|[0-9]{10})(?![0-9A-Za-z]|\.[0-9])"
)
_EPOCH_DIGITS: Final = 10
_BUCKET: Final = 10_000
_BUCKET_DIGITS: Final = 6
_MOST_BUCKETS: Final = 60
_NOON: Final = 12


class RunTimes:
    """Finds times of one run.

    Args:
        window: When that is.
        days: The days of it.
    """

    def __init__(self, window: Window, days: Iterable[date]) -> None:
        self._window = window
        days = tuple(dict.fromkeys(days))
        self._days = {
            f"{MONTHS[day.month - 1][:3]} {number} ": day
            for day in days
            for number in {str(day.day), f"{day.day:02}", f"{day.day:2}"}
        }
        first, last = (int(moment.timestamp()) // _BUCKET for moment in (window.start, window.end))
        if last - first > _MOST_BUCKETS:
            first = last - _MOST_BUCKETS  # a run of a week knows its newest times
        self._epochs = [str(bucket) for bucket in range(first, last + 1)]

    def end_behind(self, text: str, day: date, end: int) -> int | None:
        """Where a time ends that goes on from a date which ends here, if it is one of the run."""
        match = _CLOCK.match(text, end)
        return match.end() if match and self._is_near(day, match) else None

    def without_year(self, text: str) -> Iterator[tuple[int, int]]:
        """Times as ``date`` and ``ls -l`` write them: ``Mon Nov 16 03:34:36 UTC 2026``, ``Nov 16 03:34``."""
        for prefix, day in self._days.items():
            if prefix not in text:
                continue
            for start, end in occurrences(text, prefix, BOUNDARIES["prefix"]):
                match = _CLOCK.match(text, end - 1)
                if match is None or not self._is_near(day, match):
                    continue
                year = _YEAR.match(text, match.end())
                if year and year["year"] == str(day.year):
                    match = year
                weekday = f"{WEEKDAYS[day.weekday()][:3]} "
                begin = (
                    start - len(weekday)
                    if text.startswith(weekday, start - len(weekday)) and start >= len(weekday)
                    else start
                )
                yield begin, match.end()

    def epochs(self, text: str) -> Iterator[tuple[int, int]]:
        """Seconds since 1970, and smaller parts of them."""
        for bucket in self._epochs:
            start = text.find(bucket)
            while start >= 0:
                match = _EPOCH.match(text, start) if _is_number_start(text, start) else None
                if match and self._window.holds(datetime.fromtimestamp(int(match[0][:_EPOCH_DIGITS]), UTC)):
                    yield match.span()
                start = text.find(bucket, match.end() if match else start + 1)

    def _is_near(self, day: date, match: re.Match[str]) -> bool:
        if not match["sep"] and match[0][0] in " ,":
            return False
        hour, half = int(match["hour"]), match["half"]
        if half is not None:
            hour = hour % _NOON + (_NOON if half in "Pp" else 0)
        try:
            clock = time(hour, int(match["minute"]), int(match["second"] or 0))
        except ValueError:
            return False
        moment = datetime.combine(day, clock)
        zone = match["zone"] or ""
        if zone in ("Z", "UTC", "GMT"):
            return self._window.holds(moment.replace(tzinfo=UTC))
        if offset := _OFFSET.search(zone):
            minutes = int(offset[2]) * 60 + int(offset[3] or 0)
            shift = timedelta(minutes=-minutes if offset[1] == "-" else minutes)
            return abs(shift) < timedelta(days=1) and self._window.holds(
                moment.replace(tzinfo=timezone(shift))
            )
        return self._window.holds(moment)


def _is_number_start(text: str, at: int) -> bool:
    return is_free(text, at) and not (at > 1 and text[at - 1] == "." and text[at - 2].isdigit())
