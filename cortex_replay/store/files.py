"""The files of a store, as a writer moves them: through open folders, and nothing that is no fixture."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from cortex_replay.disk import Closing, Folder
from cortex_replay.store.journal import STATE_FOLDER
from cortex_replay.store.paths import (
    EXCHANGES_FOLDER,
    NESTED_FOLDER,
    PARTS_FOLDER,
    is_fixture_name,
    path_problem,
)
from cortex_replay.store.trust import Layout

__all__ = ["FixtureFiles", "is_fixture_path", "name_of"]

_NOT_FIXTURES: Final = (".git/", f"{STATE_FOLDER}/")


def is_fixture_path(path: str, layout: Layout) -> bool:
    """Whether a writer may put, move or remove a file of this path."""
    return (
        path_problem(path) is None
        and is_fixture_name(path)
        and path != layout.schema_path
        and path.startswith(f"{layout.folder}/".removeprefix("/"))
        and not path.startswith(_NOT_FIXTURES)
    )


class FixtureFiles(Closing):
    """The files below a store's root. One folder is kept open, so paths are best asked for in order."""

    def __init__(self, root: Folder) -> None:
        self._root = root
        self._name: str | None = None
        self._folder: Folder | None = None

    def folder_of(self, path: str, *, make: bool = False) -> Folder:
        """The folder that a file is in; it is closed when another one is asked for.

        Raises:
            OSError: It is not there, or a link is on the way.
        """
        name = path.rpartition("/")[0]
        if self._folder is None or name != self._name:
            self.close()
            self._folder = self._root.below(name, make=make)
            self._name = name
        return self._folder

    def has(self, path: str) -> bool:
        """Whether a plain file is there.

        Raises:
            OSError: A link is on the way.
        """
        try:
            return self.folder_of(path).has_file(name_of(path))
        except FileNotFoundError:
            return False

    def remove(self, path: str) -> None:
        """Remove a plain file, if it is there."""
        if self.has(path):
            self.folder_of(path).unlink(name_of(path))

    def sync_folders(self, paths: Iterable[str]) -> None:
        """Make the names in the folders of these files durable; for one that is gone, in the one above."""
        for name in sorted({path.rpartition("/")[0] for path in paths}):
            while True:
                try:
                    self.folder_of(f"{name}/").sync()
                    break
                except FileNotFoundError:  # an earlier attempt removed it when it was empty
                    name = name.rpartition("/")[0]  # noqa: PLW2901

    def remove_empty_folders(self, paths: Iterable[str]) -> None:
        """Remove those folders below that of a nested store, of exchanges or of parts, that are empty now."""
        for folder in {path.rpartition("/")[0] for path in paths}:
            above, _, name = folder.rpartition("/")
            with suppress(OSError):
                while above.partition("/")[0] in (NESTED_FOLDER, EXCHANGES_FOLDER, PARTS_FOLDER):
                    self.folder_of(f"{above}/{name}").remove_folder(name)
                    above, _, name = above.rpartition("/")

    def close(self) -> None:
        """Close the folder that is open."""
        if self._folder is not None:
            self._folder.close()
            self._folder = None


def name_of(path: str) -> str:
    """What a file is called in its folder."""
    return path.rpartition("/")[2]
