"""Who git says is at work, which agents tell their model.

Read from the files that ``git config`` reads, without git: a repository could name a program for it to run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from cortex_replay.bindings.repository import Repository
from cortex_replay.disk import Folder

__all__ = ["Identity"]

_MOST_BYTES: Final = 64 * 2**10
_LONGEST_LINE: Final = 500
_SECTION: Final = re.compile(r"\s*\[\s*([A-Za-z0-9.-]+)(\s+\"[^\"]*\")?\s*\]")
_ENTRY: Final = re.compile(
    r"""\s*(name|email)\s*=\s*(?:"([^"\\]*)"|([^"\\#;]*?))\s*(?:[#;].*)?""", re.IGNORECASE
)
"""What holds an escape is nobody's name, and is left out."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The name and the address that commits are made with; each may be missing."""

    name: str | None = None
    email: str | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str], repository: Repository | None) -> Identity:
        """What git says to a command with this environment; what is nearer to the command counts."""
        found: dict[str, str] = {}
        for text in [*map(_read, _files(environment)), repository.configuration() if repository else ""]:
            found |= _user_in(text)
        return cls(found.get("name"), found.get("email"))


def _files(environment: Mapping[str, str]) -> Iterator[str]:
    yield "/etc/gitconfig"
    if (chosen := environment.get("GIT_CONFIG_GLOBAL")) is not None:
        yield chosen
    elif home := environment.get("HOME"):
        yield f"{environment.get('XDG_CONFIG_HOME') or f'{home}/.config'}/git/config"
        yield f"{home}/.gitconfig"


def _read(path: str) -> str:
    """The text of a plain file; the user's own may be a link to it."""
    above, name = os.path.split(os.path.realpath(path))
    with suppress(OSError, ValueError), Folder.at(above) as folder:
        return folder.read(name, _MOST_BYTES).decode()
    return ""


def _user_in(text: str) -> dict[str, str]:
    """What a file of git's says of the user; the last one counts. Files that it includes are not read."""
    found: dict[str, str] = {}
    is_user = False
    for line in text.splitlines():
        if len(line) > _LONGEST_LINE:
            continue
        if head := _SECTION.match(line):
            is_user = head[1].lower() == "user" and head[2] is None
        entry = _ENTRY.fullmatch(line, head.end() if head else 0) if is_user else None
        if entry and (value := entry[2] or entry[3] or "").isprintable():
            found[entry[1].lower()] = value
    return found
