"""Where the files of a store are besides its work tree: the settings of ``[tool.cortex-replay.remote]``.

A project's file names a bucket, and what is kept there. It names no endpoint, no account, no profile and no
key: who asks, and whom, is for the user's environment to say. The cache is the user's as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args
from urllib.parse import unquote

from cortex_replay import validation
from cortex_replay.config import checks
from cortex_replay.config.checks import Check
from cortex_replay.errors import ConfigError, InvalidRequest
from cortex_replay.validation import keep

__all__ = [
    "CACHE_SIZE_VARIABLE",
    "CACHE_VARIABLE",
    "OFFLINE_VARIABLE",
    "OF_USERS",
    "REMOTE_CHECKS",
    "REMOTE_VARIABLES",
    "URL_VARIABLE",
    "Keep",
    "RemoteSettings",
    "cache_folder",
    "file_path",
    "is_offline",
    "remote_url",
]

Keep = Literal["git", "remote", "large-remote"]
"""Where files are kept: in git, with copies in the bucket; in the bucket; the large ones in the bucket."""

URL_VARIABLE: Final = "CORTEX_REPLAY_REMOTE"
OFFLINE_VARIABLE: Final = "CORTEX_REPLAY_OFFLINE"
CACHE_VARIABLE: Final = "CORTEX_REPLAY_CACHE"
CACHE_SIZE_VARIABLE: Final = "CORTEX_REPLAY_CACHE_SIZE"
REMOTE_VARIABLES: Final[Mapping[str, str]] = {URL_VARIABLE: "url", CACHE_SIZE_VARIABLE: "cache_size"}
"""The environment variables that give a setting of the table."""
OF_USERS: Final = frozenset(["cache_size"])
"""What only the user says: the cache is one for all projects."""

_MAX_URL: Final = 1000
_FILE: Final = "file://"
# Plain names only. What a server, a proxy or a signature could read in two ways is not one.
_BUCKETS: Final = {
    "s3": re.compile(r"[a-z0-9](?:[a-z0-9-]|\.(?!\.)){1,61}[a-z0-9]"),
    "gs": re.compile(r"[a-z0-9](?:[a-z0-9_-]|\.(?!\.)){1,220}[a-z0-9]"),
    "az": re.compile(r"[a-z0-9](?:[a-z0-9]|-(?!-)){1,61}[a-z0-9]"),
}
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_=+-][A-Za-z0-9._=+-]*")
_NUMBERS_ALONE: Final = re.compile(r"[0-9.]+")
_REGION: Final = re.compile(r"[a-z]{2,4}(?:-[a-z]{2,12}){1,3}-[0-9]{1,2}")
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?(|B|kB|KiB|MB|MiB|GB|GiB|TB|TiB)")
_UNITS: Final = {"": 1, "B": 1} | {
    f"{letter}{end}": base ** (i + 1)
    for base, end, letters in ((1000, "B", "kMGT"), (1024, "iB", "KMGT"))
    for i, letter in enumerate(letters)
}
_EXPECTED: Final = (
    "expected a bucket such as s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or "
    "file:///folder, in plain letters, without a user name, a server or a query"
)


def remote_url(value: object, where: str) -> str:
    """The URL of a bucket, or of a part of one, in its one spelling.

    Raises:
        InvalidRequest: It names something else, or more than that.
    """
    url = checks.word(value, where).rstrip("/")
    checks.refuse_more(url, _MAX_URL, where, "characters")
    scheme, separator, rest = url.partition("://")
    if scheme == "file" and separator:
        _refuse_odd_path(rest, where)
        return url
    bucket, *segments = rest.split("/")
    name = _BUCKETS.get(scheme)
    is_bucket = name is not None and name.fullmatch(bucket) and not _NUMBERS_ALONE.fullmatch(bucket)
    if not is_bucket or not all(map(_SEGMENT.fullmatch, segments)):
        raise InvalidRequest(where, _EXPECTED)
    return url


def file_path(url: str) -> Path | None:
    """The folder that a ``file://`` URL names; ``None`` for a bucket elsewhere."""
    return Path(unquote(url.removeprefix(_FILE))) if url.startswith(_FILE) else None


def _refuse_odd_path(rest: str, where: str) -> None:
    if not rest.startswith("/"):
        raise InvalidRequest(where, "a file:// URL has no server and is not relative: write file:///folder")
    segments = unquote(rest, errors="replace").split("/")[1:]
    checks.printable("/".join(segments), where)
    has_more = "?" in rest or "#" in rest or "\\" in rest or "\ufffd" in "".join(segments)
    if has_more or len(segments) != rest.count("/") or any(one in ("", ".", "..") for one in segments):
        raise InvalidRequest(where, "expected the plain path of a folder, without dots, as in file:///folder")


def _region(value: object, where: str) -> str:
    given = checks.word(value, where)
    if not _REGION.fullmatch(given):
        raise InvalidRequest(where, "expected a region such as eu-central-1")
    return given


def _size(value: object, where: str) -> int:
    """A number of bytes, or a text such as ``5 GiB``."""
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            raise InvalidRequest(where, "expected a number of bytes, or a size such as 100 KiB or 5 GiB")
        value = int(found[1]) * _UNITS[found[2]]
    return validation.whole_number(value, where, validation.MAX_U64)


REMOTE_CHECKS: Final[Mapping[str, Check]] = {
    "url": checks.optional(remote_url),
    "region": checks.optional(_region),
    "keep": checks.choice_of(get_args(Keep)),
    "large": _size,
    "cache_size": _size,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSettings:
    """A remote, and what it is for; `docs/configuration.md` is the guide."""

    url: str | None = None
    """The bucket; ``None`` for no remote."""
    region: str | None = None
    """Where a bucket of S3 is; ``None`` for what the environment says."""
    keep: Keep = "git"
    large: int = 100 * 1024
    """From how many bytes on a file is large."""
    cache_size: int = 5 * 1024**3
    """How many bytes of fetched files are kept on this machine, for all stores together."""

    def __post_init__(self) -> None:
        for name, check in REMOTE_CHECKS.items():
            keep(self, name, check(getattr(self, name), name))


def is_offline(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the user wants no bucket asked: what is not in the cache is missing."""
    return environment.get(OFFLINE_VARIABLE, "").strip().lower() not in ("", "0", "false")


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where this user keeps what was fetched; ``None`` for a user without a home folder.

    Raises:
        ConfigError: The variable names a folder in no certain place.
    """
    home = environment.get("HOME", "")
    named = environment.get(CACHE_VARIABLE, "").strip()
    if named:
        path = Path(checks.path(named, CACHE_VARIABLE))
        if path.parts[:1] == ("~",) and home:
            path = Path(home, *path.parts[1:])
        if not path.is_absolute() or ".." in path.parts:
            raise ConfigError(CACHE_VARIABLE, "expected an absolute path, without dots")
        return path
    base = environment.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):  # a relative one is to be ignored, says its specification
        base = f"{home}/.cache" if home.startswith("/") else ""
    return Path(base, "cortex-replay") if base else None
