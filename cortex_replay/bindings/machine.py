"""What a machine says of itself and of who works on it, in the spellings that programs print."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import tzinfo
from pathlib import Path
from typing import Final

try:
    import pwd
except ImportError:  # Windows
    pwd = None  # type: ignore[assignment]

__all__ = [
    "homes",
    "hosts",
    "kernels",
    "system",
    "temporary_folders",
    "users",
    "working_folders",
    "zone_of",
    "zones",
]

_ZONES: Final = "/zoneinfo/"
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
_LONGEST_ZONE: Final = 100
_SHORTEST_SYSTEM: Final = 8


def working_folders(environment: Mapping[str, str], cwd: str) -> list[str]:
    """The folder as the system names it, and as the user went there."""
    real = os.path.realpath(cwd)
    for path in (environment.get("PWD", ""), cwd):
        if _is_folder(path) and os.path.realpath(path) == real:
            return [real, _plain(path)]
    return [real, real]


def homes(environment: Mapping[str, str]) -> list[str]:
    """The user's folder as it is given, and without links."""
    given = environment.get("HOME", "")
    if not _is_folder(given):
        account = _account()
        given = account.pw_dir if account else ""
    return [_plain(given), os.path.realpath(given)] if _is_folder(given) else []


def temporary_folders(environment: Mapping[str, str]) -> list[str]:
    """The folder for what is temporary as it is given, and without links."""
    given = (environment.get(name, "") for name in ("TMPDIR", "TEMP", "TMP"))
    folder = next(filter(_is_folder, given), "/tmp")  # noqa: S108 - nothing is put there
    return [_plain(folder), os.path.realpath(folder)]


def users(environment: Mapping[str, str]) -> list[str]:
    """What the environment calls the user, and what the system does."""
    given = (environment.get(name, "") for name in ("USER", "LOGNAME", "USERNAME"))
    name = next(filter(_is_line, given), "")
    account = _account()
    own = account.pw_name if account else ""
    return [name or own, own or name] if name or own else []


def hosts(environment: Mapping[str, str]) -> list[str]:
    """What the machine is called by itself and in the environment, with a domain and without."""
    own, given = platform.node(), environment.get("HOSTNAME", "")
    names = [name for name in (own or given, given or own) if _is_line(name)]
    return [text for name in names for text in (name, name.partition(".")[0])]


def system() -> dict[str, str]:
    """The operating system with its version, by the program that writes it so."""
    uname = platform.uname()
    if not uname.release:
        return {}
    found = {
        "": f"{uname.system} {uname.release}",
        "platform": platform.platform(),
        "uname": f"{uname.system} {uname.node} {uname.release} {uname.version} {uname.machine}",
        "version": uname.version,
    }
    with suppress(OSError):
        found["name"] = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return {form: text for form, text in found.items() if len(text) >= _SHORTEST_SYSTEM}


def kernels() -> list[str]:
    """The release of the kernel."""
    return list(filter(None, [platform.uname().release]))


def zones(environment: Mapping[str, str]) -> list[str]:
    """The names of the time zone: the given one, and the system's, which some programs tell anyway."""
    given = environment.get("TZ", "").removeprefix(":")
    names = [name for name in (given, *_zones_of_system()) if _is_zone(name)]
    return names[:1] + names[-1:]


def _zones_of_system() -> Iterator[str]:
    with suppress(OSError, ValueError):
        yield Path("/etc/timezone").read_text(encoding="ascii")[: _LONGEST_ZONE + 1].strip()
    with suppress(OSError):
        yield os.path.realpath("/etc/localtime").rpartition(_ZONES)[2]


def _is_zone(name: str) -> bool:
    return len(name) <= _LONGEST_ZONE and _ZONE.fullmatch(name) is not None


def zone_of(environment: Mapping[str, str]) -> tzinfo | None:
    """The zone that a program with this environment reckons in; ``None`` for that of the system."""
    given = environment.get("TZ", "").removeprefix(":")
    if not given:
        return None
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - most have no such variable

    try:
        return ZoneInfo(given)
    except (OSError, ValueError):  # also one that is written as a rule
        return None


def _account() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(os.geteuid())
    except (AttributeError, KeyError):  # there are no accounts, or none of this number
        return None


def _plain(path: str) -> str:
    return os.path.normpath(path) if path != "/" else path


def _is_folder(path: str) -> bool:
    return path.startswith("/") and "\0" not in path


def _is_line(text: str) -> bool:
    return bool(text) and text.isprintable()
