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


def check_out(suite: Suite, folder: Path) -> None:
    """Put a suite's files into a folder, in a git repository of their own."""
    git_folder = _clone_of(suite)
    root = f"{suite.folder}/" if suite.folder != "." else ""
    listed = _git("-C", git_folder, "ls-tree", "--name-only", suite.commit, root or ".")
    wanted = [f"{root}{name}" for name in suite.files if f"{root}{name}" in listed.split()]
    index = folder.with_name(f"{folder.name}.index").absolute()
    folder.mkdir(parents=True)
    place = ("--git-dir", git_folder, "--work-tree", folder)
    environment = {"GIT_INDEX_FILE": str(index)}
    _git(*place, "read-tree", suite.commit, **environment)
    files = _git(*place, "ls-files", "-z", "--", *wanted, **environment).strip("\0").split("\0")
    _git(*place, "checkout-index", "-z", "--stdin", stdin="\0".join(files), **environment)
    index.unlink()
    if root:
        _lift(folder, suite.folder)
    _git("init", "-q", folder)
    _git("-C", folder, "add", "--all")
    identity = ("-c", "user.name=suites", "-c", "user.email=suites@example.org")
    _git("-C", folder, *identity, "commit", "-q", "-m", suite.commit)


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
        _git("init", "-q", "--bare", own)
        _git("-C", own, "fetch", "-q", "--depth", "1", address, suite.commit)
    except subprocess.CalledProcessError as error:
        raise MissingSource(
            f"{suite.name}: {address} cannot be fetched ({error.stderr.strip().splitlines()[-1]}). Clone it to "
            f"{name} in some folder, and say which: {VARIABLE}=FOLDER make suites"
        ) from None
    return own


def _has(place: Path, commit: str) -> bool:
    done = subprocess.run(["git", "-C", place, "cat-file", "-e", commit], capture_output=True, check=False)
    return place.is_dir() and done.returncode == 0


def _git(*arguments: str | Path, stdin: str | None = None, **environment: str) -> str:
    return subprocess.run(
        ["git", *arguments],
        env=os.environ | environment,
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
