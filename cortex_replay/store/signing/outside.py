"""Files that a verdict rests on: they come from outside of the tree that is judged.

A repository that brought its own list of signers would be signed by whomever it likes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cortex_replay.disk import Folder, absolute_path
from cortex_replay.errors import ConfigError
from cortex_replay.store.git.repository import find_top

__all__ = ["check_outside", "read_signers", "tree_of"]

MAX_SIGNERS_BYTES: Final = 2**20
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_PROJECT_FILES: Final = ("cortex-replay.toml", "pyproject.toml")
_MOST_LINKS: Final = 40


def read_signers(path: Path, root: Path) -> bytes:
    """A list of allowed signers, if nobody but the user can have written it.

    Args:
        path: As the user named it.
        root: The folder of the index that is judged by it.

    Raises:
        ConfigError: It is not there, stands in the tree that is judged, or others may write it.
        StoreIo: The ``.git`` of that tree is not what it seems.
    """
    check_outside(path, root, "--signers")
    try:
        place = path.resolve(strict=True)
        with Folder.at(place.parent) as folder:
            descriptor = folder.open_plain(place.name)
    except (OSError, RuntimeError) as error:
        raise ConfigError("--signers", f"{path}: {getattr(error, 'strerror', None) or error}") from None
    with os.fdopen(descriptor, "rb") as file:
        _refuse_others(path, os.fstat(descriptor))
        data = file.read(MAX_SIGNERS_BYTES + 1)
    if len(data) > MAX_SIGNERS_BYTES:
        raise ConfigError("--signers", f"{path} is larger than {MAX_SIGNERS_BYTES} bytes")
    return data


def _refuse_others(path: Path, status: os.stat_result) -> None:
    if not hasattr(os, "geteuid"):  # Windows, where modes say nothing
        return
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError("--signers", f"{path} belongs to another user, who may put any key into it")
    if status.st_mode & _OTHERS_WRITE:
        raise ConfigError("--signers", f"{path} can be written by others; run: chmod go-w {path}")
    folder = path.resolve().parent
    above = folder.stat()
    if above.st_mode & _OTHERS_WRITE and not above.st_mode & stat.S_ISVTX:
        raise ConfigError(
            "--signers", f"others may put another file in the place of {path}: chmod go-w {folder}"
        )


def check_outside(path: Path, root: Path, option: str) -> None:
    """Refuse a file in the tree of a store, by whatever way it is reached.

    Args:
        path: As the user named it.
        root: The folder with the index.
        option: Which flag named it.

    Raises:
        ConfigError: It, or a link on the way to it, stands in that tree.
        StoreIo: The ``.git`` of that tree is not what it seems.
    """
    trees = {tree_of(absolute_path(root)), tree_of(root.resolve())}
    for step in _steps_to(absolute_path(path)):
        for tree in trees:
            if step.is_relative_to(tree):
                where = "" if step == absolute_path(path) else f" (by way of {step})"
                raise ConfigError(
                    option,
                    f"{path} is in {tree}{where}, the tree that it is to judge: who changes the store could "
                    "change it, too. Keep it elsewhere, such as in ~/.config/cortex-replay/",
                )


def tree_of(folder: Path) -> Path:
    """The folder that whoever wrote a store may have filled: the project around it, or the store alone."""
    top = find_top(folder)
    if top is not None:
        return top
    for above in (folder, *folder.parents):
        if any(os.path.lexists(above / name) for name in _PROJECT_FILES):
            return above
    return folder


def _steps_to(path: Path) -> Iterator[Path]:
    """A path, and what it becomes as one link after the other is followed."""
    for _ in range(_MOST_LINKS):
        yield path
        link = next((part for part in (*reversed(path.parents), path) if part.is_symlink()), None)
        if link is None:
            return
        yield link
        target = absolute_path(link.parent / os.readlink(link))  # noqa: PTH115 - as it says
        path = target / path.relative_to(link)
    raise ConfigError("path", f"{path}: {os.strerror(errno.ELOOP)}")
