"""The table of bindings: which values of a run's surroundings are bound."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cortex_replay import validation
from cortex_replay.bindings.placeholders import CLOSE, ESCAPE, OPEN
from cortex_replay.bindings.programs import PROGRAMS
from cortex_replay.bindings.rules import BindingRules, PlaceRule, ValueRule
from cortex_replay.bindings.shapes import ALWAYS, SHAPES
from cortex_replay.bindings.surroundings import KNOWN
from cortex_replay.config import checks
from cortex_replay.errors import InvalidRequest
from cortex_replay.secret_names.names import is_secret_variable

__all__ = ["read_bindings"]

_TABLE: Final = ("off", "shapes", "values", "rules")
_ALL: Final = "all"
_VALUE: Final = ("env", "value")
_RULE: Final = ("bind", "before", "after", "learned")
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_MOST_RULES: Final = 500
_LONGEST_CONTEXT: Final = 200
_LONGEST_VALUE: Final = 2000
_LEAST_CONTEXT: Final = 3


def read_bindings(table: object) -> BindingRules:
    """The rules that a table holds.

    Raises:
        InvalidRequest: It says what cannot be; ``field`` is the place below ``bindings``.
    """
    given = _table(table, _TABLE, "")
    values = {
        _name(name): _value(entry, f"values.{_name(name)}")
        for name, entry in _entries(given.get("values", {}), "values").items()
    }
    bindable = (*KNOWN, *SHAPES, *values)
    rules = validation.items(given.get("rules"), "rules")
    checks.refuse_more(rules, _MOST_RULES, "rules", "rules")
    return BindingRules(
        off=_off(given.get("off"), (*bindable, PROGRAMS)),
        shapes=_shapes(given["shapes"]) if "shapes" in given else ALWAYS,
        values=values,
        rules=tuple(_rule(entry, f"rules[{i}]", bindable) for i, entry in enumerate(rules)),
    )


def _off(given: object, known: tuple[str, ...]) -> tuple[str, ...]:
    names = _names(given, "off", (*known, _ALL))
    return known if _ALL in names else names


def _shapes(given: object) -> tuple[str, ...]:
    for i, name in enumerate(validation.texts(given, "shapes")):
        if name in SHAPES and name not in ALWAYS:
            reason = f"a {name} is bound at one place only: write a rule, or run cortex-replay learn"
            raise InvalidRequest(f"shapes[{i}]", reason)
    return _names(given, "shapes", ALWAYS)


def _names(given: object, where: str, known: Iterable[str]) -> tuple[str, ...]:
    names = validation.texts(given, where)
    for i, name in enumerate(names):
        _refuse_unknown(name, f"{where}[{i}]", known)
    return tuple(dict.fromkeys(names))


def _refuse_unknown(name: str, where: str, known: Iterable[str]) -> None:
    known = tuple(known)
    if name not in known:
        hint = checks.did_you_mean(name, known) or f"; there are {', '.join(known)}"
        raise InvalidRequest(where, f"names nothing that is bound{hint}")


def _name(name: str) -> str:
    shown = checks.shown_name(name)
    if not _NAME.fullmatch(name):
        reason = "expected a name of small letters, digits, - and _, at most 40, with a letter first"
        raise InvalidRequest(f"values.{shown}", reason)
    if name in KNOWN or name in SHAPES or name in (ESCAPE, PROGRAMS, _ALL):
        raise InvalidRequest(f"values.{shown}", "is bound already; choose another name")
    return name


def _value(entry: object, where: str) -> ValueRule:
    table = _table(entry, _VALUE, where)
    if len(table) != 1:
        raise InvalidRequest(where, 'expected { env = "VARIABLE" } or { value = "text" }')
    if "value" in table:
        return ValueRule(value=_line(table["value"], f"{where}.value", _LONGEST_VALUE))
    (variable,) = checks.variables([table["env"]], f"{where}.env")
    if is_secret_variable(variable):
        reason = "names a secret, which no recording may be filled with"
        raise InvalidRequest(f"{where}.env", reason)
    return ValueRule(env=variable)


def _rule(entry: object, where: str, bindable: Iterable[str]) -> PlaceRule:
    table = _table(entry, _RULE, where)
    if "bind" not in table:
        raise InvalidRequest(where, "lacks bind: a shape, or the name of a known value")
    bind = validation.text(table["bind"], f"{where}.bind")
    _refuse_unknown(bind, f"{where}.bind", bindable)
    before, after, learned = (
        _line(table[name], f"{where}.{name}", _LONGEST_CONTEXT) if name in table else ""
        for name in ("before", "after", "learned")
    )
    if len("".join((before + after).split())) < _LEAST_CONTEXT:
        reason = f"says too little of its place: before and after need {_LEAST_CONTEXT} characters together"
        raise InvalidRequest(where, reason)
    return PlaceRule(bind=bind, before=before, after=after, learned=learned)


def _line(value: object, where: str, most: int) -> str:
    given = checks.printable(validation.text(value, where), where, also="\t")
    checks.refuse_more(given, most, where, "characters")
    if not given:
        raise InvalidRequest(where, "is empty; leave it out")
    if OPEN in given or CLOSE in given:
        raise InvalidRequest(where, f"must not hold {OPEN} or {CLOSE}, which mark what is bound")
    return given


def _entries(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequest(where, "expected a table")
    checks.refuse_more(value, checks.MAX_ENTRIES, where)
    return value


def _table(value: object, known: Iterable[str], where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequest(where, "expected a table")
    for name in value:
        if name not in known:
            place = ".".join(filter(None, (where, checks.shown_name(name))))
            raise InvalidRequest(place, f"there is no such setting{checks.did_you_mean(name, known)}")
    return value
