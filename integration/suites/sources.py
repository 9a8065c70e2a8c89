"""A suite's files at its commit, from a clone that is there or from GitHub."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from integration.install import BENCH
from integration.suites.catalogue import Suite

__all__ = ["MissingSource", "check_out"]

VARIABLE: Final = "CORTEX_REPLAY_SUITES"


class MissingSource(Exception):
    """There is no clone of a suite's repository, and none can be made."""


def check_out(suite: Suite, folder: Path) -> list[str]:
    """Put a suite's files into a git repository of their own; gives those that the clone lacks."""
    git_folder = _clone_of(suite)
    root = "" if suite.folder == "." else f"{suite.folder}/"
    folder.mkdir(parents=True)
    index = folder.with_name(f"{folder.name}.index").absolute()
    git = _Git("--git-dir", git_folder, "--work-tree", folder, GIT_INDEX_FILE=str(index))
    git.run("read-tree", suite.commit)
    wanted = (f"{root}{name}" for name in suite.files)
    files = git.run("ls-files", "-z", "--", *wanted).strip("\0").split("\0")
    git.run("checkout-index", "-z", "--stdin", stdin="\0".join(files), may_fail=True)
    index.unlink()
    absent = [name.removeprefix(root) for name in files if not os.path.lexists(folder / name)]
    if root:
        _lift(folder, suite.folder)
    own = _Git("-C", folder, "-c", "user.name=suites", "-c", "user.email=suites@example.org")
    own.run("init", "-q")
    own.run("add", "--all")
    own.run("commit", "-q", "-m", suite.commit)
    return absent


def _lift(folder: Path, below: str) -> None:
    """The project becomes the top: its neighbours in the repository are not needed."""
    for path in (folder / below).iterdir():
        path.rename(folder / path.name)
    for step in [Path(below), *Path(below).parents][:-1]:
        (folder / step).rmdir()


def _clone_of(suite: Suite) -> Path:
    name = suite.repository.replace("/", "+")
    given = Path(os.environ[VARIABLE]) / name if VARIABLE in os.environ else None
    own = BENCH / "suites" / "git" / name
    for place in (given, given and given / "repo", own):
        if place is not None and _has(place, suite.commit):
            return place.absolute()
    address = f"https://github.com/{suite.repository}"
    try:
        own.mkdir(parents=True, exist_ok=True)
        git = _Git("-C", own)
        git.run("init", "-q", "--bare")
        git.run("fetch", "-q", "--depth", "1", address, suite.commit)
    except subprocess.CalledProcessError as error:
        raise MissingSource(
            f"{suite.name}: {address} cannot be fetched: {error.stderr.strip().splitlines()[-1]}\n"
            f"Clone it to {name} in a folder of your own, and say which: {VARIABLE}=FOLDER make suites"
        ) from None
    return own


def _has(place: Path, commit: str) -> bool:
    done = subprocess.run(["git", "-C", place, "cat-file", "-e", commit], capture_output=True, check=False)
    return done.returncode == 0


class _Git:
    """Git with options that several of its commands share."""

    def __init__(self, *options: str | Path, **environment: str) -> None:
        self._options = options
        self._environment = os.environ | environment

    def run(self, *arguments: str, stdin: str | None = None, may_fail: bool = False) -> str:
        return subprocess.run(
            ["git", *self._options, *arguments],
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=not may_fail,
        ).stdout
