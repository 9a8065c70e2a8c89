"""One message a line, over a pair of streams."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import select
import threading
from collections.abc import AsyncIterator
from typing import Final, Protocol

from cortex_replay.admin.callers import Caller
from cortex_replay.admin.rpc import MAX_BYTES, RpcDispatcher, too_large

__all__ = ["FileReader", "FileWriter", "LineReader", "LineWriter", "serve_lines"]

_PIECE: Final = 64 * 1024
_AT_ONCE: Final = 64
"""How many calls are under way together; the next line is read when one of them is done."""


class LineReader(Protocol):
    """What is needed of an ``asyncio.StreamReader``."""

    async def read(self, n: int, /) -> bytes: ...


class LineWriter(Protocol):
    """What is needed of an ``asyncio.StreamWriter``."""

    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None: ...


async def serve_lines(
    dispatcher: RpcDispatcher, caller: Caller, reader: LineReader, writer: LineWriter
) -> None:
    """Answer every line until the last one, and end when all of them are answered.

    Answers come as they are ready, not in the order of their calls; the id tells which is which. A reader
    of answers who is gone ends it too, along with what is under way.
    """
    gate = asyncio.Semaphore(_AT_ONCE)
    turn = asyncio.Lock()

    async def answer(line: bytes | None) -> None:
        try:
            reply = too_large() if line is None else await dispatcher.handle(line, caller)
            if reply is not None:
                async with turn:
                    writer.write(reply + b"\n")
                    await writer.drain()
        finally:
            gate.release()

    try:
        async with asyncio.TaskGroup() as group:
            async for line in _lines(reader):
                await gate.acquire()
                group.create_task(answer(line))
    except* ConnectionError:
        pass


async def _lines(reader: LineReader) -> AsyncIterator[bytes | None]:
    """The lines that say something; ``None`` for one that is too long."""
    pieces: list[bytes] = []
    size = 0
    while piece := await reader.read(_PIECE):
        *ends, rest = piece.split(b"\n")
        for end in ends:
            if size + len(end) > MAX_BYTES:
                yield None
            elif line := b"".join([*pieces, end]).strip(b" \t\r"):
                yield line
            pieces, size = [], 0
        size += len(rest)
        if size > MAX_BYTES:
            pieces.clear()  # the rest of it is passed over
        else:
            pieces.append(rest)
    if size > MAX_BYTES:
        yield None
    elif line := b"".join(pieces).strip(b" \t\r"):
        yield line


class FileReader:
    """Reads a file descriptor of any kind; asyncio itself takes pipes and sockets only.

    A thread of its own waits for input, since an executor's would keep the process from ending.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(1)
        threading.Thread(target=self._wait_for_input, name="stdio", daemon=True).start()

    async def read(self, n: int, /) -> bytes:
        """The next piece, of whatever size; nothing at the end."""
        del n
        return await self._pieces.get()

    def _wait_for_input(self) -> None:
        piece = b"-"
        while piece:
            try:
                piece = os.read(self._descriptor, _PIECE)
            except BlockingIOError:  # somebody made it so
                select.select([self._descriptor], [], [])
                continue
            except OSError:
                piece = b""
            putting = self._pieces.put(piece)
            try:
                asyncio.run_coroutine_threadsafe(putting, self._loop).result()
            except (RuntimeError, concurrent.futures.CancelledError):
                putting.close()  # the loop has ended
                return


class FileWriter:
    """Writes to a file descriptor of any kind, without holding up the loop."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = b""

    def write(self, data: bytes, /) -> None:
        self._waiting += data

    async def drain(self) -> None:
        """Write what is waiting.

        Raises:
            ConnectionError: Nobody reads any more.
        """
        data, self._waiting = self._waiting, b""
        await asyncio.to_thread(self._write_all, data)

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
