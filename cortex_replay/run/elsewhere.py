"""Another place for a command: a copy of its directory, another home and temporary directory, another day.

What a program says of where it runs differs there, and that is the point. The copy holds what git would take
(what is tracked, and what is new and not ignored), the repository itself, and what the user names. No link
that leads out of the directory comes along, and nothing of the home but what the user names: it holds keys.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cortex_replay.disk import Folder, scratch_folder
from cortex_replay.errors import InvalidRequest
from cortex_replay.store.git.repository import Repository, find_top

__all__ = ["Elsewhere", "elsewhere", "zone_of_another_day"]

_MOST_FILES: Final = 50_000
_MOST_BYTES: Final = 2**30
_ZONES: Final = ("Etc/GMT-14", "Etc/GMT+12")
"""The ends of the day: at any moment it is another date in one of them than here."""
_NAMES: Final = ("place", "place-whose-name-is-a-good-deal-longer")
_UNLIKE: Final = 16
"""By how many characters paths differ at least: programs also tell how long a text is that holds one."""
_OF_HOME: Final = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where a command runs instead."""

    cwd: Path
    changes: Mapping[str, str]
    """The variables that are other ones there."""
    removed: tuple[str, ...]
    """The variables that would lead back."""
    left_out: tuple[str, ...]
    """What was not copied, and why."""

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of a command, there."""
        kept = {name: value for name, value in environment.items() if name not in self.removed}
        return {**kept, **self.changes}


@contextmanager
def elsewhere(
    cwd: Path,
    environment: Mapping[str, str],
    *,
    home_files: Collection[str] = (),
    also: Collection[str] = (),
    keeps: bool = False,
) -> Iterator[Elsewhere]:
    """A copy of a directory, which is gone afterwards.

    Args:
        cwd: The directory; of a git repository, all of it is copied.
        environment: What a command would get here.
        home_files: Files and folders of the home that the command needs.
        also: Files and folders below the directory that git ignores and the command needs.
        keeps: Whether the copy stays.

    Raises:
        InvalidRequest: It is too large, or something that was named is not there.
        StoreIo: Git cannot say what it would take.
    """
    here = cwd.resolve()
    top = find_top(here) or here
    with scratch_folder(keeps=keeps) as scratch:
        root = scratch.resolve()
        copy = _Copy(top, _of_another_length(root / "another", top))
        for path in _paths(top, here, also):
            copy.add(path)
        old_home = Path(environment.get("HOME") or "/nowhere")
        home = _of_another_length(root / "home", old_home)
        of_home = _Copy(old_home, home, copy.left_out)
        for path in _below(old_home, home_files, "--home-file"):
            of_home.add(path)
        temporary = root / "temporary"
        for folder in (copy.to, home, temporary):
            Folder.make_at(folder).close()
        place = copy.to / here.relative_to(top)
        Folder.make_at(place).close()
        changes = {"HOME": str(home), "PWD": str(place), "TZ": zone_of_another_day()}
        changes |= dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(temporary))
        yield Elsewhere(place, changes, ("OLDPWD", *_OF_HOME), tuple(copy.left_out))


def zone_of_another_day(now: datetime | None = None) -> str:
    """A time zone in which it is another date than here, and, if there is one, than at Greenwich."""
    moment = (now or datetime.now(UTC)).astimezone()
    here, greenwich = moment.date(), moment.astimezone(UTC).date()
    try:
        dates = {zone: moment.astimezone(ZoneInfo(zone)).date() for zone in _ZONES}
    except ZoneInfoNotFoundError:  # no list of zones: programs that have one of their own may still know it
        return _ZONES[0] if moment.astimezone(UTC).hour >= 10 else _ZONES[1]
    other = [zone for zone, date in dates.items() if date not in (here, greenwich)]
    return (other or [zone for zone, date in dates.items() if date != here])[0]


def _of_another_length(folder: Path, old: Path) -> Path:
    made = [folder / name for name in _NAMES]
    return next((path for path in made if abs(len(str(path)) - len(str(old))) >= _UNLIKE), made[-1])


def _paths(top: Path, here: Path, also: Iterable[str]) -> Iterator[str]:
    """What is copied, below the top."""
    entry = top / ".git"
    if not os.path.lexists(entry):
        yield from _walk(top, "")
        return
    _refuse_pipes(top)
    yield from Repository(top).files()
    if entry.is_dir() and not entry.is_symlink():
        yield from _walk(top, ".git")
    for path in _below(here, also, "--copy"):
        yield str(here.relative_to(top) / path)


def _refuse_pipes(top: Path) -> None:
    """Git reads every list of what it ignores, and would wait for a pipe in the place of one."""
    lists = [top / ".git/info/exclude"]
    for place, folders, files in os.walk(top):
        if ".git" in folders:
            folders.remove(".git")
        lists += [Path(place, name) for name in files if name == ".gitignore"]
    for path in lists:
        if path.exists() and not path.is_file():
            raise InvalidRequest("--elsewhere", f"{path} is no plain file, so git cannot say what to copy")


def _below(folder: Path, named: Iterable[str], option: str) -> Iterator[str]:
    """The files of what was named in a folder, below that."""
    for name in named:
        path = os.path.normpath(os.path.relpath(folder / name, folder))
        if path == "." or path.startswith("..") or not os.path.lexists(folder / path):
            raise InvalidRequest(option, f"there is no {name} below {folder}")
        if (folder / path).is_dir() and not (folder / path).is_symlink():
            yield from _walk(folder, path)
        else:
            yield path


def _walk(top: Path, path: str) -> Iterator[str]:
    """All that is below a folder, by its path below the top; links are not followed."""
    for place, folders, files in os.walk(top / path):
        for name in (*folders, *files):
            yield os.path.relpath(Path(place, name), top)


class _Copy:
    """Copies files one by one, up to a limit. No link is followed, where it reads or where it writes."""

    def __init__(self, top: Path, to: Path, left_out: list[str] | None = None) -> None:
        self.to = to
        self.left_out: list[str] = [] if left_out is None else left_out
        self._top = top
        self._done: set[str] = set()
        self._folders: set[str] = set()
        self._bytes = 0
        Folder.make_at(to).close()

    def add(self, path: str) -> None:
        """Copy one file, or a link that stays in the directory."""
        if path in self._done:
            return
        self._done.add(path)
        folder, name = os.path.split(path)
        try:
            with Folder.at(self._top) as top, top.below(folder) as place:
                self._add(place, folder, name)
        except FileNotFoundError:  # git lists what was deleted, too
            return
        except OSError as error:
            self.left_out.append(f"{path}: {error.strerror}")

    def _add(self, place: Folder, folder: str, name: str) -> None:
        facts = place.status(name)
        if facts is None:
            return
        if stat.S_ISDIR(facts.st_mode):  # empty, or a submodule, whose files are its own
            self._make(f"{folder}/{name}".lstrip("/")).close()
            return
        if stat.S_ISLNK(facts.st_mode):
            target = place.read_link(name)
            if target.startswith("/") or os.path.normpath(f"{folder or '.'}/{target}").startswith(".."):
                self.left_out.append(f"{folder}/{name}: a link that leads out of the directory".lstrip("/"))
                return
            with self._make(folder) as made:
                made.create_link(name, target)
        elif stat.S_ISREG(facts.st_mode):
            self._count(facts.st_size)
            data = place.read(name)
            with self._make(folder) as made:
                made.create(name, data, mode=0o755 if facts.st_mode & 0o100 else 0o644)
        else:
            self.left_out.append(f"{folder}/{name}: no plain file".lstrip("/"))

    def _make(self, folder: str) -> Folder:
        """The folder of the copy, made where it is missing; nobody needs it after a loss of power."""
        with Folder.at(self.to) as to:
            if folder in self._folders:
                return to.below(folder)
            above, name = os.path.split(folder)
            if not name:
                return to.below("")
            with self._make(above) as parent:
                self._folders.add(folder)
                return parent.create_folder(name)

    def _count(self, size: int) -> None:
        self._bytes += size
        if len(self._done) > _MOST_FILES or self._bytes > _MOST_BYTES:
            raise InvalidRequest(
                "--elsewhere",
                f"{self._top} holds more than {_MOST_FILES:,} files or {_MOST_BYTES // 2**20:,} MB to copy; "
                "run it in a smaller directory, or let git ignore what the command does not need",
            )
