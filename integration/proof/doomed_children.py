"""Processes that are killed at some moment, and what they had said by then."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from glob import iglob
from pathlib import Path
from random import Random
from tempfile import TemporaryFile
from threading import Event
from typing import Final

__all__ = ["LOST", "STUCK", "UNREADABLE", "Results", "killed_command", "killed_fork"]

LOST: Final = "answers lost"
UNREADABLE: Final = "unreadable"
STUCK: Final = "next one fails"
Results = Counter[str]
_LOOK_EVERY_S: Final = 0.1


def killed_fork(work: Callable[[Callable[[str], None]], None], random: Random, longest: float) -> list[str]:
    """Fork, have the child work, and kill it at some moment after its first word; gives all its words.

    Args:
        work: What the child does, until it is killed; it says by its argument what it has finished.
        random: Chooses the moment.
        longest: The seconds within which it comes.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            work(partial(_say, writer))
        finally:
            os._exit(1)
    os.close(writer)
    words = os.read(reader, 2**16)
    time.sleep(random.uniform(0, longest))
    os.kill(child, signal.SIGKILL)
    while more := os.read(reader, 2**16):
        words += more
    os.close(reader)
    os.waitpid(child, 0)
    return words.decode().splitlines()


def _say(pipe: int, word: str) -> None:
    os.write(pipe, f"{word}\n".encode())


def killed_command(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    delay: float,
    reached: Event | None = None,
) -> tuple[str, bool]:
    """Start a command with a process group of its own, and kill the group.

    Args:
        command: The command.
        folder: Where it works.
        environment: All that it knows.
        delay: The seconds to wait before it is killed.
        reached: What they begin with, if it is not the start.

    Returns:
        What it wrote, and whether it was killed before it had ended.
    """
    with (
        TemporaryFile("w+") as out,
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        while reached is not None and not reached.wait(_LOOK_EVERY_S) and process.poll() is None:
            pass
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            while _is_alive(process.pid):
                time.sleep(_LOOK_EVERY_S / 10)
        out.seek(0)
        return out.read(), process.returncode == -signal.SIGKILL


def _is_alive(group: int) -> bool:
    """Whether a thread of a group is not dead yet, and so holds the locks of its process still."""
    for path in iglob("/proc/[0-9]*/task/*/stat"):  # noqa: PTH207 - Path.glob fails if one goes
        try:
            _, _, fields = Path(path).read_text().rpartition(")")
        except OSError:  # it has just gone
            continue
        state, _, its_group = fields.split()[:3]
        if int(its_group) == group and state not in "ZX":
            return True
    return False
