"""MCP servers that a test's subprocesses start: their calls are the test's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from cortex_replay.run import Run
from cortex_replay.run.mcp.desk import Desk
from cortex_replay.run.mcp.stdio.socket import RunSocket
from cortex_replay.shim import VARIABLE

__all__ = ["ToolServers"]


class ToolServers:
    """The socket of one process, which shims find; in the name of whichever test is running.

    Args:
        run: Of this process.
        is_relayed: Whether a command around these tests records, and not we.
    """

    def __init__(self, run: Run, *, is_relayed: bool) -> None:
        self._scope: str | None = None
        self._open = ExitStack()
        outer = os.environ.get(VARIABLE) if is_relayed else None
        self._socket = self._open.enter_context(RunSocket.open(Desk(run), lambda: self._scope, outer))

    @contextmanager
    def serve(self, scope: str) -> Iterator[None]:
        """Let a test have the clients that come now."""
        self._scope = scope
        with pytest.MonkeyPatch.context() as patch:
            if self._socket is not None:
                patch.setenv(VARIABLE, self._socket.path)
            try:
                yield
            finally:
                self._scope = None

    def close(self) -> None:
        self._open.close()
