"""Scripts in files: TOML with one ``[[rule]]`` table for each rule."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from cortex_replay import validation as check
from cortex_replay.config import bounds
from cortex_replay.config.files import read_at_most
from cortex_replay.errors import InvalidRequest
from cortex_replay.testing.rules import Rule

__all__ = ["default_rules", "load_rules", "parse_rules", "rules_of"]

# A script may be a repository's; the largest honest ones are a tenth of this.
_MAX_BYTES: Final = 8 * 2**20
_MAX_NAMES: Final = 100_000
_MAX_NESTING: Final = 60


@lru_cache(maxsize=1)
def default_rules() -> tuple[Rule, ...]:
    """The rules of the script that comes with this package.

    It answers anything, the tools ``get_weather`` and ``calculate`` included; put rules of your own
    before these.
    """
    return parse_rules(files("cortex_replay.testing").joinpath("default_script.toml").read_bytes())


def load_rules(path: str | os.PathLike[str]) -> tuple[Rule, ...]:
    """The rules of a file.

    Raises:
        InvalidRequest: It cannot be read, or is not a script.
    """
    try:
        facts, data = read_at_most(Path(path), _MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise InvalidRequest("script", f"{os.fspath(path)}: {reason or error}") from None
    if not stat.S_ISREG(facts.st_mode):  # a pipe would be waited for
        raise InvalidRequest("script", f"{os.fspath(path)}: is not a regular file")
    return parse_rules(data)


def parse_rules(data: bytes) -> tuple[Rule, ...]:
    """The rules of a file with this content.

    Raises:
        InvalidRequest: It is not TOML, or something in it is not as it should be; the message says
            which rule and which field.
    """
    if len(data) > _MAX_BYTES:
        raise InvalidRequest("script", f"is larger than {_MAX_BYTES} bytes")
    try:
        text = data.decode()
        problem = bounds.problem_of(text, _MAX_NAMES, _MAX_NESTING)
        if problem is not None:
            raise InvalidRequest("script", problem)
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise InvalidRequest("script", f"not UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise InvalidRequest("script", f"not TOML: {error}") from None
    except RecursionError:
        raise InvalidRequest("script", "nested too deeply") from None
    rules = document.pop("rule", None)
    if document:
        unknown = check.short_repr(min(document))
        raise InvalidRequest("script", f"there is no such field as {unknown}; rules are [[rule]] tables")
    if rules is None:
        raise InvalidRequest("script", "has no [[rule]] tables")
    return rules_of(rules)


def rules_of(value: object) -> tuple[Rule, ...]:
    """A list of rules, some of them perhaps in plain form.

    Raises:
        InvalidRequest: One of them is no rule.
    """
    if not isinstance(value, list | tuple):
        raise InvalidRequest("script", f"expected a list of rules, not {check.kind_of(value)}")
    return tuple(_rule(item, number) for number, item in enumerate(value, 1))


def _rule(value: object, number: int) -> Rule:
    if isinstance(value, Rule):
        return value
    if not isinstance(value, Mapping):
        reason = f"expected a Rule or an object, not {check.kind_of(value)}"
        raise InvalidRequest("script", f"rule {number}: {reason}")
    try:
        return check.from_mapping(Rule, value)
    except InvalidRequest as error:
        field = f"{error.field}: " if error.field else ""
        raise InvalidRequest("script", f"rule {number}: {field}{error.reason}") from None
