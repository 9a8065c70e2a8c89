"""Who may come in: a client on this machine, by the right name, and with the token where one is needed.

There are three doors. Providers are behind the gateway's token, except in replay on this machine. What a test
can ask of the gateway itself is behind it always. ``/rpc`` has callers with tokens of their own, which open
nothing else, and the gateway's token does not open it.

A web page that a browser shows can reach a server on loopback, too. It cannot hide where it comes from: it
sends ``Origin`` or ``Sec-Fetch-Site``, or, when it has its own name point to this machine, another ``Host``.
A server that shows pages itself lets these in, and no others.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote

from cortex_replay.engine.core import scope_name
from cortex_replay.engine.http.routes import path_problem
from cortex_replay.gateway.control import CONTROL

__all__ = ["RPC_PATH", "Access", "Entry", "Refusal", "hosts_of", "path_prefix"]

RPC_PATH: Final = "/rpc"

_SEGMENTS: Final = re.compile(r"(?:/+t-([^/]*))?(?:/+s-([^/]*))?(?=/|$)")
_SLASHES: Final = re.compile(r"/{2,}")
_OF_BROWSERS: Final = (b"origin", b"sec-fetch-site")


class Refusal(NamedTuple):
    """Why somebody is not let in."""

    status: int
    reason: str


class Entry(NamedTuple):
    """What a call says besides where it goes."""

    path: str
    scope: str
    fault: str = ""
    """What is to go wrong with it."""


class Access:
    """Lets calls in or not, before their body is read.

    Args:
        hosts: What ``Host`` may be, to the letter.
        token: The gateway's.
        is_open: Whether clients of providers need no token, by the name of their scope.
        has_rpc: Whether somebody answers ``/rpc``, and asks callers for their own tokens.
        has_pages: Whether browsers are served: who opens a page here, and what that page asks for.
    """

    def __init__(
        self,
        hosts: Iterable[str],
        token: str,
        *,
        is_open: Callable[[str], bool] = lambda _: False,
        has_rpc: bool = False,
        has_pages: bool = False,
    ) -> None:
        self._hosts = frozenset(host.lower().encode() for host in hosts)
        self._token = token.encode()
        self._is_open = is_open
        self._has_rpc = has_rpc
        self._sites = frozenset([b"none", *([b"same-origin"] if has_pages else [])])
        self._origins = frozenset(b"http://" + host for host in self._hosts) if has_pages else frozenset()

    def enter(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> Entry | Refusal:
        """The entry of a call, or the reason why it has none.

        The token comes at the start of the path, as ``/t-TOKEN``, so that every SDK can bring it with its
        base URL; the scope follows it, as ``/s-NAME``. Headers can bring both, too.
        """
        brought = self._read_headers(headers)
        if isinstance(brought, Refusal):
            return brought
        token, scope, fault = brought
        if path.startswith(("/t-", "/s-", "//")):
            match = _SEGMENTS.match(path)
            if match is not None:
                token = token if match[1] is None else match[1].encode()
                scope = scope if match[2] is None else unquote(match[2])
                path = path[match.end() :]
        path = _SLASHES.sub("/", path) if "//" in path else path or "/"
        scope = scope_name(scope)
        if not self._needs_no_token(path, scope) and not hmac.compare_digest(token, self._token):
            return Refusal(401, "the token is missing or wrong")
        problem = path_problem(path)
        if problem is not None:
            return Refusal(400, f"this path is not served: it {problem}")
        return Entry(path, scope, fault)

    def _needs_no_token(self, path: str, scope: str) -> bool:
        if self._has_rpc and path == RPC_PATH:
            return True
        return not path.startswith(CONTROL) and self._is_open(scope)

    def _read_headers(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, str, str] | Refusal:
        """The token, the scope and the fault that headers bring."""
        hosts, token, scope, fault = 0, b"", "", ""
        for name, value in headers:
            if name == b"host":
                hosts += 1
                if value.lower() not in self._hosts:
                    return Refusal(403, "this Host is not served here")
            elif name in _OF_BROWSERS and self._is_of_other_page(name, value):
                return Refusal(403, f"{'other pages' if self._origins else 'browsers'} are not served here")
            elif name == b"x-cortex-replay-token":
                token = value
            elif name == b"x-cortex-replay-scope":
                scope = unquote(value.decode("latin-1"))
            elif name == b"x-cortex-replay-fault":
                fault = value.decode("latin-1")
        return (token, scope, fault) if hosts == 1 else Refusal(403, "a call needs one Host")

    def _is_of_other_page(self, name: bytes, value: bytes) -> bool:
        """Whether a header of browsers says that a page asks which did not come from here."""
        return value not in (self._origins if name == b"origin" else self._sites)


def path_prefix(path: str) -> str:
    """The token and the scope at the start of a path, as a client wrote them."""
    match = _SEGMENTS.match(path)
    return "" if match is None else match[0]


def hosts_of(host: str, port: int) -> list[str]:
    """The names that a server on this machine is called by."""
    names = ["127.0.0.1", "localhost", "[::1]"] if host in ("127.0.0.1", "localhost", "::1") else [host]
    if ":" in host and host != "::1":
        names = [f"[{host}]"]
    return [f"{name}:{port}" for name in names] + (names if port == 80 else [])
