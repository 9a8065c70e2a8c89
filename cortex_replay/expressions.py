r"""Regular expressions that other people wrote, run with a limit.

They come with a repository: normalisers, patterns of secrets, rules of a script. Python's own engine
cannot be stopped, and ``(a+)+$`` keeps it busy for longer than anybody waits. So they run on an engine
that gives up in time (`docs/adr/0007-patterns-of-users-run-with-a-limit.md`).

What a pattern matches is part of every key that was made with it, so it must mean here exactly what it
means to :mod:`re`, whose dialect it is written in. Python's own parser reads it, and what it read is
written down again in the plainest words of the other engine: no construct that the two could
read in two ways reaches it, and classes such as ``\w`` are spelled out as Python has them.
"""

from __future__ import annotations

import _sre  # type: ignore[import-not-found]
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from re import _constants as sre, _parser  # type: ignore[attr-defined]  # the only list of a pattern's parts
from re._casefix import _EXTRA_CASES  # type: ignore[import-not-found]
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from cortex_replay.errors import InvalidRequest

if TYPE_CHECKING:
    import regex

__all__ = ["Expression", "PatternError"]

SECONDS: Final = 2.0
"""What one search of one text may take; honest patterns take milliseconds."""
_SECONDS_PER_CHARACTER: Final = 2e-6

_MOST_WEIGHT: Final = 20_000
"""Of what a pattern spells out, counts included; the engine prepares that much."""
_DEEPEST: Final = 40
_ASCII_CLASSES: Final = {"DIGIT": "0-9", "SPACE": r" \t-\r", "WORD": "0-9A-Z_a-z"}
_CLASSES: Final = {"DIGIT": r"\d", "SPACE": r"\s\x1c-\x1f", "WORD": r"\p{L}\p{N}_"}
_LAST_CASED: Final = 0x20000
"""Behind it stand scripts without case."""
_LOOK_SIGNS: Final = {1: "", -1: "<"}
_WARNINGS_LOCK: Final = Lock()


class PatternError(ValueError):
    """A text that is no regular expression, or none that is run."""


class Expression:
    """A regular expression, as :mod:`re` understands it.

    Args:
        pattern: As it is written.
        where: The setting that it stands in, for a message.

    Raises:
        PatternError: It is no regular expression, will mean another thing in a later Python, or is too large.
    """

    def __init__(self, pattern: str, where: str) -> None:
        self.pattern = pattern
        self.where = where
        self._stopped: InvalidRequest | None = None
        self._ascii, self.groups, self.names = _compile(pattern, True)

    @cached_property
    def _any(self) -> regex.Pattern[str]:
        return _compile(self.pattern, False)[0]

    def search(self, text: str) -> regex.Match[str] | None:
        """The first match.

        Raises:
            InvalidRequest: It takes too long.
        """
        try:
            return self._for(text).search(text, timeout=_limit(text))
        except TimeoutError:
            raise self._too_long(text) from None

    def finditer(self, text: str) -> Iterator[regex.Match[str]]:
        """All matches, in turn; see :meth:`search`."""
        try:
            yield from self._for(text).finditer(text, timeout=_limit(text))
        except TimeoutError:
            raise self._too_long(text) from None

    def sub(self, replacement: Callable[[Any], str], text: str) -> str:
        """The text with every match replaced; see :meth:`search`."""
        try:
            replaced: str = self._for(text).sub(replacement, text, timeout=_limit(text))
        except TimeoutError:
            raise self._too_long(text) from None
        return replaced

    def _for(self, text: str) -> regex.Pattern[str]:
        if self._stopped is not None:  # once is enough: a store may hold ten thousand such texts
            raise InvalidRequest(*self._stopped.args)
        return self._ascii if text.isascii() else self._any

    def _too_long(self, text: str) -> InvalidRequest:
        reason = (
            f"its pattern took more than {_limit(text):.1f} s on a text of {len(text)} characters, and was "
            "stopped; avoid a repetition inside another, as in (a+)+, and choices that begin alike"
        )
        self._stopped = InvalidRequest(self.where, reason)
        return self._stopped


def _limit(text: str) -> float:
    return SECONDS + len(text) * _SECONDS_PER_CHARACTER


@lru_cache(maxsize=512)
def _compile(pattern: str, is_ascii: bool) -> tuple[regex.Pattern[str], int, Mapping[str, int]]:
    """The pattern for texts of ASCII alone, for which there are shorter words, or for all."""
    import regex  # noqa: PLC0415 - most have no patterns of their own

    parsed = _parse(pattern)
    written = _Writer(is_ascii=is_ascii).sequence(parsed, parsed.state.flags)
    try:
        compiled = regex.compile(written, regex.VERSION0, cache_pattern=False)
    except (regex.error, RecursionError, OverflowError, MemoryError) as error:
        raise PatternError(f"it cannot be run with a limit: {error}") from None
    return compiled, parsed.state.groups - 1, dict(parsed.state.groupdict)


def _parse(pattern: str) -> Any:
    try:
        # Warnings are caught for the whole process; so once for each pattern, and by one thread at a time.
        with _WARNINGS_LOCK, warnings.catch_warnings():
            warnings.simplefilter("error")  # it will mean something else one day
            return _parser.parse(pattern)
    except (re.error, Warning) as error:
        raise PatternError(str(error)) from None
    except (OverflowError, RecursionError):
        raise PatternError("it is too large") from None


class _Writer:
    """Writes down what Python's parser read."""

    def __init__(self, *, is_ascii: bool) -> None:
        self._is_ascii = is_ascii
        self._weight = 0
        self._factor = 1
        self._depth = 0

    def sequence(self, items: Any, flags: int) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise PatternError("it is nested too deeply")
        written = "".join([self._one(str(kind), value, flags) for kind, value in items])
        self._depth -= 1
        return written

    def _one(self, kind: str, value: Any, flags: int) -> str:
        self._weight += self._factor
        if self._weight > _MOST_WEIGHT:
            raise PatternError("it is too large")
        write = getattr(self, f"_{kind.lower()}", None)
        if write is None:
            raise PatternError(f"it has a part that cannot be run with a limit: {kind.lower()}")
        written: str = write(value, flags)
        return written

    def _literal(self, code: int, flags: int) -> str:
        alike = self._other_cases(code, code, flags)
        return f"[{_character(code)}{alike}]" if alike else _character(code)

    def _not_literal(self, code: int, flags: int) -> str:
        return self._in([(sre.NEGATE, None), (sre.LITERAL, code)], flags)

    def _any(self, _: None, flags: int) -> str:
        return "(?s:.)" if flags & re.DOTALL else r"[^\n]"

    def _in(self, items: Any, flags: int) -> str:
        """A set; what a class leaves out cannot stand in one, and so stands beside it."""
        inside, beside = "", []
        for kind, value in items:
            if kind is sre.LITERAL:
                inside += self._range(value, value, flags)
            elif kind is sre.RANGE:
                first, last = value
                inside += self._range(first, last, flags)
            elif kind is sre.CATEGORY:
                name = str(value).removeprefix("CATEGORY_")
                members = self._members(name.removeprefix("NOT_"), flags)
                if name.startswith("NOT_"):
                    beside.append(f"[^{members}]")
                else:
                    inside += members
        is_negated = bool(items) and items[0][0] is sre.NEGATE
        if not beside:
            return f"[{'^' if is_negated else ''}{inside}]"
        either = "|".join([*([f"[{inside}]"] if inside else []), *beside])
        return f"(?:(?!{either})(?s:.))" if is_negated else f"(?:{either})"

    def _range(self, first: int, last: int, flags: int) -> str:
        written = _character(first) if first == last else f"{_character(first)}-{_character(last)}"
        return written + self._other_cases(first, last, flags)

    def _other_cases(self, first: int, last: int, flags: int) -> str:
        """What a range also matches where case makes no difference."""
        if not flags & re.IGNORECASE:
            return ""
        cases = _ascii_cases() if flags & re.ASCII else _cases()
        found = {
            other
            for code in (range(first, last + 1) if last - first < len(cases) else cases)
            if first <= code <= last
            for other in cases.get(code, ())
            if not first <= other <= last and (other < 0x80 or not self._is_ascii)
        }
        return "".join(map(_character, sorted(found)))

    def _members(self, name: str, flags: int) -> str:
        if flags & re.ASCII:
            return _ASCII_CLASSES[name]
        return _CLASSES[name] if name == "SPACE" or not self._is_ascii else f"\\{name[0].lower()}"

    def _branch(self, value: Any, flags: int) -> str:
        return f"(?:{'|'.join([self.sequence(one, flags) for one in value[1]])})"

    def _subpattern(self, value: Any, flags: int) -> str:
        group, added, removed, items = value
        if added & (re.ASCII | re.UNICODE):  # where Python's engine is of two minds about sets
            raise PatternError("it changes between ASCII and Unicode on its way; put (?a) at its start")
        inner = (flags | added) & ~removed
        written = self.sequence(items, inner)
        return f"(?:{written})" if group is None else f"({written})"

    def _atomic_group(self, items: Any, flags: int) -> str:
        return f"(?>{self.sequence(items, flags)})"

    def _max_repeat(self, value: Any, flags: int, mark: str = "") -> str:
        least, most, items = value
        before = self._factor
        self._factor *= max(1, int(least) if most is sre.MAXREPEAT else int(most))
        if self._factor > _MOST_WEIGHT * 10:
            raise PatternError("it is too large")
        written = self.sequence(items, flags)
        self._factor = before
        return f"(?:{written}){{{int(least)},{'' if most is sre.MAXREPEAT else int(most)}}}{mark}"

    def _min_repeat(self, value: Any, flags: int) -> str:
        return self._max_repeat(value, flags, "?")

    def _possessive_repeat(self, value: Any, flags: int) -> str:
        return f"(?>{self._max_repeat(value, flags)})"

    def _assert(self, value: Any, flags: int, mark: str = "=") -> str:
        direction, items = value
        if direction < 0 and len(set(items.getwidth())) > 1:
            raise PatternError("look-behind requires fixed-width pattern")
        return f"(?{_LOOK_SIGNS[direction]}{mark}{self.sequence(items, flags)})"

    def _assert_not(self, value: Any, flags: int) -> str:
        return self._assert(value, flags, "!")

    def _failure(self, _: object, __: int) -> str:
        return "(?!)"

    def _groupref(self, group: int, flags: int) -> str:
        if flags & re.IGNORECASE:
            reason = "it refers to a group where case makes no difference; that cannot be run with a limit"
            raise PatternError(reason)
        return f"(?:\\{group})"

    def _groupref_exists(self, value: Any, flags: int) -> str:
        group, yes, no = value
        otherwise = "" if no is None else self.sequence(no, flags)
        return f"(?({group}){self.sequence(yes, flags)}|{otherwise})"

    def _at(self, place: Any, flags: int) -> str:
        name = str(place)
        if name in ("AT_BOUNDARY", "AT_NON_BOUNDARY"):
            return self._boundary(flags, is_one=name == "AT_BOUNDARY")
        in_lines = flags & re.MULTILINE
        return {
            "AT_BEGINNING": r"(?<![^\n])" if in_lines else r"\A",
            "AT_BEGINNING_STRING": r"\A",
            "AT_END": r"(?![^\n])" if in_lines else r"(?=\n?\Z)",
            "AT_END_STRING": r"\Z",
        }[name]

    def _boundary(self, flags: int, *, is_one: bool) -> str:
        if self._is_ascii:
            # Python's \B does not match in the empty text before version 3.14.
            return r"\b" if is_one else _NO_BOUNDARY
        word = f"[{self._members('WORD', flags)}]"
        if is_one:
            return f"(?:(?<={word})(?!{word})|(?<!{word})(?={word}))"
        return f"(?:(?<={word})(?={word})|(?<!{word})(?!{word}))"


_NO_BOUNDARY: Final = r"\B" if re.search(r"\B", "") else r"(?!\A\Z)\B"


@lru_cache(maxsize=1)
def _cases() -> Mapping[int, frozenset[int]]:
    """Every character that has a case, and all that :mod:`re` takes for it where case makes no difference."""
    by_lower: dict[int, set[int]] = {}
    for code in range(_LAST_CASED):
        lower = _sre.unicode_tolower(code)
        if lower != code:
            by_lower.setdefault(lower, {lower}).add(code)
    found: dict[int, set[int]] = {}
    for lower in {*by_lower, *_EXTRA_CASES}:
        alike = set().union(*(by_lower.get(one, {one}) for one in (lower, *_EXTRA_CASES.get(lower, ()))))
        for code in by_lower.get(lower, {lower}):
            found[code] = found.get(code, set()) | alike
    return {code: frozenset(alike) for code, alike in found.items()}


@lru_cache(maxsize=1)
def _ascii_cases() -> Mapping[int, frozenset[int]]:
    letters = [code for code in range(0x80) if chr(code).isalpha()]
    return {code: frozenset([code, code ^ 0x20]) for code in letters}


def _character(code: int) -> str:
    return chr(code) if code < 0x80 and chr(code).isalnum() else f"\\U{code:08x}"
