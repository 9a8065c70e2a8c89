"""What git says of a folder, read from its files.

No program is run, since a repository could name one. A repository may also be a stranger's: no link of it is
followed, no more is read than such files have, a ``.git`` file leads only to where git itself would have put
the rest, and what is read counts only if it has the form of a branch or a commit.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from cortex_replay.disk import Folder

__all__ = ["Head", "Repository"]

_MOST_FOLDERS: Final = 100
_MOST_BYTES: Final = 4096
_MOST_REFS: Final = 4 * 2**20
_MOST_LOG: Final = 64 * 2**10
_MOST_COMMITS: Final = 20
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BRANCH: Final = re.compile(r"(?!.*(?:\.\.|//|@\{|\.lock(?:/|\Z)))[A-Za-z0-9_][A-Za-z0-9_.,@+#=/-]{0,243}")
_ENTRY: Final = re.compile(r"[0-9a-f]{40,64} ([0-9a-f]{40,64}) ")


@dataclass(frozen=True, slots=True)
class Head:
    """What is checked out."""

    branch: str | None = None
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class Repository:
    """A folder that git works in."""

    root: str
    git: str
    """The folder of what is this checkout's own."""
    common: str
    """The folder of what all worktrees share."""
    log_size: int = 0
    """How much git's log of what was checked out held when it was found."""

    @classmethod
    def above(cls, folder: str) -> Self | None:
        """The repository that a folder, named without links, is in."""
        path = Path(folder)
        for root in (path, *path.parents)[:_MOST_FOLDERS]:
            if os.path.lexists(f"{root}/.git"):
                git = _git_folder(root)
                if git is None:
                    return None
                return cls(str(root), str(git), str(_common_folder(git)), _log_size(str(git)))
        return None

    def head(self) -> Head:
        """What is checked out now; nothing where that cannot be told."""
        text = _read(self.git, "HEAD")
        if _COMMIT.fullmatch(text):
            return Head(commit=text)
        branch = text.removeprefix("ref: refs/heads/")
        if branch == text or not _BRANCH.fullmatch(branch):
            return Head()
        commit = _read(self.common, f"refs/heads/{branch}") or self._packed(branch)
        return Head(branch, commit if _COMMIT.fullmatch(commit) else None)

    def configuration(self) -> str:
        """What is configured for this repository."""
        return _read(self.common, "config", _MOST_LOG)

    def state(self) -> int:
        """What changes when a commit is made."""
        return _log_size(self.git)

    def new_commits(self) -> list[str]:
        """The commits that were checked out since it was found, the first one first."""
        entries = map(_ENTRY.match, _read(self.git, "logs/HEAD", _MOST_LOG, start=self.log_size).splitlines())
        found = [entry[1] for entry in entries if entry and _COMMIT.fullmatch(entry[1])]
        return list(dict.fromkeys(found))[:_MOST_COMMITS]

    def _packed(self, branch: str) -> str:
        end = f" refs/heads/{branch}"
        for line in _read(self.common, "packed-refs", _MOST_REFS).splitlines():
            if line.endswith(end) and _COMMIT.fullmatch(line.removesuffix(end)):
                return line.removesuffix(end)
        return ""


def _git_folder(root: Path) -> Path | None:
    entry = root / ".git"
    if entry.is_symlink():
        return None
    if entry.is_dir():
        return entry
    text = _read(str(root), ".git")
    named = text.removeprefix("gitdir: ")
    if named == text or "\0" in named:
        return None
    folder = Path(os.path.normpath(root / named))
    if folder.parent.name == "worktrees":  # it names this folder in turn, as git has written it
        back = _read(str(folder), "gitdir")
        return folder if back and os.path.realpath(folder / back) == str(entry) else None
    modules = (above / ".git" / "modules" for above in root.parents)
    return folder if any(folder.is_relative_to(one) for one in modules) else None


def _common_folder(git: Path) -> Path:
    """The folder above ``worktrees``: nothing that a file could say."""
    return git.parent.parent if git.parent.name == "worktrees" else git


def _log_size(git: str) -> int:
    try:
        return os.lstat(f"{git}/logs/HEAD").st_size
    except OSError:
        return 0


def _read(folder: str, path: str, most: int = _MOST_BYTES, *, start: int | None = None) -> str:
    """The text of a small file; nothing where there is none, or where it is not what it should be."""
    above, _, name = path.rpartition("/")
    try:
        with Folder.at(folder) as top, top.below(above) as place:
            if start is None:
                data = place.read(name, most + 1)
                return data.decode().rstrip("\n") if len(data) <= most else ""
            descriptor = place.open_plain(name)
            try:
                os.lseek(descriptor, start, os.SEEK_SET)
                return os.read(descriptor, most).decode(errors="replace")
            finally:
                os.close(descriptor)
    except (OSError, ValueError):
        return ""
