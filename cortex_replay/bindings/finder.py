"""Where bound values stand in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Final, NamedTuple

from cortex_replay.bindings.boundaries import BOUNDARIES, Boundary, occurrences
from cortex_replay.bindings.dates import forms_of_days
from cortex_replay.bindings.forms import NAME_FORM, main_form
from cortex_replay.bindings.places import Place
from cortex_replay.bindings.programs import PROGRAM_RULES, PROGRAMS
from cortex_replay.bindings.rules import BindingRules
from cortex_replay.bindings.safety import PATHS
from cortex_replay.bindings.shapes import SHAPES, ULID_START, find_ulids, find_uuids
from cortex_replay.bindings.surroundings import KNOWN, Surroundings
from cortex_replay.bindings.times import RunTimes

__all__ = ["Finder", "Found"]

_PIECE: Final = re.compile(r"\\+u[0-9a-f]{4}|%[0-9A-F]{2}|[^A-Za-z0-9]+")
_MONTHS: Final = frozenset(["my", "mycomma", "ym"])
"""The forms of a date that name no day."""
_YEAR: Final = re.compile(r"[0-9]{4}(?![0-9])|[0-9]{4}(?=[0-9]{4}\Z)")
_KINDS: Final = {"host": "host", "os": "version", "kernel": "version", "commit": "commit"}
_MOST_KEPT: Final = 4_000_000
"""Characters of texts whose finds are kept: an agent sends most of them with every call."""
_COST_OF_ENTRY: Final = 200
_FILE: Final = "file://"
_OWN_FILES: Final = re.compile(r"""/\.[^\s"'`<>|*?:;,()\[\]{}\\]*""")

_SECOND: Final = re.compile(r"-[1-9][0-9]{0,3}\Z")
"""What a program puts behind the name of a folder when it knows another one of that name."""


class Found(NamedTuple):
    """A bound value in a text."""

    start: int
    end: int
    name: str
    form: str = ""


class _Literal(NamedTuple):
    text: str
    name: str
    form: str
    boundary: Boundary
    is_in_urls: bool
    """Whether it is written the same way in a URL."""


class _DateLiteral(NamedTuple):
    text: str
    form: str
    year_at: int
    day: date | None
    boundary: Boundary


_Dates = dict[str, list[_DateLiteral]]


class Finder:
    """Finds what is bound.

    A value is looked for by a part of it that its forms share, and a date by its year: a text that holds
    nothing costs a few searches for plain text.

    Args:
        rules: What is configured.
        surroundings: What is known now.
    """

    def __init__(self, rules: BindingRules, surroundings: Surroundings) -> None:
        known = {name: forms for name, forms in surroundings.values.items() if name not in rules.off}
        self._literals = _by_needle(
            literal
            for name, forms in known.items()
            if name != "date"
            for literal in _literals_of(name, forms)
        )
        self._dates = [*_dates_of(known.get("date", {}), surroundings.days).items()]
        shapes = [name for name in rules.shapes if name in SHAPES and name not in rules.off]
        self._has_uuids, self._has_ulids = "uuid" in shapes, "ulid" in shapes
        window = surroundings.window
        times = RunTimes(window, surroundings.days) if window is not None else None
        self._times = times if "time" in shapes else None
        self._epochs = times if "epoch" in shapes else None
        of_programs = () if PROGRAMS in rules.off else PROGRAM_RULES
        places = [rule for rule in (*of_programs, *rules.rules) if rule.bind not in rules.off]
        self._places = [Place(rule, surroundings) for rule in places]
        self._folder_names = {
            text: form for form, text in known.get("cwd", {}).items() if main_form(form) == NAME_FORM
        }
        named = {*KNOWN, *rules.values, *known}.difference(rules.off)
        self.names = frozenset([*named, *shapes, *(rule.bind for rule in places)])
        """All that may be bound, here or on another machine: what is too common here may be bound there."""
        self._kept: dict[str, list[Found]] = {}
        self._kept_length = 0

    def find(self, text: str) -> list[Found]:
        """What is bound in a text, in order; of two that overlap the first, or the longer one."""
        found = self._kept.get(text)
        if found is None:
            found = self._find(text)
            self._kept_length += len(text) + _COST_OF_ENTRY
            if self._kept_length > _MOST_KEPT:
                self._kept, self._kept_length = {}, 0
            self._kept[text] = found
        return found

    def _find(self, text: str) -> list[Found]:
        found: list[Found] = []
        for needle, literals in self._literals:
            if needle in text:
                found += _known(text, literals)
        for year, dates in self._dates:
            if year in text:
                found += self._dated(text, year, dates)
        found += self._shaped(text)
        for place in self._places:
            found += [Found(start, end, place.name, form) for start, end, form in place.find(text)]
        if not found:
            return found
        kept = _without_overlaps(found)
        own = [one for home in kept if home.name == "home" for one in self._own_files(text, home.end)]
        return _without_overlaps(kept + own) if own else kept

    def _shaped(self, text: str) -> list[Found]:
        found: list[Found] = []
        if self._has_uuids and "-" in text:
            found += [Found(*span, "uuid") for span in find_uuids(text)]
        if self._has_ulids and ULID_START in text:
            found += [Found(*span, "ulid") for span in find_ulids(text)]
        if self._times is not None:
            found += [Found(*span, "time") for span in self._times.without_year(text)]
        if self._epochs is not None:
            found += [Found(*span, "epoch") for span in self._epochs.epochs(text)]
        return found

    def _dated(self, text: str, year: str, dates: _Dates) -> Iterator[Found]:
        at = text.find(year)
        while at >= 0:
            for literal in (*dates.get("", ()), *dates.get(text[max(0, at - 2) : at], ())):
                start = at - literal.year_at
                if start >= 0 and text.startswith(literal.text, start):
                    yield from self._date(text, start, literal)
            at = text.find(year, at + 1)

    def _date(self, text: str, start: int, literal: _DateLiteral) -> Iterator[Found]:
        end, boundary = start + len(literal.text), literal.boundary
        if start and not boundary.is_start(text, start):
            return
        if self._times is not None and literal.day is not None:
            time_end = self._times.end_behind(text, literal.day, end)
            if time_end is not None:
                yield Found(start, time_end, "time")
        if end == len(text) or boundary.is_end(text, end):
            yield Found(start, end, "date", literal.form)

    def _own_files(self, text: str, at: int) -> Iterator[Found]:
        """The name of the working directory in a path of a program's own: ``~/.gemini/tmp/project``."""
        path = _OWN_FILES.match(text, at)
        end = path.end() if path else at
        while path and end > at:
            start = text.rfind("/", at, end) + 1
            name = text[start:end]
            form = self._folder_names.get(name) or self._folder_names.get(_SECOND.sub("", name))
            if form is not None:
                yield Found(start, end, "cwd", form)
                return
            end = start - 1


def _known(text: str, literals: Sequence[_Literal]) -> Iterator[Found]:
    for literal in literals:
        for start, end in occurrences(text, literal.text, literal.boundary):
            is_url = literal.form == "" and literal.is_in_urls and text.endswith(_FILE, 0, start)
            yield Found(start, end, literal.name, "url" if is_url else literal.form)


def _without_overlaps(found: list[Found]) -> list[Found]:
    found.sort(key=lambda one: (one.start, -one.end))
    kept: list[Found] = []
    for one in found:
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
    return kept


def _literals_of(name: str, forms: Mapping[str, str]) -> Iterator[_Literal]:
    """Each text once: with the first form that is written so."""
    met: set[str] = set()
    for form, text in forms.items():
        if text and text not in met and main_form(form) != NAME_FORM:
            met.add(text)
            yield _Literal(text, name, form, BOUNDARIES[_kind(name, form, text)], forms.get("url") == text)


def _kind(name: str, form: str, text: str) -> str:
    if main_form(form) == "slug" and text.startswith("-"):
        return "slug"
    if name in PATHS or text.startswith("/"):
        return "path"
    return _KINDS.get(name, "word")


def _by_needle(literals: Iterable[_Literal]) -> list[tuple[str, list[_Literal]]]:
    """The literals, by a part that each of a group has; of two names for one text the first."""
    groups: dict[str, list[_Literal]] = {}
    met: set[str] = set()
    for literal in literals:
        if literal.text not in met:
            met.add(literal.text)
            needle = max(_PIECE.split(literal.text), key=_rarity) or literal.text
            groups.setdefault(needle, []).append(literal)
    return list(groups.items())


def _rarity(piece: str) -> int:
    return len(piece) + 3 * any(map(str.isdigit, piece)) if len(piece) > 1 else 0


def _dates_of(forms: Mapping[str, str], days: Iterable[date]) -> dict[str, _Dates]:
    """The forms of dates, by the year in them and then by what stands right before it."""
    by_text = {text: day for day in {*days} for text in forms_of_days([day]).values()}
    groups: dict[str, _Dates] = {}
    met: set[str] = set()
    for form, text in forms.items():
        if text in met:
            continue
        met.add(text)
        is_month = main_form(form) in _MONTHS
        year = _YEAR.search(text)
        needle, at = (year[0], year.start()) if year else (text, 0)
        boundary = BOUNDARIES["month" if is_month else "date"]
        day = None if is_month else by_text.get(text)
        literal = _DateLiteral(text, form, at, day, boundary)
        groups.setdefault(needle, {}).setdefault(text[max(0, at - 2) : at], []).append(literal)
    return groups
