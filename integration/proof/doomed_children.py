"""Processes that are killed at some moment, and what they had said by then."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

__all__ = ["killed_command", "killed_fork"]

_GRACE_S: Final = 60


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
    command: Sequence[str], folder: Path, environment: Mapping[str, str], after: float
) -> tuple[str, bool]:
    """Start a command with a process group of its own, and kill the group after some seconds.

    Returns:
        What it wrote, and whether it was killed before it had ended.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, _ = process.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            pass
        else:
            return out, False
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate(timeout=_GRACE_S)
        return out, True
