"""Where a server is."""

from __future__ import annotations

import ipaddress
from typing import Final

import httpx

from cortex_replay.errors import InvalidRequest

__all__ = ["Endpoint"]


class Endpoint:
    """A server's base URL, checked.

    The host is taken from the very value that the client connects to, so that no trick of spelling
    makes a foreign host look local.

    Raises:
        InvalidRequest: It is no plain http or https URL. User names are refused: they are how
            ``http://localhost:x@evil.example`` looks local, and a password in a URL ends up in logs.
    """

    def __init__(self, base_url: str) -> None:
        problem = None
        try:
            url = httpx.URL(base_url)
            _ = url.host, self._join(url, "/")
        except (httpx.InvalidURL, TypeError, UnicodeError, ValueError):
            problem = "is not a URL"
        else:
            if url.scheme not in ("http", "https") or not url.host:
                problem = "is not an http or https URL with a host"
            elif url.userinfo or "@" in url.netloc.decode("ascii"):
                problem = "must not hold a user name or password"
            elif url.port is not None and url.port > 65535:
                problem = "has no such port"
            elif url.query or url.fragment:
                problem = "must not hold a query or a fragment"
        if problem is not None:
            raise InvalidRequest("base_url", problem)
        self.url: Final = url
        self.host: Final = url.host
        self._last_path: tuple[str, httpx.URL] | None = None

    @property
    def origin(self) -> str:
        """The server, without the path: what a person needs to know which one it is."""
        return f"{self.url.scheme}://{self.url.netloc.decode('ascii')}"

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return (mapped or address).is_loopback

    def at(self, path: str) -> httpx.URL:
        """The URL of a path below this one.

        Raises:
            InvalidRequest: The path leads elsewhere, once the client has resolved its dots.
        """
        if self._last_path is not None and self._last_path[0] == path:  # most go where the last one went
            return self._last_path[1]
        base = self.url.raw_path.rstrip(b"/")
        try:
            url = self._join(self.url, path)
        except (httpx.InvalidURL, UnicodeError):
            raise InvalidRequest("path", "cannot be part of a URL") from None
        is_below = url.raw_path.startswith(base + b"/") and url.raw_path[len(base) :][:2] != b"//"
        # Only the client's own resolving makes a path shorter; escaping makes it longer.
        if not is_below or url.netloc != self.url.netloc or len(url.raw_path) < len(base) + len(path):
            raise InvalidRequest("path", "leads away from the provider's base URL")
        self._last_path = path, url
        return url

    @staticmethod
    def _join(url: httpx.URL, path: str) -> httpx.URL:
        return url.copy_with(raw_path=url.raw_path.rstrip(b"/") + path.encode("ascii"))

    def __str__(self) -> str:
        return str(self.url)
