"""How git is told, in one clone, to merge an index.

Git runs a merge driver at the top of the work tree, for whatever branch is checked out or merged. So the
line names everything by its absolute path and starts Python isolated (``-I``): neither the work tree nor a
variable such as ``PYTHONPATH`` says where modules are. Where it can, it starts without ``site`` (``-S``),
too: then no ``.pth`` file of another project adds its folder.

An environment that lies in the work tree is the commonest of all, and a branch can hold files in it, which
git puts in place of ignored ones. There the line begins with a question to git, and runs nothing from an
environment that git tracks.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

from cortex_replay.disk import Folder
from cortex_replay.errors import StoreIo
from cortex_replay.store.git.repository import Repository, find_top
from cortex_replay.store.paths import escape

__all__ = ["install_driver", "mend_driver"]

_DRIVER: Final = "merge.cortex-replay.driver"
_START: Final = Path(__file__).parents[2] / "__main__.py"
_ARGUMENTS: Final = "merge-driver -- %O %A %B %P"
_MODES: Final = (("-I", "-S"), ("-I",))
"""From the strictest on; the second one is for those whose dependencies are not beside the package."""
_PROBE: Final = (
    "import json, sys; sys.path.append(sys.argv[1]); import cortex_replay.cli.merge_driver as driver; "
    "print(json.dumps([driver.__file__, *sys.path]))"
)
_UNSET: Final = (
    "GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR GIT_PREFIX "
    "GIT_LITERAL_PATHSPECS GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS GIT_ICASE_PATHSPECS"
)
"""What git, or a program that calls it, says to the driver and the question is not about. With literal
pathspecs, as Magit asks for them, it would be about files that nobody has."""
_SECONDS: Final = 60
_MAX_PATH: Final = 2**14
_UNSAFE: Final = f"{_DRIVER} of this clone ran modules of the work tree"
_REFUSAL: Final = "cortex-replay: this branch holds files in the Python environment, which was not run"
_WITHOUT: Final = "without the driver, git merges line by line and `cortex-replay resolve` resolves conflicts"


@dataclass(frozen=True, slots=True)
class _Start:
    """A way to start the driver that was tried and works."""

    words: tuple[str, ...]
    places: tuple[Path, ...]
    """The files and folders that its code is loaded from."""


def install_driver(root: Path) -> None:
    """Tell git, in this clone, how to merge the index of the store at ``root``.

    Raises:
        StoreIo: It is not in a git repository, or nothing could be run there safely.
    """
    repository = Repository(root)
    _tell(repository, _line(_find_start(), repository))


def mend_driver(root: Path) -> str | None:
    """Isolate a driver that an earlier version told git of; what to say about it, if there was one.

    Nothing that the present line names is run.
    """
    try:
        repository = Repository(root)
        # Wherever it is configured: what this clone says outranks what its user says for all of them.
        present = os.fsdecode(repository.run("config", "--get", _DRIVER, accept=(0, 1))).strip()
    except StoreIo:
        return None
    if not _runs_work_tree(present):
        return None
    try:
        try:
            line = _line(_find_start(), repository)
        except StoreIo as error:
            _change(repository, "--unset-all", _DRIVER)
            return f"{_UNSAFE}; it was removed, since {error}"
        _tell(repository, line)
    except StoreIo as error:
        return f"{_UNSAFE}, and cannot be changed ({error}); remove it: git config --unset-all {_DRIVER}"
    return f"{_UNSAFE}; it was mended and starts isolated now"


def _runs_work_tree(line: str) -> bool:
    """Whether Python would look for modules where git runs it."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    if "cortex_replay" not in words:
        return False
    place = words.index("cortex_replay")
    flags = "".join(word for word in words[:place] if word.startswith("-") and not word.startswith("--"))
    return words[place - 1 : place] == ["-m"] and "I" not in flags


def _tell(repository: Repository, line: str) -> None:
    _change(repository, "merge.cortex-replay.name", "cortex-replay index")
    _change(repository, "--replace-all", _DRIVER, line)


def _change(repository: Repository, *arguments: str) -> None:
    """Change the configuration of this clone, unless git would write through a link, or to another clone."""
    _refuse_another_clone(repository)
    config = _common_folder(repository) / "config"
    if config.is_symlink():
        raise StoreIo(f"{escape(str(config))} is a link; git would write to where it leads")
    repository.run("config", "--local", *arguments)


def _refuse_another_clone(repository: Repository) -> None:
    """An archive can bring a ``.git`` that leads to any repository of the user's."""
    if "GIT_DIR" in os.environ:
        return  # the user says so, or git itself
    entry = repository.top / ".git"
    folder = Path(os.fsdecode(repository.run("rev-parse", "--absolute-git-dir")).rstrip("\n"))
    common = _common_folder(repository)
    knows_us = folder == common == entry
    if not knows_us and folder == common:  # of a submodule; or apart, where it is nobody else's
        named = os.fsdecode(repository.run("config", "--local", "--get", "core.worktree", accept=(0, 1)))
        is_here = (folder / named.rstrip("\n")).resolve() == repository.top
        knows_us = is_here if named.strip() else folder.name != ".git"
    elif not knows_us and folder.parent == common / "worktrees":
        with suppress(OSError), Folder.at(folder) as opened:
            named = os.fsdecode(opened.read("gitdir", _MAX_PATH)).rstrip("\n")
            knows_us = (folder / named).resolve() == entry
    if not knows_us:
        raise StoreIo(
            f"{escape(str(entry))} leads to {escape(str(common))}, which belongs to another work tree; "
            "whoever packed this may have planted it"
        )


@cache
def _find_start() -> _Start:
    """The strictest way in which this interpreter finds this very package."""
    if not sys.executable:
        raise StoreIo(f"the path of Python is not known; {_WITHOUT}")
    # The folder without links, which a branch might change; Python itself often is one, and must stay it.
    python = Path(sys.executable).parent.resolve() / Path(sys.executable).name
    for flags in _MODES:
        command = [str(python), *flags, "-c", _PROBE, str(_START.parents[1])]
        try:
            done = subprocess.run(
                command, capture_output=True, check=False, timeout=_SECONDS, cwd=python.parent
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            found, *path = json.loads(done.stdout.splitlines()[-1])
            if Path(found).parents[1].resolve() == _START.parent.resolve():
                places = {
                    python.parent,
                    python.parents[1] / "pyvenv.cfg",
                    python.resolve().parent,
                    *map(Path.resolve, map(Path, path)),
                }
                return _Start((str(python), *flags, str(_START.resolve())), tuple(sorted(places)))
    raise StoreIo(
        f"{escape(str(python))} does not find this cortex-replay when it starts isolated (-I); "
        f"install it there with pip, then run: cortex-replay init --driver-only. {_WITHOUT}"
    )


def _line(start: _Start, repository: Repository) -> str:
    """What git is to run."""
    command = f"{_words(start.words)} {_ARGUMENTS}"
    inside: dict[Path, list[str]] = {}
    for place in start.places:
        top = _work_tree_of(place, repository)
        if top is not None:
            inside.setdefault(top, []).append(place.relative_to(top).as_posix())
    for top, places in inside.items():
        around = repository if top == repository.top else Repository(top)
        tracked = [place for place in places if place == "." or around.tracks(place)]
        if tracked:
            raise StoreIo(
                f"git tracks {escape(str(top / tracked[0]))}, and the driver would run what a branch holds "
                "there. Install cortex-replay elsewhere, then run: cortex-replay init --driver-only. "
                f"{_WITHOUT}"
            )
    if not inside:
        return command
    tests = " && ".join(_test(top, places) for top, places in inside.items())
    refuse = _words(["echo", f"{_REFUSAL}; {_WITHOUT}"])
    # Git tells its driver which repository and index are in use; the question is about those at the top.
    guard = f"unset {_UNSET}; {tests}"
    return f"{guard} && exec {command}; {refuse} >&2; exit 1"


def _work_tree_of(place: Path, repository: Repository) -> Path | None:
    """The work tree that a place is in, if a branch of this repository can be checked out there: all work
    trees of a clone share one configuration, whichever of them it was told in."""
    if place.is_relative_to(repository.top):
        return repository.top
    try:
        top = find_top(place)
        is_shared = top is not None and _common_folder(Repository(top)) == _common_folder(repository)
    except StoreIo:
        return None
    return top if is_shared else None


def _common_folder(repository: Repository) -> Path:
    """Where git keeps what all work trees of a clone share."""
    common = os.fsdecode(repository.run("rev-parse", "--git-common-dir")).rstrip("\n")
    return (repository.top / common).resolve()


def _test(top: Path, inside: Sequence[str]) -> str:
    """A test, for a shell, that nothing a branch holds stands in or above these places."""
    above = {top / folder for place in inside for folder in PurePosixPath(place).parents}
    tests = [f"test ! -L {_words([str(folder)])}" for folder in sorted(above - {top})]
    patterns = _words(f":(top,icase,literal){place}" for place in inside)
    tests.append(f'test -z "$(git -C {_words([str(top)])} ls-files -- {patterns} || echo unknown)"')
    return " && ".join(tests)


def _words(words: Iterable[str]) -> str:
    """Words for the shell, in a text in which git replaces what follows a percent sign."""
    return " ".join(shlex.quote(word) for word in words).replace("%", "%%")
