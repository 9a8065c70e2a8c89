"""Running git without running anything that a repository names.

A clone brings no configuration, but git takes any folder with ``HEAD``, ``objects`` and ``refs`` for a
repository, and an unpacked archive brings a whole ``.git``. So every call

* is one of the few subcommands that need no filter, no differ, no editor and no signature,
* starts at the top of a work tree that we found ourselves (:mod:`cortex_replay.store.git.repository`),
* overrides the settings that name a program for those subcommands, and reaches no other machine,
* gets an environment in which no variable of git's is left but those that say which repository is meant
  and what the user's own configuration is,
* ends: it may be silent for so long and print so much.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import IO, Final, NamedTuple, Self

from cortex_replay.disk import Closing
from cortex_replay.errors import StoreIo
from cortex_replay.store.programs import find_program

__all__ = ["Blobs", "GitProcess", "TooLarge"]

_SUBCOMMANDS: Final = frozenset(
    ["cat-file", "check-ignore", "config", "ls-files", "ls-tree", "rev-list", "rev-parse"]
)
_WITH_PATTERNS: Final = ("ls-files", "ls-tree", "rev-list")
"""The others take none, and `check-ignore` not the flag that makes plain names of them."""
_SETTINGS: Final = (
    "core.fsmonitor=",  # a program that is asked by whatever reads the index; before 2.36 `false` was one
    f"core.hooksPath={os.devnull}",  # none of the subcommands runs a hook today
    "core.bigFileThreshold=1m",  # larger blobs are streamed: a small pack may hold a huge one
    "safe.bareRepository=explicit",  # since 2.38; before, that we start at the top has to do
    "submodule.recurse=false",  # a submodule has a configuration of its own
)
_FLAGS: Final = ("--no-pager", "--no-optional-locks", "--no-replace-objects")
_FIXED: Final = {
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone would fetch what it lacks, by a program of its config
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
_USERS_CONFIG: Final = "GIT_CONFIG_"
"""Git takes ``safe.directory`` only from the user's own configuration, and many a container gives it by
such a variable. What they set ranks below the settings above."""

SECONDS: Final = 60
MAX_OUTPUT: Final = 2**28
_MAX_WORDS: Final = 2**14


class TooLarge(NamedTuple):
    """A blob that was not read."""

    size: int


class GitProcess:
    """Starts git at the top of one work tree."""

    def __init__(self, top: Path, repository: dict[str, str]) -> None:
        """Prepare the environment.

        Args:
            top: The top of the work tree.
            repository: The variables that say which repository is meant, with absolute paths.
        """
        self._top = top
        self._program = _find_git(top)
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or name.startswith(_USERS_CONFIG)
        }
        self._environment |= _FIXED | repository

    def run(self, *arguments: str, given: bytes = b"", accept: tuple[int, ...] = (0,)) -> bytes:
        """What a git command prints.

        Raises:
            StoreIo: It failed, with git's own words; or it was silent for too long, or said too much.
        """
        with self.start(*arguments) as (process, watchdog):
            if process.stdin is None or process.stdout is None or process.stderr is None:
                raise AssertionError  # never: for the type checker
            words: list[bytes] = []
            helpers = [
                Thread(target=_feed, args=(process.stdin, given)),
                Thread(target=_listen, args=(process.stderr, words)),
            ]
            for helper in helpers:
                helper.start()
            watchdog.expect()
            output = process.stdout.read(MAX_OUTPUT + 1)
            if len(output) > MAX_OUTPUT:
                process.kill()
            for helper in helpers:
                helper.join()
            status = process.wait()
        if len(output) > MAX_OUTPUT:
            raise StoreIo(f"git {arguments[0]} printed more than {MAX_OUTPUT} bytes")
        watchdog.complain()
        if status not in accept:
            raise StoreIo(f"git: {b''.join(words).decode(errors='replace').strip()}")
        return output

    def blobs(self) -> Blobs:
        """A reader of many blobs; to be closed."""
        return Blobs(self)

    @contextmanager
    def start(
        self, *arguments: str, errors: int = subprocess.PIPE
    ) -> Iterator[tuple[subprocess.Popen[bytes], _Watchdog]]:
        """A git process that ends with the block."""
        if arguments[0] not in _SUBCOMMANDS:
            raise ValueError(f"git {arguments[0]} may run programs that a repository names")
        flags = [word for setting in _SETTINGS for word in ("-c", setting)]
        if arguments[0] in _WITH_PATTERNS:
            flags.append("--literal-pathspecs")
        try:
            process = subprocess.Popen(
                [self._program, *_FLAGS, *flags, *arguments],
                cwd=self._top,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        except OSError as error:
            raise StoreIo(f"git cannot be run: {error.strerror}") from None
        with process, _Watchdog(process) as watchdog:
            try:
                yield process, watchdog
            except BaseException:
                process.kill()
                raise


class Blobs(Closing):
    """Reads blobs from one git process; from a new one after each that is too large, which may be huge."""

    def __init__(self, git: GitProcess) -> None:
        self._git = git
        self._open = ExitStack()
        self._batch: tuple[subprocess.Popen[bytes], _Watchdog] | None = None

    def read(self, name: str, max_bytes: int) -> bytes | TooLarge | None:
        """The content of a blob; ``None`` where git has none.

        Raises:
            StoreIo: Git cannot be run, or was silent for too long.
        """
        if self._batch is None:
            started = self._git.start("cat-file", "--batch", errors=subprocess.DEVNULL)
            self._batch = self._open.enter_context(started)
        process, watchdog = self._batch
        given, pipe = process.stdin, process.stdout
        if given is None or pipe is None:
            raise AssertionError  # never: for the type checker
        watchdog.expect()
        try:
            given.write(f"{name}\n".encode())
            given.flush()
        except OSError:
            return None  # it died on an earlier one
        answer = _answer(pipe, max_bytes)
        watchdog.complain()
        watchdog.rest()
        if isinstance(answer, TooLarge):
            self.close()
        return answer

    def close(self) -> None:
        """End the process."""
        if self._batch is not None:
            self._batch[0].kill()
            self._batch = None
            with suppress(OSError):
                self._open.close()


def _answer(pipe: IO[bytes], max_bytes: int) -> bytes | TooLarge | None:
    """What ``git cat-file --batch`` says next."""
    head = pipe.readline(_MAX_WORDS).split()
    if len(head) != 3 or head[1] != b"blob":  # "<name> missing"
        return None
    size = int(head[2])
    if size > max_bytes:
        return TooLarge(size)
    content = pipe.read(size + 1)
    return content[:-1] if len(content) == size + 1 else None


class _Watchdog:
    """Kills a process that is silent for too long while somebody waits for it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._deadline: float | None = None
        self._has_bitten = False
        self._over = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def expect(self) -> None:
        """From now on somebody waits."""
        self._deadline = monotonic() + SECONDS

    def rest(self) -> None:
        """Nobody waits."""
        self._deadline = None

    def complain(self) -> None:
        """Say that it was too long, if it was.

        Raises:
            StoreIo: The process was killed.
        """
        if self._has_bitten:
            raise StoreIo(
                f"git gave no answer for {SECONDS} seconds; look for pipes or devices in the repository"
            )

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            deadline = self._deadline
            if deadline is not None and monotonic() > deadline:
                self._has_bitten = True
                self._process.kill()
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def _feed(pipe: IO[bytes], given: bytes) -> None:
    with suppress(OSError), pipe:  # git has heard enough, or is dead
        pipe.write(given)


def _listen(pipe: IO[bytes], words: list[bytes]) -> None:
    words.append(pipe.read(_MAX_WORDS))
    while pipe.read(_MAX_WORDS):
        pass


def _find_git(top: Path) -> str:
    program = find_program("git", top)
    if program is None:
        raise StoreIo("git cannot be run: no folder of PATH has it; relative ones do not count")
    return program
