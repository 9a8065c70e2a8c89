"""The socket of a run, where shims hand over clients; `cortex_replay/shim.py` has what is said there."""

from __future__ import annotations

import array
import asyncio
import contextlib
import itertools
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cortex_replay import shim
from cortex_replay.disk import PRIVATE_FOLDER, Folder
from cortex_replay.redact.logs import logger_of

if TYPE_CHECKING:
    from cortex_replay.run.mcp.desk import Desk
    from cortex_replay.run.mcp.stdio.client import StdioClient

__all__ = ["RunSocket"]

logger = logger_of(__name__)
_MOST_CLIENTS: Final = 256
_MOST_BYTES: Final = 8 * 2**20
"""Of a command and an environment; the kernel takes less."""
_HELLO_S: Final = 10.0
_HEAD: Final = 8
_MOST_DESCRIPTORS: Final = 16
_FAILURE: Final = 1
_numbers = itertools.count()


class NotAClient(Exception):
    """What came is not what a shim says."""


class RunSocket:
    """Serves the clients of one run, in a thread of its own, for as long as it is open.

    Args:
        desk: Opens their sessions.
        scope: Names the scope of a client that names none itself; ``None`` while the run takes no clients.
        outer: The path of another run's socket, which serves the clients instead.
    """

    def __init__(self, desk: Desk, scope: Callable[[], str | None] = str, outer: str | None = None) -> None:
        self._desk = desk
        self._scope = scope
        self._outer = outer
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self._folder, self.path, self._listener = _listen()
        self._thread = threading.Thread(target=self._run, name="cortex-replay-mcp", daemon=True)
        self._started = threading.Event()
        self._thread.start()
        self._started.wait()

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, desk: Desk, scope: Callable[[], str | None] = str, outer: str | None = None
    ) -> Iterator[RunSocket | None]:
        """A socket, if there can be one. Without it MCP servers are no part of the run; all else is."""
        if not hasattr(socket, "AF_UNIX"):
            yield None
            return
        try:
            served = cls(desk, scope, outer)
        except OSError as error:
            logger.warning("no socket for MCP servers: %s", error)
            yield None
            return
        try:
            yield served
        finally:
            served.close()

    def close(self) -> None:
        """End all sessions, and the servers that they have started."""
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._folder.unlink(Path(self.path).name)
        self._folder.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        stopped = asyncio.ensure_future(self._stop.wait())
        accepting = asyncio.ensure_future(self._accept())
        await asyncio.wait([stopped, accepting], return_when=asyncio.FIRST_COMPLETED)
        await stopped
        accepting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await accepting
        self._listener.close()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as error:  # too many descriptors are open
                logger.warning("an MCP client could not be taken: %s", error)
                await asyncio.sleep(0.1)
                continue
            if len(self._clients) >= _MOST_CLIENTS or shim.peer_user(connection) != os.geteuid():
                connection.close()
                continue
            task = asyncio.ensure_future(self._take(connection))
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def _take(self, connection: socket.socket) -> None:
        """Serve one client. Whatever it does, the run goes on."""
        received: list[int] = []
        connection.setblocking(False)
        try:
            async with asyncio.timeout(_HELLO_S):
                client = await _receive(connection, received)
            await self._serve_client(connection, client)
        except (NotAClient, OSError, TimeoutError) as error:
            logger.debug("an MCP client was refused: %s", error)
        except Exception:  # the run has others
            logger.exception("an MCP session failed")
        finally:
            for descriptor in received:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
            connection.close()

    async def _serve_client(self, connection: socket.socket, client: StdioClient) -> None:
        from cortex_replay.run.mcp.stdio.client import StdioClient, serve_client  # noqa: PLC0415 - few come

        assert self._stop is not None  # noqa: S101 - the loop runs
        scope = client.scope or self._scope()
        if scope is None:
            _say(connection, "?")
            return
        if self._outer is not None:
            _say(connection, f"@{self._outer}\0{scope}".replace("\n", " "))
            return
        chosen = StdioClient(
            client.server, client.command, client.environment, client.folder, scope, client.streams
        )

        def note(group: int, is_there: bool) -> None:
            _say(connection, f"{'+' if is_there else '-'}{group}")

        status = _FAILURE
        try:
            await serve_client(self._desk, chosen, _end_of(connection, self._stop), note)
            status = 0
        finally:
            _say(connection, f"={status}")


async def _end_of(connection: socket.socket, stop: asyncio.Event) -> None:
    """Wait until the shim is gone or was told to end, or the run ends."""
    loop = asyncio.get_running_loop()
    waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(loop.sock_recv(connection, 1))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


def _say(connection: socket.socket, line: str) -> None:
    with contextlib.suppress(OSError):  # it is gone, or does not read the little that it is told
        connection.send(f"{line}\n".encode())


async def _receive(connection: socket.socket, received: list[int]) -> StdioClient:
    """What a shim wants. Its descriptors are in ``received``, whatever comes of it.

    Raises:
        NotAClient: It says something else.
    """
    loop = asyncio.get_running_loop()
    head = await _receive_head(connection, received)
    if len(head) != _HEAD or head[:4] != shim.MAGIC or len(received) != 3:
        raise NotAClient("its head is not that of a shim")
    length = int.from_bytes(head[4:], "big")
    if length > _MOST_BYTES:
        raise NotAClient("it says too much")
    data = bytearray()
    while len(data) < length:
        block = await loop.sock_recv(connection, length - len(data))
        if not block:
            raise NotAClient("it left")
        data += block
    return _client_in(bytes(data), received)


async def _receive_head(connection: socket.socket, received: list[int]) -> bytes:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)
    room = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize)
    head, ancillary, flags, _ = connection.recvmsg(_HEAD, room, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers = array.array("i")
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
            received += numbers
            for number in numbers:
                os.set_inheritable(number, False)
    if flags & socket.MSG_CTRUNC:
        raise NotAClient("it hands over too many descriptors")
    return head


def _client_in(data: bytes, received: list[int]) -> StdioClient:
    # Most runs have no client.
    from cortex_replay.run.mcp.stdio.client import StdioClient, problem_of_name  # noqa: PLC0415

    texts = [os.fsdecode(text) for text in data.split(b"\0")]
    try:
        server, scope, folder, number = texts[:4]
        count = int(number)
    except ValueError:
        raise NotAClient("it says too little") from None
    command, variables = tuple(texts[4 : 4 + count]), texts[4 + count :]
    if count < 1 or len(command) != count:
        raise NotAClient("it names no command")
    if problem := problem_of_name(server):
        raise NotAClient(problem)
    environment = dict(variable.partition("=")[::2] for variable in variables)
    environment.pop("", None)
    reading, writing, errors = received
    return StdioClient(server, command, environment, folder or None, scope, (reading, writing, errors))


def _listen() -> tuple[Folder, str, socket.socket]:
    """A listening socket in the folder of this user's runs, which shims look into.

    Raises:
        OSError: There is no place for it.
    """
    problem: OSError = OSError("there is no place for it")
    for place in shim.places():
        try:
            folder = _own_folder(place)
        except OSError as error:
            problem = error
            continue
        try:
            return folder, *_bind(folder)
        except OSError as error:
            folder.close()
            problem = error
    raise problem


def _own_folder(place: str) -> Folder:
    """The folder of this user's runs."""
    with Folder.at(Path(place).resolve()) as base:
        folder = base.make_folder(Path(shim.folder_in(place)).name, PRIVATE_FOLDER)
    if not shim.is_private(folder.path):
        folder.close()
        raise PermissionError(f"{folder.path} is not yours alone: remove it, or have its owner do so")
    return folder


def _bind(folder: Folder) -> tuple[str, socket.socket]:
    """Listen under our process id, and a number: a process may have several runs, one within the other. What
    processes left there that are gone is removed."""
    for entry in folder.entries():
        if not _is_alive(entry.name):
            folder.unlink(entry.name)
    name = f"{os.getpid()}.{next(_numbers)}"
    new = f"{name}.new"
    folder.unlink(new)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(f"{folder.path}/{new}")
        listener.listen(_MOST_CLIENTS)
        listener.setblocking(False)
        folder.rename(new, folder, name)  # once it can be found, it takes connections
    except BaseException:
        listener.close()
        raise
    return f"{folder.path}/{name}", listener


def _is_alive(name: str) -> bool:
    number = name.partition(".")[0]
    try:
        os.kill(int(number), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        pass
    return True
