"""A server that runs as a process of ours and speaks over its standard streams."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final

from cortex_replay.engine.mcp.link import Said
from cortex_replay.errors import Transport
from cortex_replay.run.mcp.stdio.frames import FrameReader, FrameTooLarge, FrameWriter, WriteTimeout

__all__ = ["ProcessLink"]

_GRACE_S: Final = 2.0
"""How long a server may take to end: after the end of its input, and again after it was told to."""
_LAST_WORDS_S: Final = 0.5
"""How long to wait for the status of a server that has closed its output."""
_PATIENCE_S: Final = 60.0
"""How long a server may not read at all."""
_CHILDREN_S: Final = 0.2
_DEATH_S: Final = 10.0
"""How long the kernel may take to end what was killed."""
_LOOK_S: Final = 0.02
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)


def _note_nothing(_group: int, _is_there: bool) -> None:
    return None


class ProcessLink:
    """A server in a process group of its own, all of which ends with it. :meth:`start` makes one."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        note: Callable[[int, bool], None] = _note_nothing,
        *,
        grace_s: float = _GRACE_S,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        assert process.stdin is not None  # noqa: S101 - it was started with one
        assert process.stdout is not None  # noqa: S101 - as above
        self._process = process
        self._note = note
        self._grace_s = grace_s
        self._patience_s = patience_s
        self._reader = FrameReader(process.stdout.fileno())
        self._writer = FrameWriter(process.stdin.fileno(), patience_s)
        self._exit: asyncio.Task[int] = asyncio.ensure_future(_exit_of(process))
        self._ending: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        note(process.pid, True)

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        errors: int | None = None,
        note: Callable[[int, bool], None] = _note_nothing,
        *,
        grace_s: float = _GRACE_S,
        patience_s: float = _PATIENCE_S,
    ) -> ProcessLink:
        """Start a server.

        Args:
            command: Its words.
            environment: Its own, if not ours.
            folder: Where it runs, if not here.
            errors: Where its standard error goes, if not to ours.
            note: Is told its process group, and whether it is there or has ended.
            grace_s: How long it may take to end by itself.
            patience_s: How long it may not read at all.

        Raises:
            Transport: It cannot be started.
        """
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=None if environment is None else dict(environment),
                cwd=folder,
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise Transport(f"{command[0]} cannot be started: {reason}") from None
        return cls(process, note, grace_s=grace_s, patience_s=patience_s)

    async def send(self, frame: bytes) -> None:
        if self._ending is not None:
            raise Transport("the server has ended")
        try:
            await self._writer.write(frame)
        except WriteTimeout:
            self._end_soon()
            raise Transport(f"the server did not read its input for {self._patience_s:g} s") from None
        except (OSError, ValueError):
            raise Transport(await self._last_words()) from None

    async def frames(self) -> AsyncGenerator[Said, None]:
        problem = ""
        try:
            async for frame in self._reader.frames():
                if self._reader.is_cut:
                    problem = " in the middle of a frame"
                    break
                yield Said(frame)
        except FrameTooLarge as error:
            self._end_soon()
            raise Transport(f"the server sent a frame that cannot be taken: {error}") from None
        words = await self._last_words()
        self._end_soon()
        raise Transport(words + problem)

    async def close(self) -> None:
        """End the server as the protocol has it: close its input and wait; then tell it; then kill it."""
        self._end_soon()
        assert self._ending is not None  # noqa: S101 - as of now
        await asyncio.shield(self._ending)

    def hurry(self) -> None:
        """Do not wait for it to end by itself."""
        self._hurry.set()

    async def _last_words(self) -> str:
        """How the server ended, if it did."""
        done, _ = await asyncio.wait([self._exit], timeout=_LAST_WORDS_S)
        if not done:
            return "the server has closed its output, and runs on"
        status = self._exit.result()
        if status >= 0:
            return f"the server has ended (exit status {status})"
        return f"the server was ended by signal {-status}"

    def _end_soon(self) -> None:
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())

    async def _end(self) -> None:
        process = self._process
        assert process.stdin is not None  # noqa: S101 - it was started with one
        assert process.stdout is not None  # noqa: S101 - as above
        self._writer.close()
        with contextlib.suppress(OSError):
            process.stdin.close()
        hurry = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait([self._exit, hurry], timeout=self._grace_s, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        # Also where the server itself has ended: it may have left children.
        if self._signal(signal.SIGTERM):
            await asyncio.wait([self._exit], timeout=self._grace_s)
            await self._wait_for_children()
            self._signal(_KILL)
        await asyncio.wait([self._exit], timeout=_DEATH_S)
        self._reader.close()
        process.stdout.close()
        self._note(process.pid, False)

    async def _wait_for_children(self) -> None:
        """Wait until its group is empty. A process that has ended counts until its parent asks for its
        status, which may never happen, so this takes a moment at most."""
        deadline = asyncio.get_running_loop().time() + min(self._grace_s, _CHILDREN_S)
        while self._signal(0) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_LOOK_S)

    def _signal(self, number: int) -> bool:
        """Send a signal to the group; whether it has any process."""
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


async def _exit_of(process: subprocess.Popen[bytes]) -> int:
    """The status of a process, once it has ended."""
    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux
        while process.poll() is None:
            await asyncio.sleep(_LOOK_S)
        return process.wait()
    ended = loop.create_future()
    loop.add_reader(descriptor, lambda: None if ended.done() else ended.set_result(None))
    try:
        await ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return process.wait()
