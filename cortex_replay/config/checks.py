"""Checks of single settings.

Every check takes a value and where it stands, returns the value to keep, and raises
:class:`~cortex_replay.errors.InvalidRequest` with that place; of a file, a variable or a flag that becomes a
:class:`~cortex_replay.errors.ConfigError`. No message quotes a value: somebody may have written a key there.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from cortex_replay import validation
from cortex_replay.config.ages import parse_age
from cortex_replay.config.built_in import BUILT_IN, PREFIX
from cortex_replay.errors import ConfigError, InvalidRequest
from cortex_replay.expressions import Expression, PatternError
from cortex_replay.printable import UNPRINTABLE

__all__ = [
    "KEY_ADVICE",
    "MAX_ENTRIES",
    "REMOTE_ADVICE",
    "Check",
    "age",
    "choice_of",
    "choices_of",
    "config_errors",
    "currency",
    "did_you_mean",
    "is_key_like",
    "name",
    "normaliser",
    "optional",
    "path",
    "pattern",
    "placeholder",
    "price",
    "printable",
    "refuse_more",
    "server",
    "shown_name",
    "some_words",
    "variables",
    "whole_from",
    "word",
    "words",
]

Check = Callable[[object, str], object]

_T = TypeVar("_T")

KEY_ADVICE: Final = (
    "a key does not belong in a configuration; "
    "name the environment variable that holds it (key_env; token_env for a caller) "
    "or a file with mode 0600 (key_file, token_file)"
)
REMOTE_ADVICE: Final = (
    "a key does not belong in a configuration; a bucket is asked with what your environment has, in the way "
    "of your cloud (AWS_PROFILE, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY, ...)"
)

_MOST_EXPENSIVE: Final = 1_000_000_000
_LONGEST_CURRENCY: Final = 8
_LEAST_AGE: Final = timedelta(hours=1)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
# Upper case only: most keys that end up in the place of a variable's name are not.
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,99}")
_KEY_LIKE: Final = re.compile(
    r"""(?: sk-(?=[\w-]*\d)[\w-]{20,} | [prs]k_(?:live|test)_\w{16,} | gsk_\w{40,} | hf_\w{30,} | xai-\w{40,}
    | gh[a-z]_\w{36,} | github_pat_\w{30,} | glpat-[\w-]{20,} | npm_\w{36} | pypi-[\w-]{50,}
    | xox[a-z]-[\w-]{10,} | A[KS]IA[0-9A-Z]{16} | AIza[\w-]{35} | eyJ[\w-]{10,}\.[\w-]{10,}.* )""",
    re.VERBOSE | re.ASCII,
)


MAX_ENTRIES: Final = 100
"""Of one table of providers, callers, normalisers or patterns, and of one list."""
MAX_PATTERN: Final = 1000
_MAX_WORD: Final = 2000
_MAX_PATH: Final = 4000
_MAX_PLACEHOLDER: Final = 200


@contextmanager
def config_errors(above: str = "") -> Iterator[None]:
    """Say of a value that was refused that it stands in a configuration, and what stands above it there."""
    try:
        yield
    except ConfigError:
        raise
    except InvalidRequest as error:
        raise ConfigError(above + error.field, error.reason) from None


def printable(value: str, where: str, *, also: str = "") -> str:
    """Text that says what it seems to say, wherever it is printed or written.

    Args:
        value: The text.
        where: Its place, for a message.
        also: Control characters that may be in it.

    Raises:
        InvalidRequest: It holds a control character, or one that hides or reorders text.
    """
    found = next((one[0] for one in UNPRINTABLE.finditer(value) if one[0] not in also), None)
    if found is not None:
        reason = f"holds the character U+{ord(found):04X}, which cannot be seen; leave it out"
        raise InvalidRequest(where, reason)
    return value


def refuse_more(given: Sized, most: int, where: str, what: str = "entries") -> None:
    """Refuse more than a configuration ever needs.

    Raises:
        InvalidRequest: There is more.
    """
    if len(given) > most:
        raise InvalidRequest(where, f"has {len(given)} {what}; at most {most} are taken")


def did_you_mean(value: object, known: Iterable[str]) -> str:
    """The end of a message: the known word that is nearest, if one is near."""
    near = difflib.get_close_matches(value.lower(), known, 1, 0.6) if isinstance(value, str) else []
    return f"; did you mean {near[0]}?" if near else ""


def shown_name(setting: str) -> str:
    """The name of a setting that nobody knows, for a message."""
    return setting if _NAME.fullmatch(setting) else "(a setting)"


def is_key_like(value: str) -> bool:
    """Whether a text has the shape of some service's key."""
    return _KEY_LIKE.fullmatch(value.strip()) is not None


def name(value: object, where: str) -> str:
    """A name that the user chose."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidRequest(where, "expected a name of letters, digits, - and _, at most 40")
    return value


def variables(value: object, where: str) -> tuple[str, ...]:
    """The names of environment variables; one may stand alone."""
    return _many(_variable, (value,) if isinstance(value, str) else value, where)


def words(value: object, where: str) -> tuple[str, ...]:
    return _many(word, value, where)


def some_words(value: object, where: str) -> tuple[str, ...]:
    """A list that says which; an empty one could mean none or any."""
    given = words(value, where)
    if not given:
        raise InvalidRequest(where, "is empty; leave it out to allow any")
    return given


def word(value: object, where: str) -> str:
    """Text that could stand in a header or a URL."""
    given = validation.text(value, where)
    if not given or not given.isprintable() or any(map(str.isspace, given)):
        raise InvalidRequest(where, "expected text without spaces")
    refuse_more(given, _MAX_WORD, where, "characters")
    return printable(given, where)


def path(value: object, where: str) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise InvalidRequest(where, f"expected a path, not {validation.kind_of(value)}")
    given = os.fspath(value)
    if not isinstance(given, str) or not given or "\0" in given:
        raise InvalidRequest(where, "is no path")
    refuse_more(given, _MAX_PATH, where, "characters")
    return Path(printable(given, where))


def server(value: object, where: str) -> str:
    """A base URL. The adapters look closer; here it must only be one that is safe to show."""
    url = word(value, where)
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or "\\" in url:
        raise InvalidRequest(where, "expected an http or https URL")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidRequest(where, "must not hold a user name, a password, a query or a fragment")
    return url


def pattern(value: object, where: str) -> str:
    """A regular expression that means the same in every version of Python, and never nothing."""
    given = printable(validation.text(value, where), where, also="\t\n")  # it may have lines of its own
    refuse_more(given, MAX_PATTERN, where, "characters")
    problem = _pattern_problem(given)
    if problem is not None:
        raise InvalidRequest(where, problem)
    return given


def normaliser(value: object, where: str) -> str:
    """The pattern of a normaliser: a regular expression, or ``builtin:`` and the name of one."""
    given = validation.text(value, where)
    if not given.startswith(PREFIX):
        return pattern(given, where)
    known = given.removeprefix(PREFIX)
    if known not in BUILT_IN:
        hint = did_you_mean(known, BUILT_IN) or f"; there are {', '.join(BUILT_IN)}"
        raise InvalidRequest(where, f"names no built-in normaliser{hint}")
    return given


def placeholder(value: object, where: str) -> str:
    """What stands for the text that was matched. A reader must see that there was one."""
    given = validation.text(value, where)
    if not given:
        raise InvalidRequest(where, "is empty; something must show that a text stood there")
    refuse_more(given, _MAX_PLACEHOLDER, where, "characters")
    return printable(given, where)


@lru_cache(maxsize=256)
def _pattern_problem(given: str) -> str | None:
    try:
        is_empty = Expression(given, "").search("") is not None
    except PatternError as error:
        return f"is not a sound regular expression: {error}"
    except InvalidRequest as error:
        return error.reason
    return "matches the empty text, and so everywhere" if is_empty else None


def choice_of(known: Sequence[_T]) -> Callable[[object, str], _T]:
    return partial(_choice, known)


def choices_of(known: Sequence[str]) -> Callable[[object, str], tuple[str, ...]]:
    return partial(_many, partial(_choice, known))


def price(value: object, where: str) -> Decimal:
    """An amount of money, as it is written: a number from 0.

    Raises:
        InvalidRequest: It is something else.
    """
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _MOST_EXPENSIVE:  # type: ignore[operator]
        raise InvalidRequest(where, f"expected a number from 0 to {_MOST_EXPENSIVE:,}")
    return Decimal(str(value))


def currency(value: object, where: str) -> str:
    """What stands behind an amount: ``USD``, or a sign.

    Raises:
        InvalidRequest: It is something else.
    """
    given = word(value, where)
    refuse_more(given, _LONGEST_CURRENCY, where, "characters")
    return given


def age(value: object, where: str) -> timedelta:
    """How old something may be: ``90d``; in a program, also a ``timedelta``.

    Raises:
        InvalidRequest: It is something else, or no time at all.
    """
    if not isinstance(value, timedelta):
        try:
            value = parse_age(validation.text(value, where))
        except ValueError as error:
            raise InvalidRequest(where, str(error)) from None
    if value < _LEAST_AGE:
        raise InvalidRequest(where, "must be at least 1h")
    return value


def whole_from(least: int, most: int = validation.MAX_U64) -> Callable[[object, str], int]:
    def check(value: object, where: str) -> int:
        number = validation.whole_number(value, where, most)
        if number < least:
            raise InvalidRequest(where, f"must be at least {least}")
        return number

    return check


def optional(check: Callable[[object, str], _T]) -> Callable[[object, str], _T | None]:
    return lambda value, where: None if value is None else check(value, where)


def _choice(known: Sequence[_T], value: object, where: str) -> _T:
    for one in known:
        if isinstance(value, str) and value == one:
            return one
    *others, last = map(str, known)
    hint = did_you_mean(value, map(str, known))
    raise InvalidRequest(where, f"expected {', '.join(others)}{' or ' if others else ''}{last}{hint}")


def _many(check: Callable[[object, str], str], value: object, where: str) -> tuple[str, ...]:
    refuse_more(validation.items(value, where), MAX_ENTRIES, where)
    kept = (check(item, f"{where}[{i}]") for i, item in enumerate(validation.items(value, where)))
    return tuple(dict.fromkeys(kept))


def _variable(value: object, where: str) -> str:
    if not isinstance(value, str) or not _VARIABLE.fullmatch(value):
        raise InvalidRequest(where, "expected the name of an environment variable, in capital letters")
    return value
