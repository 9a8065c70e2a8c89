"""Changing where the files of a store are kept: the setting, what git ignores, and the files.

In an order in which nothing is ever missing: objects are put before files leave, and files are back before
anything says so.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cortex_replay.config.files import MAX_BYTES, find_config, shown_path
from cortex_replay.config.keep_text import set_keep
from cortex_replay.config.remote import Keep
from cortex_replay.disk import Folder, write_file
from cortex_replay.errors import ConfigError, StoreIo
from cortex_replay.progress import Progress
from cortex_replay.sharing.placement import Move, plan_move
from cortex_replay.sharing.push import PushPlan, plan_push
from cortex_replay.sharing.shared_store import SharedStore
from cortex_replay.store.git.attributes import MAX_LIST_BYTES, lines_to_add
from cortex_replay.store.paths import NESTED_FOLDER
from cortex_replay.store.state import open_root, translate_errors
from cortex_replay.store.trust import Layout

__all__ = ["KeepPlan", "plan_keep"]

_IGNORE_NAME: Final = ".gitignore"
_IGNORE_LINE: Final = f"/{NESTED_FOLDER}/**/*.json"
"""What git is told while files are kept elsewhere: those that were recorded and not pushed yet."""


@dataclass(frozen=True, slots=True)
class _FileChange:
    """A file of the project, and what it will hold; one with nothing in it goes."""

    path: Path
    content: bytes
    mode: int = 0o644

    def write(self) -> None:
        try:
            if self.content:
                write_file(self.path, self.content, mode=self.mode)
            else:
                with Folder.reach(self.path.parent) as folder:
                    folder.unlink(self.path.name)
        except OSError as error:
            raise StoreIo(f"{shown_path(self.path)}: {error.strerror}; it was not changed") from None


@dataclass(frozen=True, slots=True)
class KeepPlan:
    """What it takes to keep the files of a store elsewhere, or here."""

    push: PushPlan
    move: Move
    changes: tuple[_FileChange, ...]
    """The configuration and the list of what git ignores, as far as they change."""

    @property
    def changed(self) -> list[str]:
        """The files of the project that change, for a person."""
        return [shown_path(change.path) for change in self.changes]

    def apply(self, progress: Progress | None = None) -> None:
        """Do it. Who is interrupted does it again.

        Raises:
            FixtureIntegrityFailed: A file or an object is not what the index says. It stays where it is.
            StoreIo: The bucket or the disk refuses.
        """
        self.push.apply(progress)
        self.move.apply(progress)
        for change in self.changes:
            change.write()


def plan_keep(store: SharedStore, keep: Keep) -> KeepPlan:
    """Plan it.

    Raises:
        ConfigError: The configuration cannot be changed.
        FixtureIntegrityFailed: A file cannot be had anywhere.
        StoreIo: The bucket cannot be asked.
    """
    changes = (_configuration(store, keep), _ignore_list(store, keep))
    return KeepPlan(plan_push(store), plan_move(store, keep), tuple(one for one in changes if one))


def _configuration(store: SharedStore, keep: Keep) -> _FileChange | None:
    if store.remote.keep == keep:
        return None
    found = find_config(store.source.root)
    if found is None:
        reason = "is a setting of the project, which has no configuration: name the remote there"
        raise ConfigError("remote.keep", reason)
    try:
        with Folder.reach(found.path.parent) as folder:
            content = folder.read(found.path.name, MAX_BYTES + 1)
        mode = stat.S_IMODE(found.path.lstat().st_mode)
    except OSError as error:
        raise StoreIo(f"{shown_path(found.path)}: {error.strerror}; nothing was changed") from None
    made = set_keep(content, shown_path(found.path), found.prefix, keep)
    return _FileChange(found.path, made, mode)


def _ignore_list(store: SharedStore, keep: Keep) -> _FileChange | None:
    """Git ignores what is to be pushed, if all files are. A flat store has others beside them."""
    with translate_errors(), open_root(store.source) as root:
        status = root.status(_IGNORE_NAME)
        if status is not None and not (stat.S_ISREG(status.st_mode) and status.st_size <= MAX_LIST_BYTES):
            return None  # a link, or no list: for a person to look at
        present = root.read(_IGNORE_NAME, MAX_LIST_BYTES) if status is not None else b""
    if keep == "remote" and store.layout is Layout.NESTED:
        made = present + lines_to_add(present, [_IGNORE_LINE])
    else:
        made = b"".join(
            line for line in present.splitlines(keepends=True) if line.strip() != _IGNORE_LINE.encode()
        )
    mode = 0o644 if status is None else stat.S_IMODE(status.st_mode)
    return None if made == present else _FileChange(store.source.path / _IGNORE_NAME, made, mode)
