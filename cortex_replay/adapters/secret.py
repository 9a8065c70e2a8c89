"""A key that does not show itself."""

from __future__ import annotations

import os
from typing import Final, NoReturn

from cortex_replay.errors import InvalidRequest

__all__ = ["ApiKey", "key_in_environment", "read_key"]

_HIDDEN: Final = "***"


class ApiKey:
    """Holds a key, and gives it only to whoever calls :meth:`reveal`.

    ``repr`` and ``str`` hide it, because tracebacks with local variables, logs and failed assertions
    print whatever they find.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"ApiKey({_HIDDEN})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not to be copied into a file or another process")


def read_key(value: object) -> ApiKey | InvalidRequest:
    """The key, or what is wrong with it.

    The error is given and not raised, so that the caller can drop the value first: a traceback with
    local variables would show it.
    """
    if not isinstance(value, str):
        return InvalidRequest("api_key", "is not text")
    stripped = value.strip()  # a file or a shell leaves a line end
    if not stripped:
        return InvalidRequest("api_key", "is empty")
    if not stripped.isascii() or not stripped.isprintable() or " " in stripped:
        return InvalidRequest("api_key", "holds characters that no header can carry")
    return ApiKey(stripped)


def key_in_environment(*names: str) -> ApiKey | InvalidRequest:
    """The first of the variables that is set and not empty."""
    for name in names:
        if os.environ.get(name, "").strip():
            return read_key(os.environ[name])
    return InvalidRequest("api_key", f"there is none; set {' or '.join(names)}")
