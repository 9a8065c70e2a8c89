"""Whether a model's tool call is the call of a tool that a server got.

A model knows a tool under the name that its client made of the server's name and the tool's:
``mcp__files__read``, ``files_read``, ``files.read``, or the tool's alone. Clients put ``_`` for what a
provider does not allow in a name, and cut long names.
"""

from __future__ import annotations

import re
from typing import Final

from cortex_replay.canonical import JsonValue, compact

__all__ = ["arguments_text", "names_tool"]

_OTHER: Final = re.compile(r"[^A-Za-z0-9]")
_CLIENT_PREFIXES: Final = ("mcp", "")
_SEPARATORS: Final = ("_", "__")
_SHORTEST_CUT: Final = 40
"""Providers allow 64 characters; some clients leave room for more before it."""
_LEAST_SHARED: Final = 20
_HASH: Final = re.compile(r"_*[0-9a-f]{4,40}")
_ELLIPSIS: Final = "___"


def names_tool(name: str, server: str, tool: str) -> bool:
    """Whether a model that calls a tool by a name means this tool of this server.

    Args:
        name: As the model wrote it.
        server: What we call the server. A client may call it a part of that, or something longer.
        tool: As the server calls it.
    """
    said, plain = _plain(name), _plain(tool)
    if said == plain:
        return True
    forms = _full_names(_plain(server), plain)
    return said in forms or _names_part_of(said, _plain(server), plain) or _is_cut(said, forms)


def arguments_text(arguments: JsonValue) -> str:
    """Arguments in the one form in which equal ones are equal: numbers by value, keys sorted."""
    return compact(_by_value({} if arguments is None else arguments))


def _plain(name: str) -> str:
    return _OTHER.sub("_", name)


def _full_names(server: str, tool: str) -> list[str]:
    return [
        f"{prefix}{first if prefix else ''}{server}{then}{tool}"
        for prefix in _CLIENT_PREFIXES
        for first in _SEPARATORS
        for then in _SEPARATORS
    ]


def _names_part_of(said: str, server: str, tool: str) -> bool:
    """Whether it is ``mcp__NAME__tool``, where NAME is a part of our name of the server, or holds it: we call
    ``server-everything`` what a client may call ``everything``."""
    if not said.startswith("mcp__") or not said.endswith(f"__{tool}"):
        return False
    given = said[len("mcp__") : -len(f"__{tool}")].strip("_")
    named = server.strip("_")
    return bool(given and named) and (given in named or named in given)


def _is_cut(said: str, forms: list[str]) -> bool:
    """Whether it is a long name without its end, or its middle, perhaps with a hash for that."""
    if len(said) < _SHORTEST_CUT:
        return False
    return any(_is_cut_from(said, form) for form in forms if len(form) > len(said))


def _is_cut_from(said: str, form: str) -> bool:
    if form.startswith(said):
        return True
    head, ellipsis, tail = said.partition(_ELLIPSIS)
    if ellipsis and len(head) + len(tail) >= _SHORTEST_CUT and form.startswith(head) and form.endswith(tail):
        return True
    shared = next(at for at, (mine, other) in enumerate(zip(said, form, strict=False)) if mine != other)
    # What a hash begins with may be what stood there.
    return any(
        _HASH.fullmatch(said, at) is not None for at in range(max(shared - 2, _LEAST_SHARED), shared + 1)
    )


def _by_value(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_by_value(item) for item in value]
    if isinstance(value, dict):
        return {name: _by_value(item) for name, item in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
