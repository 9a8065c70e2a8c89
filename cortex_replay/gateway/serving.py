"""A server of ours, whatever it serves: a socket, a loop, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

import uvicorn

from cortex_replay.errors import StoreIo
from cortex_replay.gateway.protocol import Protocol

__all__ = ["Server", "Serving", "bind_socket", "server_for"]

_GRACE_SECONDS: Final = 5
"""How long calls that are under way may take to end when a server is stopped."""
_LOOK_EVERY_SECONDS: Final = 0.005


class Server(uvicorn.Server):
    """uvicorn's server, without its signals: it would take them too late, and end the process when it has
    ended, while there is still something to commit. It ends as soon as it is told to and is idle: uvicorn
    looks ten times a second, and whoever waits for a gateway to end would wait for that."""

    _stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
    on_shutdown: Callable[[], None] = staticmethod(lambda: None)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        """Finish what is under way, and end; in any thread, and in a handler of signals."""
        self.should_exit = True
        if self._stop is not None:
            loop, event = self._stop
            with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended already
                loop.call_soon_threadsafe(event.set)

    async def main_loop(self) -> None:
        event = asyncio.Event()
        self._stop = asyncio.get_running_loop(), event
        if not await self.on_tick(0):  # stopped between the start and here
            await event.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        self.on_shutdown()
        last = time.monotonic() + _GRACE_SECONDS
        state = self.server_state
        while (state.connections or state.tasks) and not self.force_exit and time.monotonic() < last:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
        for task in state.tasks:
            task.cancel()


class Serving(ABC):
    """What serves until somebody stops it, in this thread or in one of its own."""

    _server: Server

    @abstractmethod
    async def serve(self) -> None:
        """Serve until somebody stops it."""

    def stop(self) -> None:
        """Finish what is under way, and end."""
        self._server.stop()

    def serve_here(self) -> None:
        """Serve in this thread, until somebody stops it."""
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(self.serve())

    @contextlib.contextmanager
    def stop_on_signals(self) -> Iterator[None]:
        """Let Ctrl-C and its like end it well, from before anybody knows that it is there; twice, at once."""
        numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
        before = {number: signal.signal(number, self._stop_on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop_on_signal(self, number: int, _: object) -> None:
        self._server.force_exit = self._server.should_exit and number == signal.SIGINT
        self.stop()

    @contextlib.contextmanager
    def running(self) -> Iterator[Self]:
        """Serve in a thread of its own, for as long as this lasts."""
        thread = threading.Thread(target=self.serve_here, name="cortex-replay server", daemon=True)
        thread.start()
        try:
            yield self  # the socket listens already: whoever connects now waits a moment
        finally:
            self.stop()
            thread.join()


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        StoreIo: It cannot.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, because asyncio turns Nagle's algorithm off for TCP that calls itself so.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind((host, port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise StoreIo(f"cannot listen on {host} port {port}: {error.strerror}") from None
    return listening


def server_for(app: Callable[..., Any], max_body: int = 2**20) -> Server:
    """A server for an application, behind the limits of :class:`Protocol`."""
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",  # the protocol above loads it
        ws_max_size=max_body,
        ws_ping_interval=None,  # a client may stand in a debugger
        ws_per_message_deflate=False,
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
    )
    return Server(config)


def _loop_factory() -> Any:
    try:
        import uvloop  # noqa: PLC0415 - not there on Windows
    except ImportError:
        return None
    return uvloop.new_event_loop
