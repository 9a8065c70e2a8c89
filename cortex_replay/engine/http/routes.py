"""Which provider a path is for, and what it asks of it.

Clients differ in what they append to a base URL: some bring ``/v1`` themselves, some do not, and some
bring it a second time. Every path is brought into one form here, and every upstream is asked in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import chain
from typing import Final
from unicodedata import normalize
from urllib.parse import parse_qsl, unquote_to_bytes

from cortex_replay.providers import DEFAULT_ALT, KINDS, PROVIDERS, Kind, Parameters, address_at, upstream_name

__all__ = [
    "METHODS",
    "Route",
    "canonical_path",
    "path_problem",
    "unprefixed_upstream",
]

METHODS: Final = frozenset(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
"""What a provider is asked by. ``TRACE`` would send back the key, and ``CONNECT`` goes elsewhere."""

_VERSIONS: Final = re.compile(r"(?:/v1)+(?=/|$)")
_OTHER_VERSION: Final = re.compile(r"/(?:v1(?:beta|alpha)\d*|beta|anthropic)/")
_NO_VERSION: Final = re.compile(r"/api(?:/|$)")
_PLAIN_PATH: Final = re.compile(r"(?:/(?!\.)[A-Za-z0-9._~!$&'()*+,=:@-]*+)++")
_NO_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_STEPS: Final = re.compile(r"[/\\]")
_MOST_ESCAPED: Final = 8


@dataclass(frozen=True, slots=True)
class Route:
    """Where a call goes."""

    upstream: str
    """The name of the provider."""
    path: str
    """In the one form that recordings have it in."""
    protocol: str | None
    """The wire that the call is lifted by; ``None`` for what is recorded as it is."""
    parameters: Parameters = ()
    """What the path says of the request, for that wire."""
    alt: str | None = None
    """The form of answer that the wire reads, where the query may ask for another."""

    def is_lifted(self, query: str) -> bool:
        """Whether a call with this query is answered in the form of its wire."""
        if self.protocol is None or self.alt is None:
            return self.protocol is not None
        asked = [value for name, value in parse_qsl(query) if name in ("alt", "$alt")]
        return (asked or [DEFAULT_ALT]) == [self.alt]

    @classmethod
    def to(cls, upstream: str, kind: Kind, method: str, path: str) -> Route:
        """The route of a path below a provider's own."""
        path = canonical_path(path, kind)
        address = address_at(path) if method == "POST" else None
        if address is None:
            return cls(upstream, path, None)
        return cls(upstream, path.rstrip("/"), *address)


def path_problem(path: str) -> str | None:
    """Why a path, as it came, must not be put behind a provider's base URL; ``None`` for nearly all.

    A provider's key is for what is below its base path. A dot segment leads out of it, in whatever spelling
    a server on the way may read as one: escaped, escaped again, with parameters, in other dots and slashes.
    """
    if _PLAIN_PATH.fullmatch(path):
        return None
    if not path.startswith("/"):
        return "does not begin with a slash"
    if _NO_ESCAPE.search(path):
        return "has a percent sign that escapes nothing"
    for _ in range(_MOST_ESCAPED):
        if (problem := _problem_as_read(path)) is not None:
            return problem
        try:
            read = unquote_to_bytes(path).decode()
        except (UnicodeDecodeError, UnicodeEncodeError):
            return "has an escape that is no character"
        if read == path:
            return None
        path = read
    return "is escaped again and again"


def _problem_as_read(path: str) -> str | None:
    if "\\" in path:
        return "has a backslash"
    if any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in path):
        return "has a control character"
    for step in _STEPS.split(normalize("NFKC", path)):
        if step.partition(";")[0].strip() in (".", ".."):
            return "has a segment of dots"
    return None


def canonical_path(path: str, kind: Kind) -> str:
    """A path with the one ``/v1`` that its provider's API has."""
    versions = _VERSIONS.match(path)
    rest = path[versions.end() :] if versions else path
    if _NO_VERSION.match(rest):
        return rest
    is_versioned = KINDS[kind].is_versioned and not _OTHER_VERSION.match(rest)
    if versions or (is_versioned and rest not in ("", "/")):
        return f"/v1{rest}"
    return path


def unprefixed_upstream(path: str, header: Callable[[str], str], known: Collection[str]) -> str | None:
    """The provider that a path without a prefix is for; headers decide where several have it."""
    rows = PROVIDERS.items()
    by_path = (name for name, row in rows if re.match(row.own_paths, path))
    by_header = (name for name, row in rows if row.header and header(row.header))
    by_default = (name for name, row in rows if re.match(row.shared_paths, path))
    found = upstream_name(next(chain(by_path, by_header, by_default), ""))
    return found if found in known else None
