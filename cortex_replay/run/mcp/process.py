"""A server that runs as a process of ours and speaks over its standard streams."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import IO, Final

from cortex_replay.engine.mcp.link import Said
from cortex_replay.errors import Transport

__all__ = ["ProcessLink"]

_MOST_FRAME: Final = 64 * 2**20
_GRACE_S: Final = 2.0


class ProcessLink:
    """Frames are lines. :meth:`start` makes one."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        errors: int | IO[bytes] | None = None,
    ) -> ProcessLink:
        """Start a server.

        Args:
            command: Its words.
            environment: Its own, if not ours.
            folder: Where it runs, if not here.
            errors: Where its standard error goes, if not to ours.

        Raises:
            Transport: It cannot be started.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=folder,
                limit=_MOST_FRAME,
            )
        except OSError as error:
            raise Transport(f"{command[0]} cannot be started: {error.strerror}") from None
        return cls(process)

    async def send(self, frame: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was started with one
        try:
            self._process.stdin.write(frame + b"\n")
            await self._process.stdin.drain()
        except ConnectionError:
            raise Transport("the server has ended") from None

    async def frames(self) -> AsyncIterator[Said]:
        assert self._process.stdout is not None  # noqa: S101 - it was started with one
        while line := await self._process.stdout.readline():
            if frame := line.strip():
                yield Said(frame)

    async def close(self) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was started with one
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _GRACE_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            await self._process.wait()
