"""The git repository that a store stands in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path, PurePosixPath

from cortex_replay.errors import StoreIo
from cortex_replay.store.index import Index
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.store.trusted import Untrusted, trust_index

__all__ = ["Repository", "index_at"]


class Repository:
    """Runs git at the top of the repository around a store, and names the store's files as git does."""

    def __init__(self, root: Path) -> None:
        # A hook runs with GIT_DIR and relative paths in its environment, which hold at the top only.
        start = Path() if "GIT_DIR" in os.environ else root
        self.top = Path(os.fsdecode(_run(("rev-parse", "--show-toplevel"), start)).rstrip("\n"))
        try:
            prefix = PurePosixPath(root.resolve().relative_to(self.top.resolve()).as_posix())
        except ValueError:
            raise StoreIo(f"the store {root} is not in the git repository {self.top}") from None
        self.prefix = "" if prefix == PurePosixPath() else f"{prefix}/"
        """What stands before a store's path in git's name for it."""

    def run(self, *arguments: str, given: bytes = b"", accept: tuple[int, ...] = (0,)) -> bytes:
        """What a git command prints.

        Raises:
            StoreIo: It failed, with git's own words.
        """
        return _run(arguments, self.top, given, accept)


def index_at(root: Path, reference: str) -> Index:
    """The index of the store at ``root`` as it was in another commit; empty if it was not there.

    Raises:
        StoreIo: There is no such commit, or what it has is no index.
    """
    repository = Repository(root)
    commit = repository.run("rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}", accept=(0, 1))
    if not commit.strip():
        raise StoreIo(f"git knows no commit {reference}")
    name = f"{commit.decode().strip()}:{repository.prefix}{INDEX_NAME}"
    if repository.run("cat-file", "-t", name, accept=(0, 128)).strip() != b"blob":
        return Index()
    try:
        return trust_index(repository.run("cat-file", "blob", name))
    except Untrusted as error:
        raise StoreIo(f"{INDEX_NAME} at {reference}: {error.finding.reason}") from None


def _run(
    arguments: tuple[str, ...], folder: Path, given: bytes = b"", accept: tuple[int, ...] = (0,)
) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, input=given, capture_output=True, check=False)
    except OSError as error:
        raise StoreIo(f"git cannot be run: {error.strerror}") from None
    if done.returncode not in accept:
        raise StoreIo(f"git: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
