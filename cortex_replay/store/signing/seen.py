"""The newest signed index that a user has seen of each store, so that an older one is noticed.

It is kept in the user's own folder, or in a file that the user names (for CI, which has no memory but its
cache), and never in a tree that is judged by it. A line for each store: id, generation, digest.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cortex_replay.disk import PRIVATE, PRIVATE_FOLDER, Folder, absolute_path
from cortex_replay.errors import ConfigError
from cortex_replay.store.marks import STATE_NAME, state_home
from cortex_replay.store.signing.chain import Entry

__all__ = ["Memory"]

_NAME: Final = "signed-stores"
_MAX_BYTES: Final = 2**20
_LINE: Final = re.compile(r"([0-9a-f]{32}) ([1-9][0-9]{0,17}) ([0-9a-f]{64})")


class Memory:
    """What was seen before."""

    def __init__(self, file: Path | None = None) -> None:
        """Say where it is.

        Args:
            file: As the user named it; else it is in the user's own folder.
        """
        self._file = None if file is None else absolute_path(file)

    @property
    def place(self) -> str:
        """Where it is, for people."""
        if self._file is not None:
            return str(self._file)
        home = state_home()
        return str(home / STATE_NAME / _NAME) if home else "the home folder, which is not there"

    def recall(self, store_id: str) -> Entry | None:
        """The newest index of a store that was seen, or ``None``.

        Raises:
            ConfigError: The file is not one of these, or cannot be read.
        """
        try:
            with self._open(make=False) as (folder, name):
                return self._read(folder, name).get(store_id)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._complaint(error) from None

    def note(self, store_id: str, entry: Entry) -> None:
        """Remember an index.

        Raises:
            ConfigError: It cannot be written.
        """
        try:
            with self._open(make=True) as (folder, name), folder.lock(f"{name}.lock"):
                known = self._read(folder, name)
                if known.get(store_id) == entry:
                    return
                known[store_id] = entry
                lines = (
                    f"{store} {seen.generation} {seen.digest}\n" for store, seen in sorted(known.items())
                )
                folder.replace(name, "".join(lines).encode(), f"{name}.tmp", mode=PRIVATE)
        except OSError as error:
            raise self._complaint(error) from None

    @contextmanager
    def _open(self, *, make: bool) -> Iterator[tuple[Folder, str]]:
        if self._file is not None:
            with Folder.reach(self._file.parent) as folder:
                yield folder, self._file.name
            return
        home = state_home()
        if home is None:
            raise OSError(errno.ENOENT, "there is no home folder" if make else os.strerror(errno.ENOENT))
        if not make:
            with Folder.at((home / STATE_NAME).resolve()) as folder:
                yield folder, _NAME
            return
        with Folder.make_at(home) as above, above.make_folder(STATE_NAME, PRIVATE_FOLDER) as folder:
            yield folder, _NAME

    def _read(self, folder: Folder, name: str) -> dict[str, Entry]:
        if folder.status(name) is None:
            return {}
        lines = folder.read(name, _MAX_BYTES).decode("ascii", errors="replace").splitlines()
        found = [_LINE.fullmatch(line) for line in lines]
        if None in found:
            raise ConfigError("--seen", f"{self.place} is not a list of signed stores; is it another file?")
        return {match[1]: Entry(int(match[2]), match[3]) for match in found if match}

    def _complaint(self, error: OSError) -> ConfigError:
        return ConfigError("--seen", f"{self.place}: {error.strerror or error}")
