"""Running a command for some seconds at most, and keeping the end of what it prints."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from cortex_replay.cli import output

__all__ = ["Tail", "run_in_time"]

_KEPT: Final = 8 * 1024
"""Characters of the text; what a person looks at stands at its end."""
_READ: Final = 2 * _KEPT
"""More, so that a secret of several lines is seen as a whole before the text is cut."""
_LONGEST_WAIT: Final = 0.5
"""Whatever the command started may have the pipe still, and may never let go of it."""


def run_in_time(
    command: Sequence[str], environment: Mapping[str, str], seconds: float, into: int | None
) -> int | None:
    """How a command ended; ``None`` if it did not in time. Whatever it started ends with it.

    Args:
        command: Its words.
        environment: All of it.
        seconds: How long it may take.
        into: Where it prints, as :class:`subprocess.Popen` takes it.

    Raises:
        OSError: It cannot be run.
    """
    with subprocess.Popen(
        command, env=dict(environment), stdout=into, stderr=into, start_new_session=True
    ) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


class Tail:
    """A pipe that a command prints into. Who prints never waits, and the last of it is kept."""

    def __init__(self) -> None:
        self._out, self.descriptor = os.pipe()
        self._kept = b""
        self._is_cut = False
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)
        self._thread.join(_LONGEST_WAIT)

    def _read(self) -> None:
        try:
            while block := os.read(self._out, 64 * 1024):
                whole = self._kept + block
                self._is_cut = self._is_cut or len(whole) > _READ
                self._kept = whole[-_READ:]
        finally:
            os.close(self._out)

    def text(self) -> str:
        """What was printed last, in whole lines and without secrets."""
        lines = self._kept.decode("utf-8", "replace")
        if self._is_cut:
            lines = lines.partition("\n")[2] or lines
        clean = output.redact(lines)
        if len(clean) <= _KEPT:
            return f"…\n{clean}" if self._is_cut else clean
        last = clean[-_KEPT:]
        return f"…\n{last.partition(chr(10))[2] or last}"
