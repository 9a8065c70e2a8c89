"""The files that ``init`` writes beside the store. All are looked at first, then all are written."""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cortex_replay import disk
from cortex_replay.errors import StoreIo
from cortex_replay.store.journal import STATE_FOLDER
from cortex_replay.store.paths import INDEX_NAME, NESTED_FOLDER, escape

__all__ = ["NewFile", "add_lines", "new_file", "refuse_unsafe_store", "render_hooks"]

_MAX_BYTES: Final = 2**20
_PLAIN: Final = re.compile(r"[\w./ =+@-]+", re.ASCII)
"""What means itself in YAML, behind a word."""
_HOOK: Final = """\
      - id: cortex-replay-{name}
        name: cortex-replay {name}
        entry: {entry}
        language: system
        always_run: true
        pass_filenames: false
"""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that can be written, and what is to stand in it."""

    path: Path
    data: bytes
    mode: int = 0o644

    def write(self) -> None:
        """Put it in its place; in the folder of the store, which is there by now."""
        disk.write_file(self.path, self.data, mode=self.mode)


def refuse_unsafe_store(root: Path) -> None:
    """Look at everything that making a store writes to.

    Raises:
        StoreIo: There is a store already; or a link, or something else that is no folder, is in the way.
    """
    existing = root.absolute()
    while not os.path.lexists(existing):
        existing = existing.parent
    _refuse_link_to(existing)
    if existing == root.absolute():
        if os.path.lexists(root / INDEX_NAME):
            raise StoreIo(f"{escape(str(root / INDEX_NAME))} is there already; nothing was written")
        if (root / NESTED_FOLDER).is_dir() and any((root / NESTED_FOLDER).iterdir()):
            raise StoreIo(
                f"{escape(str(root / NESTED_FOLDER))} holds files that no index lists; nothing was written. "
                "Look at them, then remove them, or name another store"
            )
        for name in (NESTED_FOLDER, STATE_FOLDER):
            if os.path.lexists(root / name):
                _refuse_links_below(root / name)


def new_file(path: Path, text: str) -> NewFile:
    """A file that must not be there yet.

    Raises:
        StoreIo: It is.
    """
    if os.path.lexists(path):
        raise StoreIo(f"{escape(str(path))} is there already; nothing was written")
    return NewFile(path, text.encode())


def add_lines(path: Path, lines: Iterable[str]) -> NewFile | None:
    """A file with those lines at its end that are not in it yet; ``None`` where all are.

    Raises:
        StoreIo: It is no plain file of a sensible size.
    """
    present, mode = b"", 0o644
    if os.path.lexists(path):
        facts = path.lstat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MAX_BYTES:
            what = "a plain file" if not stat.S_ISREG(facts.st_mode) else f"smaller than {_MAX_BYTES} bytes"
            raise StoreIo(f"{escape(str(path))} is not {what}, so no lines can be added; nothing was written")
        with disk.Folder.reach(path.parent) as folder:
            present, mode = folder.read(path.name), stat.S_IMODE(facts.st_mode)
    known = present.splitlines()
    missing = [line.encode() for line in lines if line.encode() not in known]
    if not missing:
        return None
    start = present if present.endswith(b"\n") or not present else present + b"\n"
    return NewFile(path, start + b"".join(line + b"\n" for line in missing), mode)


def render_hooks(store: str) -> str:
    """The hooks for pre-commit, which reads them as YAML and then splits ``entry`` like a shell.

    Args:
        store: Its place below the top of the project, without control characters.
    """
    store = f"./{store}" if store.startswith("-") else store
    hooks = "".join(
        _HOOK.format(name=name, entry=_yaml(f"cortex-replay {name}{flags} --store {shlex.quote(store)}"))
        for name, flags in (("verify", " --staged"), ("scan", ""))
    )
    return f"repos:\n  - repo: local\n    hooks:\n{hooks}"


def _yaml(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else "'" + text.replace("'", "''") + "'"


def _refuse_link_to(folder: Path) -> None:
    try:
        disk.Folder.reach(folder).close()
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENOTDIR}:
            raise
        raise StoreIo(
            f"{escape(str(folder))} is no folder, or one behind a link; nothing was written"
        ) from None


def _refuse_links_below(folder: Path) -> None:
    """Also those in folders below: where a fixture goes depends on its name."""
    _refuse_link_to(folder)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if (path := Path(place, name)).is_symlink():
                raise StoreIo(f"{escape(str(path))} is a link; nothing was written")
