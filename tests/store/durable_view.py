"""What a loss of power would leave of a store, told from the ``fsync`` calls of this process.

A file is safe once it was synced, and a name once its folder was. ``tests/torture`` tries every state of
a disk; this looks at the two instants that everything depends on, at the price of a commit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.store.journal import STATE_FOLDER, parse_journal


class DurableView:
    """Watches the writers of one store, and notes what they build on before it is durable."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        """Whatever is there now is durable."""
        self.root = root
        self.unsafe: list[str] = []
        """What could be lost when an index came into its place, or a journal was closed."""
        self.instants: list[str] = []
        self._contents: set[int] = set()
        self._names: dict[int, dict[str, int]] = {}
        self._sync, self._replace, self._unlink = os.fsync, os.replace, os.unlink
        for path in (root, *root.rglob("*")):
            self._note(path)
        patch.setattr(os, "fsync", self._on_sync)
        patch.setattr(os, "replace", self._on_replace)
        patch.setattr(os, "unlink", self._on_unlink)

    def forget_names(self, *folders: str) -> None:
        """As after the death of a writer that had not synced these folders."""
        for folder in folders:
            self._names.pop((self.root / folder).stat().st_ino, None)

    def _note(self, path: Path) -> None:
        if path.is_dir():
            self._names[path.stat().st_ino] = {one.name: one.lstat().st_ino for one in path.iterdir()}
        else:
            self._contents.add(path.lstat().st_ino)

    def _on_sync(self, descriptor: int) -> None:
        self._sync(descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(descriptor) as entries:
                self._names[status.st_ino] = {entry.name: entry.inode() for entry in entries}
        else:
            self._contents.add(status.st_ino)

    def _on_replace(self, source: Any, target: Any, **folders: Any) -> None:
        if target == "INDEX.toml":
            self._look("index", "fixtures", f"{STATE_FOLDER}/shards")
        elif target == "journal":
            data = (self.root / STATE_FOLDER / source).read_bytes()
            if not parse_journal(data).is_open:
                self._look("close", "fixtures", "index")
                self.unsafe += [f"close: {name}" for name in self._lost(self.root) if name == "INDEX.toml"]
        self._replace(source, target, **folders)

    def _on_unlink(self, path: Any, **folders: Any) -> None:
        state = self.root / STATE_FOLDER
        if str(path).endswith(".json") and "journal" in self._lost(state):
            self.unsafe.append(f"remove: {path} goes before the journal is durable that excuses it")
        self._unlink(path, **folders)

    def _look(self, instant: str, *folders: str) -> None:
        self.instants.append(instant)
        for name in folders:
            self.unsafe += [f"{instant}: {lost}" for lost in self._lost_below(self.root / name)]

    def _lost_below(self, folder: Path) -> Iterator[str]:
        if folder.is_dir():
            yield from (f"{folder.relative_to(self.root).as_posix()}/{name}" for name in self._lost(folder))
            for path in sorted(folder.iterdir()):
                yield from self._lost_below(path)

    def _lost(self, folder: Path) -> list[str]:
        """The names in a folder that are not as the disk has them for certain."""
        now = {path.name: path.lstat().st_ino for path in folder.iterdir()}
        durable = self._names.get(folder.stat().st_ino, {})
        return sorted(
            name
            for name in now.keys() | durable.keys()
            if now.get(name) != durable.get(name)
            or ((folder / name).is_file() and now[name] not in self._contents)
        )
