"""Hosts in one form, so that no spelling of a name makes another host of it."""

from __future__ import annotations

import ipaddress
import re
import socket
from functools import lru_cache
from typing import Final
from unicodedata import normalize

__all__ = ["LOCAL", "host_of", "normal_host"]

LOCAL: Final = frozenset(["localhost", "127.0.0.1", "::1"])
"""This machine, by its usual names."""

_IDEOGRAPHIC_STOPS: Final = str.maketrans("\u3002\uff0e\uff61", "...")
_OLD_ADDRESS: Final = re.compile(r"(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+)){0,3}")
"""As the C library reads it: ``127.1``, ``0x7f000001`` and ``2130706433`` are one host."""
_AUTHORITY: Final = re.compile(r"(?:.*@)?(\[[^\]]*\]|[^:]*)(?::\d*)?", re.DOTALL)


@lru_cache(maxsize=1024)
def normal_host(host: str | bytes) -> str:
    """A host as a resolver takes it: small letters, no last dot, ASCII; an address in its usual form."""
    text = host.decode("utf-8", "replace") if isinstance(host, bytes) else host
    text = text.strip().removeprefix("[").removesuffix("]").translate(_IDEOGRAPHIC_STOPS)
    try:
        text = text.encode("idna").decode("ascii")
    except UnicodeError:  # no name that could be looked up; it is compared all the same
        text = normalize("NFKC", text).casefold()
    name = text.lower().rstrip(".")
    return _address(name) or name


def host_of(authority: str) -> str:
    """The host in ``user@host:port``, in its one form."""
    match = _AUTHORITY.fullmatch(authority)
    return normal_host(match[1] if match else authority)


def _address(name: str) -> str | None:
    if _OLD_ADDRESS.fullmatch(name):
        try:
            return socket.inet_ntoa(socket.inet_aton(name))
        except OSError:
            return None
    if ":" not in name:
        return None
    try:
        address = ipaddress.IPv6Address(name.partition("%")[0])
    except ValueError:
        return None
    return str(address.ipv4_mapped or address)
