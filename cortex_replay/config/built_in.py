"""Normalisers that come with the program: what changes from run to run in nearly every prompt.

Each is a regular expression of bounded pieces, so that the time it takes grows with the text and no
faster. None takes a piece of what another is for: a date not the start of a time, an id not a piece of a
UUID. **What they match is part of every key that was made with them**: a change here orphans recordings,
and so must be a new name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["BUILT_IN", "PREFIX", "expression"]

PREFIX: Final = "builtin:"

_START: Final = r"(?<![0-9A-Za-z])"
_END: Final = r"(?![0-9A-Za-z])"

_CLOCK: Final = r"(?:[01][0-9]|2[0-4]):[0-5][0-9]"
_SECONDS: Final = r":[0-6][0-9](?:[.,][0-9]{1,9})?"
_ZONE: Final = r"(?: ?(?:Z|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9]))?"
_DAY: Final = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_BASIC_DAY: Final = r"[0-9]{4}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"

_MONTH: Final = (
    "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    "|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\\.?"
)
_WEEKDAY: Final = r"(?:(?:Mon|Tue|Tues|Wed|Wednes|Thu|Thurs|Fri|Sat|Satur|Sun)(?:day)?,? )?"
_IN_MONTH: Final = r"(?:0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?"

_COMPONENT: Final = r"""[^\s/\\"'`<>|:;,()\[\]{}*?]{0,254}[^\s/\\"'`<>|:;,()\[\]{}*?.]"""
_SLASH: Final = r"(?:\\{1,2}|/)"
_OF_PYTEST: Final = rf"pytest-of-{_COMPONENT}{_SLASH}pytest-{_COMPONENT}(?:{_SLASH}{_COMPONENT})?"
_NUMBER: Final = r"[0-9]{1,9}(?:\.[0-9]{1,12})?"

BUILT_IN: Final[Mapping[str, str]] = {
    "iso-time": (
        rf"(?<![0-9A-Za-z:.])(?:"
        rf"{_DAY}(?:[Tt]| ){_CLOCK}(?:{_SECONDS})?{_ZONE}"
        rf"|{_BASIC_DAY}T[0-9]{{4}}(?:[0-9]{{2}})?(?:Z|[+-][0-9]{{4}})?"
        rf"|{_CLOCK}{_SECONDS}{_ZONE}"
        rf")(?![0-9A-Za-z:])"
    ),
    "date": (
        rf"(?<![0-9A-Za-z-])(?:"
        rf"{_DAY}(?!-?[0-9A-Za-z]|[ ]{_CLOCK})"
        rf"|{_WEEKDAY}(?:{_IN_MONTH} {_MONTH},? |{_MONTH} {_IN_MONTH},? )[0-9]{{4}}{_END}"
        rf")"
    ),
    "uuid": rf"{_START}[0-9A-Fa-f]{{8}}-(?:[0-9A-Fa-f]{{4}}-){{3}}[0-9A-Fa-f]{{12}}{_END}",
    "temp-path": (
        # Not behind a placeholder either: what is left of a longer path must not be found the next time.
        rf"(?<![\w.~>-])(?:"
        rf"(?:/private)?(?:/var)?/tmp/"
        rf"|(?:/private)?/var/folders/{_COMPONENT}/{_COMPONENT}/T/"
        rf"|[A-Za-z]:{_SLASH}Users{_SLASH}{_COMPONENT}{_SLASH}AppData{_SLASH}Local{_SLASH}Temp{_SLASH}"
        rf")(?:{_OF_PYTEST}|{_COMPONENT})"
    ),
    "hex-id": (
        rf"{_START}(?<!-[0-9A-Fa-f]{{4}}-)(?![0-9A-Fa-f]{{8}}-[0-9A-Fa-f]{{4}}-)(?:"
        rf"0x[0-9A-Fa-f]{{4,64}}"
        rf"|(?=[a-f]{{0,63}}[0-9])(?=[0-9]{{0,63}}[a-f])[0-9a-f]{{8,64}}"
        rf"|(?=[A-F]{{0,63}}[0-9])(?=[0-9]{{0,63}}[A-F])[0-9A-F]{{8,64}}"
        rf"){_END}"
    ),
    "duration": (
        rf"(?<![\w.:,-])(?:"
        rf"(?:[0-9]{{1,6}} ?h(?:ours?|rs?)?,? )?[0-9]{{1,6}} ?m(?:in(?:utes?|s)?)?,? "
        rf"{_NUMBER} ?s(?:ec(?:onds?|s)?)?"
        rf"|(?:[0-9]{{1,6}}h ?)?[0-9]{{1,6}}m ?{_NUMBER}s"
        rf"|[0-9]{{1,6}}h ?[0-9]{{1,6}}m"
        rf"|{_NUMBER}(?:e-[0-9]{{1,3}})? ?"
        rf"(?:[num\u00b5\u03bc]?s|secs?|(?:milli|micro|nano)?seconds?|mins?|minutes?|h|hrs?|hours?)"
        rf"|[0-9]:[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,9}})?"
        rf")(?![\w:])"
    ),
}
"""The expressions by name; `docs/configuration.md` says what each is for."""


def expression(pattern: str) -> str:
    """The regular expression of a normaliser's pattern, which may name one of these."""
    return BUILT_IN[pattern.removeprefix(PREFIX)] if pattern.startswith(PREFIX) else pattern
