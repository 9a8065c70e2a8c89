"""The setting ``remote.keep`` as it stands in a configuration, and how it is changed: that line alone."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from cortex_replay.errors import ConfigError

__all__ = ["set_keep"]

_TABLE: Final = re.compile(rb"^[ \t]*\[", re.MULTILINE)
_KEEP: Final = re.compile(rb"^[ \t]*keep[ \t]*=[ \t]*(\"[^\"\n]*\"|'[^'\n]*')", re.MULTILINE)


def set_keep(data: bytes, shown: str, prefix: str, keep: str) -> bytes:
    """A file of settings with another value for ``keep``; no other byte differs.

    Args:
        data: The file as it is.
        shown: Its path, for a message.
        prefix: What stands before the names of settings in it.
        keep: The value.

    Raises:
        ConfigError: The table stands there in another form; the message says what to write.
    """
    before = _parse(data)
    made = _write(data, re.escape(f"{prefix}remote".encode()), f'"{keep}"'.encode())
    names = [*filter(None, prefix.split(".")), "remote"]
    if before is None or made is None or _parse(made) != _with(before, names, keep):
        raise ConfigError(shown, f'has no plain table [{prefix}remote]; write there: keep = "{keep}"')
    return made


def _write(data: bytes, table: bytes, value: bytes) -> bytes | None:
    header = re.search(rb"^[ \t]*\[" + table + rb"\][ \t\r]*(?:#[^\n]*)?\n", data, re.MULTILINE)
    if header is None:
        return None
    next_table = _TABLE.search(data, header.end())
    line = _KEEP.search(data, header.end(), next_table.start() if next_table else len(data))
    if line is not None:
        return data[: line.start(1)] + value + data[line.end(1) :]
    ending = b"\r\n" if header[0].endswith(b"\r\n") else b"\n"
    return data[: header.end()] + b"keep = " + value + ending + data[header.end() :]


def _parse(data: bytes) -> dict[str, Any] | None:
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        return None


def _with(tables: dict[str, Any], names: list[str], keep: str) -> dict[str, Any]:
    """What a file says that has this value."""
    if not names:
        return {**tables, "keep": keep}
    inner = tables.get(names[0], {})
    return {**tables, names[0]: _with(inner, names[1:], keep)} if isinstance(inner, dict) else {}
