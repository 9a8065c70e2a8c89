"""A request of whatever library, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from cortex_replay.hosts import normal_host

__all__ = ["Request"]

_PORTS: Final = {"https": 443, "http": 80}


class Request(NamedTuple):
    """The head of a request, as it goes out."""

    method: str
    scheme: str
    authority: str
    """The host, with its port unless that is the scheme's own; no user name, no password."""
    path: str
    """Its escapes not undone, and without the query."""
    query: str
    headers: list[tuple[str, str]]
    """Names in lower case."""

    @classmethod
    def at(cls, method: str, url: str, headers: Iterable[tuple[str, str]]) -> Request:
        """The head of a request to a URL."""
        parts = urlsplit(url)
        authority = parts.netloc.rpartition("@")[2].removesuffix(f":{_PORTS.get(parts.scheme)}")
        lowered = [(name.lower(), value) for name, value in headers]
        return cls(method, parts.scheme, authority, parts.path or "/", parts.query, lowered)

    def header(self, name: str) -> str:
        """The first header of a name, or nothing."""
        return next((value for known, value in self.headers if known == name), "")

    @property
    def host(self) -> str:
        """The host in its one form."""
        return normal_host(urlsplit(f"//{self.authority}").hostname or "")

    @property
    def port(self) -> int:
        return urlsplit(f"//{self.authority}").port or _PORTS.get(self.scheme, 0)
