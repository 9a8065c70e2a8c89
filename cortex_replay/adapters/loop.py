"""An event loop for callers that have none."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["BackgroundLoop"]

_T = TypeVar("_T")


class BackgroundLoop:
    """A loop in a thread of its own: its callers may stand inside a running one, as every notebook does.

    It starts with the first call, again with the first one in a forked child, where the parent's thread
    does not exist, and dies with the process.

    Args:
        name: The thread's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()  # another thread may have held the parent's
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Start the work.

        Raises:
            RuntimeError: The interpreter is shutting down, and the thread is gone.
        """
        if sys.is_finalizing():
            work.close()
            raise RuntimeError("the interpreter is shutting down")
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True).start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do the work, and wait for it."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # an interrupt here must not leave the call running there
            raise
