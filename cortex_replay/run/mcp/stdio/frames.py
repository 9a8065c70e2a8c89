"""Frames over descriptors: a line each. Nothing is buffered but the frame that is under way, so who does not
read is not written to, and who writes too much is not read from."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from typing import Final

from cortex_replay.mcp.messages import MOST_FRAME

__all__ = ["FrameReader", "FrameTooLarge", "FrameWriter", "WriteTimeout"]

_BLOCK: Final = 256 * 1024


class FrameTooLarge(Exception):
    """A line does not end where it has to."""


class WriteTimeout(OSError):
    """The other side does not read."""


class FrameReader:
    """Lines that come from a descriptor, which stays the caller's.

    Args:
        descriptor: To read from.
        most: What a line may have.
    """

    def __init__(self, descriptor: int, most: int = MOST_FRAME) -> None:
        self._descriptor = descriptor
        self._most = most
        loop = asyncio.get_running_loop()
        self._readiness = _Readiness(descriptor, loop.add_reader, loop.remove_reader)
        self.is_cut = False
        """Whether the last line did not end."""

    async def frames(self) -> AsyncIterator[bytes]:
        """Each line that holds something, without its end.

        Raises:
            FrameTooLarge: One is too long; what it began with is forgotten.
            OSError: The descriptor cannot be read.
        """
        parts: list[bytes] = []
        size = 0
        while block := await self._read():
            first, *others = block.split(b"\n")
            parts.append(first)
            size += len(first)
            if size > self._most:
                raise FrameTooLarge(f"it is larger than {self._most // 2**20} MiB")
            if not others:
                continue
            if frame := b"".join(parts).strip():
                yield frame
            *whole, last = others
            for line in whole:
                if frame := line.strip():
                    yield frame
            parts, size = [last], len(last)
        self.is_cut = any(map(bytes.strip, parts))
        if self.is_cut:
            yield b"".join(parts).strip()

    async def _read(self) -> bytes:
        while True:
            try:
                await self._readiness.wait()
                return os.read(self._descriptor, _BLOCK)
            except NotImplementedError:
                return await asyncio.to_thread(os.read, self._descriptor, _BLOCK)
            except BlockingIOError:
                continue
            except ConnectionError:
                return b""

    def close(self) -> None:
        """Read no more: a reader that waits finds the end."""
        self._readiness.close()


class FrameWriter:
    """Writes lines to a descriptor, which stays the caller's.

    Args:
        descriptor: To write to.
        patience_s: How long the other side may not read at all; by default as long as it likes.
    """

    def __init__(self, descriptor: int, patience_s: float | None = None) -> None:
        self._descriptor = descriptor
        self._patience_s = patience_s
        self._lock = asyncio.Lock()
        loop = asyncio.get_running_loop()
        self._readiness = _Readiness(descriptor, loop.add_writer, loop.remove_writer)
        self._was_blocking = os.get_blocking(descriptor)
        if not os.isatty(descriptor):  # a terminal is shared with the process that started us
            os.set_blocking(descriptor, False)

    async def write(self, frame: bytes, *, is_cut: bool = False) -> None:
        """Write a line, once those before it are written.

        Args:
            frame: What stands in it.
            is_cut: Whether it breaks off there.

        Raises:
            OSError: The other side is gone; :class:`WriteTimeout` if it does not read.
        """
        async with self._lock:
            left = memoryview(frame if is_cut else frame + b"\n")
            while True:
                with contextlib.suppress(BlockingIOError):
                    left = left[os.write(self._descriptor, left) :]
                if not left:
                    return
                try:
                    async with asyncio.timeout(self._patience_s):
                        await self._readiness.wait()
                except TimeoutError:
                    raise WriteTimeout(f"nothing was read for {self._patience_s:g} s") from None

    def close(self) -> None:
        """Write no more, and leave the descriptor as it was found."""
        self._readiness.close()
        os.set_blocking(self._descriptor, self._was_blocking)


class _Readiness:
    """When a descriptor can be used. Nothing is left with the loop of one that is closed."""

    def __init__(
        self,
        descriptor: int,
        add: Callable[[int, Callable[[], None]], None],
        remove: Callable[[int], object],
    ) -> None:
        self._descriptor = descriptor
        self._add = add
        self._remove = remove
        self._waiting: asyncio.Future[None] | None = None
        self._is_closed = False

    async def wait(self) -> None:
        """Wait for it.

        Raises:
            NotImplementedError: The loop cannot tell: it is a plain file, or this is Windows.
            ConnectionError: It was closed.
        """
        if self._is_closed:
            raise ConnectionAbortedError
        waiting = asyncio.get_running_loop().create_future()
        try:
            self._add(self._descriptor, lambda: None if waiting.done() else waiting.set_result(None))
        except PermissionError:
            raise NotImplementedError from None
        self._waiting = waiting
        try:
            await waiting
        finally:
            self._stop()

    def close(self) -> None:
        self._is_closed = True
        waiting = self._waiting
        self._stop()
        if waiting is not None and not waiting.done():
            waiting.set_exception(ConnectionAbortedError())

    def _stop(self) -> None:
        if self._waiting is not None:
            self._waiting = None
            self._remove(self._descriptor)
