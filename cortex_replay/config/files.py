"""Finding and reading the file that holds a project's settings.

It is the nearest one, going up from a folder to the top of its git repository, or to the root of the
file system. A ``pyproject.toml`` without ``[tool.cortex-replay]`` counts as none. What a file says is
taken as it stands there: settings are not read through a symbolic link, since the paths in them would
mean one thing beside the link and another beside its target.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from cortex_replay.config import bounds
from cortex_replay.config.checks import (
    KEY_ADVICE,
    REMOTE_ADVICE,
    config_errors,
    is_key_like,
    printable,
    shown_name,
)
from cortex_replay.disk import READ_FLAGS
from cortex_replay.errors import ConfigError
from cortex_replay.secret_names.names import is_secret_setting

__all__ = [
    "OWN_NAME",
    "PYPROJECT",
    "ConfigFile",
    "file_to_make",
    "find_config",
    "find_user_config",
    "read_at_most",
    "shown_path",
    "user_folder",
]

OWN_NAME: Final = "cortex-replay.toml"
PYPROJECT: Final = "pyproject.toml"
MAX_BYTES: Final = 2**20

_TOOL: Final = "cortex-replay"
_OF_OTHER_LANGUAGES: Final = ("package.json", "go.mod", "Cargo.toml")
_USER_NAME: Final = "config.toml"
_FLAGS: Final = READ_FLAGS & ~getattr(os, "O_NOFOLLOW", 0)
_FREE_NAMES: Final = frozenset([("redaction", "extra_patterns"), ("normalisers",)])
"""Tables whose names are the user's, and may well be called after the key that a pattern is to find."""
_KEY_SETTINGS: Final = frozenset(["key_env", "key_file", "redact_key", "token_env", "token_file"])
"""The settings that are about keys and hold none."""


class ConfigFile(NamedTuple):
    """A file with settings."""

    path: Path
    shown: str
    """The path for a person, short."""
    prefix: str
    """What stands before the name of a setting in this file."""
    table: dict[str, Any]
    """The settings; not to be changed."""
    is_project: bool = True
    """Whether it came with a repository; else it is the user's own."""

    def where(self, *names: str) -> str:
        """The place of a setting, for a message."""
        return f"{self.shown}: {self.prefix}{'.'.join(names)}"


def shown_path(path: Path) -> str:
    """A path as short as it can be said from here."""
    try:
        return min(os.path.relpath(path), str(path), key=len)
    except (OSError, ValueError):  # this folder is gone; or it is on another drive
        return str(path)


@config_errors()
def find_config(start: Path) -> ConfigFile | None:
    """The nearest file with settings, from ``start`` upward.

    Raises:
        ConfigError: It cannot be read, or is not what it should be; or there are two in one folder.
    """
    for folder in _folders_from(start):
        own, shared = _own_file(folder), _pyproject(folder)
        if own is not None and own.table and shared is not None:
            reason = f"{shared.shown} has settings too; keep them in one of the two"
            raise ConfigError(own.shown, reason)
        found = shared if own is None or (shared is not None and not own.table) else own
        if found is not None:
            _refuse_keys(found, found.table)
            return found
    return None


def file_to_make(start: Path) -> tuple[str, str]:
    """The file that settings would go to where there is none, and what stands before their names in it.

    A Python project has its ``pyproject.toml``; any other gets a file of our own.
    """
    for folder in _folders_from(start):
        if _exists(folder, PYPROJECT):
            return shown_path(folder / PYPROJECT), f"tool.{_TOOL}."
        if any(_exists(folder, name) for name in _OF_OTHER_LANGUAGES):
            break
    return OWN_NAME, ""


def user_folder(environment: Mapping[str, str]) -> Path | None:
    """Where the user keeps what no repository may say; ``None`` if there is no such folder."""
    base = environment.get("XDG_CONFIG_HOME", "")
    if not base.startswith("/"):  # a relative one is to be ignored, says its specification
        home = environment.get("HOME", "")
        base = f"{home}/.config" if home.startswith("/") else ""
    return Path(base, _TOOL) if base else None


@config_errors()
def find_user_config(environment: Mapping[str, str]) -> ConfigFile | None:
    """The user's own settings, which hold in every project.

    Raises:
        ConfigError: They cannot be read, are not sound, or others could have written them.
    """
    folder = user_folder(environment)
    if folder is None or not _exists(folder, _USER_NAME):
        return None
    path = folder / _USER_NAME
    shown = shown_path(path)
    read = _read(path)
    if read is None:
        return None
    facts = path.stat()
    if hasattr(os, "geteuid") and (facts.st_uid not in (os.geteuid(), 0) or facts.st_mode & 0o022):
        raise ConfigError(shown, "others could have written it; run: chmod go-w, or make it your own")
    file = ConfigFile(path, shown, "", _parse(read, shown), is_project=False)
    _refuse_keys(file, file.table)
    return file


def _folders_from(start: Path) -> Iterator[Path]:
    try:
        here = start.resolve()
    except (OSError, RuntimeError, ValueError):
        raise ConfigError(shown_path(start), "settings cannot be looked for there") from None
    for folder in (here, *here.parents):
        yield folder
        if _exists(folder, ".git"):  # a folder, or a file in a worktree or a submodule
            return


def _exists(folder: Path, name: str) -> bool:
    return os.path.lexists(f"{folder}/{name}")  # asked for each folder, at a fifth of what a Path costs


def _own_file(folder: Path) -> ConfigFile | None:
    if not _exists(folder, OWN_NAME):
        return None
    path = folder / OWN_NAME
    if path.is_symlink():
        raise _link_error(shown_path(path))
    read = _read(path)
    if read is None:
        return None
    shown = shown_path(path)
    table = _parse(read, shown)
    if isinstance(tool := table.get("tool"), dict) and _TOOL in tool:
        raise ConfigError(f"{shown}: tool.{_TOOL}", f"that table is for {PYPROJECT}; leave it out here")
    return ConfigFile(path, shown, "", table)


def _pyproject(folder: Path) -> ConfigFile | None:
    if not _exists(folder, PYPROJECT):
        return None
    path = folder / PYPROJECT
    read = _read(path)
    if read is None or _TOOL.encode() not in read:
        return None  # not about us, and not ours to complain about
    shown = shown_path(path)
    tool = _parse(read, shown).get("tool")
    table = tool.get(_TOOL) if isinstance(tool, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise ConfigError(f"{shown}: tool.{_TOOL}", "expected a table")
    if path.is_symlink():
        raise _link_error(shown)
    return ConfigFile(path, shown, f"tool.{_TOOL}.", table)


def _read(path: Path) -> bytes | None:
    """The content of a file; ``None`` where there is none."""
    try:
        facts, data = read_at_most(path, MAX_BYTES)
    except FileNotFoundError:
        return None  # a link to nowhere, or it is gone
    except OSError as error:
        raise ConfigError(shown_path(path), f"cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(facts.st_mode):
        raise ConfigError(shown_path(path), "is not a regular file")
    if _is_planted(path.parent, facts):
        return None
    if len(data) > MAX_BYTES:
        raise ConfigError(shown_path(path), f"is larger than {MAX_BYTES} bytes")
    return data


def read_at_most(path: Path, most: int, flags: int = 0) -> tuple[os.stat_result, bytes]:
    """What a file is, and its bytes: one more than ``most`` if it has more, none if it is not regular.

    Raises:
        OSError: As :func:`os.open`, with ``flags``.
    """
    descriptor = os.open(path, _FLAGS | flags)
    try:
        facts, data = os.fstat(descriptor), b""
        if stat.S_ISREG(facts.st_mode):
            while len(data) <= most and (more := os.read(descriptor, most + 1 - len(data))):
                data += more
        return facts, data
    finally:
        os.close(descriptor)


def _is_planted(folder: Path, facts: os.stat_result) -> bool:
    """Whether somebody else put it in a folder where everybody may, such as ``/tmp``: a server that it
    names would get our keys."""
    if not hasattr(os, "geteuid") or facts.st_uid in (os.geteuid(), 0):
        return False
    mode = folder.stat().st_mode
    return bool(mode & stat.S_ISVTX and mode & stat.S_IWOTH)


def _link_error(shown: str) -> ConfigError:
    return ConfigError(shown, "is a symbolic link; put the settings in a file of their own")


def _parse(data: bytes, shown: str) -> dict[str, Any]:
    problem = None
    if data.startswith(b"\xef\xbb\xbf"):
        problem = "starts with a byte order mark; save it as UTF-8 without one"
    else:
        try:
            return _parse_toml(data)
        except UnicodeDecodeError:
            problem = "is not UTF-8"
        except _TooMuch as error:
            problem = f"{error}; no configuration needs that"
        except (ValueError, RecursionError) as error:
            problem = f"is not TOML: {error}"
    raise ConfigError(shown, problem)


class _TooMuch(Exception):
    """More than is ever parsed."""


@lru_cache(maxsize=8)
def _parse_toml(data: bytes) -> dict[str, Any]:
    """By content: the same bytes say the same, whatever the clock of the file system thinks."""
    text = data.decode()
    problem = bounds.problem_of(text)
    if problem is not None:
        raise _TooMuch(problem)
    return tomllib.loads(text)


def _refuse_keys(file: ConfigFile, value: object, names: tuple[str, ...] = ()) -> None:
    """Refuse what is a key by its name or by its look, anywhere, and never say it; and names that cannot be
    seen as they are."""
    if isinstance(value, dict):
        for name, inner in value.items():
            printable(name, file.where(*map(shown_name, (*names, name))))
            _refuse_keys(file, inner, (*names, name))
    elif isinstance(value, list):
        for inner in value:
            _refuse_keys(file, inner, names)
    elif isinstance(value, str):
        is_of_tool = names[:1] == ("mcp",) and names[2:-1] == ("tools",)
        is_free = names[:-1] in _FREE_NAMES or names[-1] in _KEY_SETTINGS or is_of_tool
        if is_key_like(value) or (is_secret_setting(names[-1]) and not is_free):
            advice = REMOTE_ADVICE if names[0] == "remote" else KEY_ADVICE
            raise ConfigError(file.where(*map(shown_name, names)), advice)
