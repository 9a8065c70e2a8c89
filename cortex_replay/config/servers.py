"""Which server a URL names, told apart exactly: a key goes to one and not to another.

Only the plainest spelling of a host counts. Whatever two programs could read in two ways (a user name, a
percent sign, letters beyond ASCII, an address in hex) names no server here, and so gets no key.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

__all__ = ["Server", "server_of", "shown_url"]

_URL: Final = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>[a-z0-9](?:[a-z0-9._-]{0,252}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?(?:/[^\s?#@\\]*)?",
    re.IGNORECASE | re.ASCII,
)
_PORTS: Final = {"http": 80, "https": 443}
_NUMERIC_END: Final = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$")


class Server(NamedTuple):
    """A scheme, a host and a port: the three that make a server the same one."""

    scheme: str
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine, beyond doubt."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}"


@lru_cache(maxsize=256)
def server_of(url: str) -> Server | None:
    """The server of a URL; ``None`` if it is not spelled in the plain way."""
    found = _URL.fullmatch(url)
    if found is None:
        return None
    scheme, host = found["scheme"].lower(), found["host"].lower()
    port = int(found["port"] or _PORTS[scheme])
    if port > 65535:
        return None
    if host.startswith("[") or _NUMERIC_END.search(host):  # an address, or what some take for one
        try:
            address = ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            return None
        if host.startswith("[") != (address.version == 6) or getattr(address, "ipv4_mapped", None):
            return None
        host = f"[{address}]" if address.version == 6 else str(address)
    return Server(scheme, host, port)


def shown_url(url: str) -> str:
    """A server's URL as a recording may hold it: without a user's name and password, query and fragment."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
