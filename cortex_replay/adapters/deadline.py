"""The time that a call may take."""

from __future__ import annotations

import asyncio

from cortex_replay.errors import Timeout

__all__ = ["Deadline", "Watch"]


class Deadline:
    """When one call must be over: its retries, its pauses and its whole stream."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.at = asyncio.get_running_loop().time() + timeout_ms / 1000

    @property
    def remaining_s(self) -> float:
        return self.at - asyncio.get_running_loop().time()

    def check(self) -> None:
        """Refuse to go on once it has passed.

        Raises:
            Timeout: It has.
        """
        if self.remaining_s < 0:
            raise Timeout(self.timeout_ms)


class Watch:
    """One timer for all the reads of a stream, where ``asyncio.timeout_at`` would set one for each.

    It cancels the task that reads, and only while it reads. Cancellations are counted as in
    :class:`asyncio.Timeout`, so that one from outside at the same moment stays one.
    """

    def __init__(self, deadline: float) -> None:
        self._timer = asyncio.get_running_loop().call_at(deadline, self._pass)
        self._has_passed = False
        self._reader: asyncio.Task[object] | None = None
        self._cancelled_before = 0

    def __enter__(self) -> None:
        if self._has_passed:
            raise TimeoutError
        self._reader = task = asyncio.current_task()
        self._cancelled_before = 0 if task is None else task.cancelling()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task, self._reader = self._reader, None
        if self._has_passed and task is not None:
            is_only_ours = task.uncancel() <= self._cancelled_before
            if is_only_ours and kind is asyncio.CancelledError:
                raise TimeoutError

    def close(self) -> None:
        self._timer.cancel()

    def _pass(self) -> None:
        self._has_passed = True
        if self._reader is not None:
            self._reader.cancel()
