"""The gateway as a server: an engine behind doors, on a socket of its own."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cortex_replay.errors import ConfigError, InvalidRequest, StoreIo
from cortex_replay.faults import Faults
from cortex_replay.faults.tools import strike_by
from cortex_replay.gateway.access import RPC_PATH, Access, hosts_of
from cortex_replay.gateway.app import HELD, App
from cortex_replay.gateway.closing import CLOSE, close_transport
from cortex_replay.gateway.control import CONTROL
from cortex_replay.gateway.pace import Pace
from cortex_replay.gateway.proxy import Proxy, ProxyRules
from cortex_replay.gateway.visits import VISIT, Visit
from cortex_replay.modes import Mode
from cortex_replay.run import Run

if TYPE_CHECKING:
    from cortex_replay.gateway.authority import Authority
    from cortex_replay.gateway.mcp.door import Door
    from cortex_replay.gateway.rpc import Rpc

__all__ = ["Gateway"]

_HEAD_S: Final = 10.0
"""How long a client may take to send its headers."""
_MOST_HEAD_BYTES: Final = 128 * 1024
_MOST_CONNECTIONS: Final = 512
_MOST_UNREAD_BYTES: Final = 32 * 2**20
_MOST_AHEAD: Final = 64
"""How many calls a connection may bring before the first of them is answered."""
_GRACE_SECONDS: Final = 5
"""How long calls that are under way may take to end when the gateway is stopped."""
_LOOK_EVERY_SECONDS: Final = 0.005
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_INSTANT: Final = Pace()
_UPGRADE: Final = re.compile(rb"\A((?:(?:(?!\r\n\r\n).)*?\r\n)?)(upgrade[ \t]*:)", re.IGNORECASE | re.DOTALL)
"""In the head of a request. The parser would stop behind it and lose the body."""
_TO_WEBSOCKET: Final = re.compile(rb"(?:\A|\r\n)upgrade[ \t]*:[ \t]*websocket[ \t]*\r\n", re.IGNORECASE)
"""The one upgrade that is made; there is no body with it."""


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol with a limit on connections, and on the time and size of a request's head."""

    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _is_in_head = True
    _is_behind_chunk_head = False
    _has_come_body = False
    _has_large_body = False
    _is_get = False
    _has_line = False
    """Whether a line of the head was read."""
    _unread_bytes = 0
    visit: Visit | None = None
    """Whom the client addressed, if it came through the proxy."""
    first = b""
    """What the proxy has read already."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._line = bytearray()
        """What has come of a line of the head that has not ended."""
        self._await_head()
        if len(self.connections) > _MOST_CONNECTIONS:
            self._make_room()
        if self.first:
            self.data_received(self.first)

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way."""
        cycle = getattr(self, "cycle", None)  # uvicorn's type does not say that there is none at first
        return cycle is None or cycle.response_complete

    def _make_room(self) -> None:
        """Close a connection that asks for nothing, else one whose body does not come, that wants no answer
        or does not read it, else this one."""
        others = [(c, c.cycle) for c in self.connections if isinstance(c, _Protocol) and c is not self]
        idle = (c for c, _ in others if c.is_idle)
        slow = (c for c, cycle in others if cycle.more_body)
        held = (c for c, cycle in others if HELD in cycle.scope or c.flow.write_paused)
        leaving = next(chain(idle, slow, held), self).transport
        if leaving.get_write_buffer_size():  # it would stay until somebody reads that
            leaving.abort()
        else:
            leaving.close()

    def _await_head(self) -> None:
        self._is_in_head = True
        self._head_bytes = 0
        self._deadline = self.loop.call_later(_HEAD_S, self.transport.close)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_large_body = False
        self._unread_bytes = 0
        self.scope[CLOSE] = self.close_connection  # type: ignore[typeddict-unknown-key]
        if self.visit is not None:
            self.scope[VISIT] = self.visit  # type: ignore[typeddict-unknown-key]
        if self._deadline is None:
            self._await_head()

    def close_connection(self, *, is_hard: bool) -> None:
        close_transport(self.transport, is_hard=is_hard)

    def _should_upgrade_to_ws(self) -> bool:
        """Whether a WebSocket may take the connection over: nothing else is under way on it."""
        return self._is_get and self.is_idle

    def handle_websocket_upgrade(self) -> None:
        # Most gateways see none, and it takes longer to load than to answer a call.
        from cortex_replay.gateway.websocket_protocol import WebSocketProtocol  # noqa: PLC0415

        self.ws_protocol_class = WebSocketProtocol
        super().handle_websocket_upgrade()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if not self.url.startswith(b"/"):  # that is how one asks a proxy
            raise httptools.HttpParserError("the target is not a path")
        if len(self.pipeline) >= _MOST_AHEAD:  # each is kept until its turn comes
            raise httptools.HttpParserError("too many calls in advance")
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        super().on_headers_complete()
        if self._has_large_body:  # it may wait outside until somebody wants to read it
            self.flow.pause_reading()

    def on_chunk_header(self) -> None:
        self._is_behind_chunk_head = True

    def on_body(self, body: bytes) -> None:
        self._is_behind_chunk_head = False
        self._has_come_body = True
        if self.cycle.response_complete:  # whoever was refused may go on for a while, so as to see why
            self._unread_bytes += len(body)
            if self._unread_bytes > _MOST_UNREAD_BYTES:
                self.transport.close()
            return
        super().on_body(body)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:
            super().on_header(name, value)
            lowered = self.headers[-1][0]
            if lowered == b"transfer-encoding" or (lowered == b"content-length" and len(value) > 4):
                self._has_large_body = True
        else:  # behind a body: nobody needs them
            self._head_bytes += len(name) + len(value)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_in_head = True
        self._is_behind_chunk_head = self._has_line = False
        self._head_bytes = 0

    def _take_lines(self, data: bytes) -> bytes:
        """What of a head may be read: whole lines, so that no header is cut in two; and what follows it."""
        if not self._line and b"\r\n\r\n" in data:  # as nearly all come
            return data
        is_end = self._has_line and (self._line[:2] + data[:2]).startswith(b"\r\n")
        whole = is_end or b"\r\n\r\n" in self._line[-3:] + data
        is_request = self._has_line or (self._line or data)[:1].isupper()
        end = len(data) if whole or not is_request else data.rfind(b"\n") + 1
        if not end:
            self._line += data
            return b""
        lines = bytes(self._line) + data[:end]
        self._line = bytearray(data[end:])
        return lines

    def data_received(self, data: bytes) -> None:
        if self._is_in_head:
            self._head_bytes += len(data)
            data = self._take_lines(data)
            if not self._has_line and data:
                self._is_get = data.startswith(b"GET ")
            self._has_line = self._has_line or bool(data)
            has_upgrade = b"pgrade" in data or b"PGRADE" in data
            if has_upgrade and not (self._is_get and _TO_WEBSOCKET.search(data)):
                data = _UPGRADE.sub(rb"\1x-\2", data)
        was_behind_chunk_head = self._is_behind_chunk_head
        self._has_come_body = False
        if data:
            super().data_received(data)
        if was_behind_chunk_head and self._is_behind_chunk_head and not self._has_come_body:
            self._head_bytes += len(data)  # nothing of a chunk: these are headers behind the last one
        if self._head_bytes > _MOST_HEAD_BYTES:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)


class _Server(uvicorn.Server):
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


class Gateway:
    """A server for one run.

    Args:
        run: Who answers.
        host: Where to listen; anything but loopback needs ``allow_remote``.
        port: 0 for a free one.
        pace: How fast recorded streams are replayed.
        token: What clients have to bring where the gateway can make a live call or be reached from
            elsewhere, and whoever wants to control it always; by default a new one for every gateway. With
            one of your own, clients in replay have to bring it, too.
        allow_remote: Whether to listen where other machines can reach it.
        allowed_hosts: Further names by which clients may call it, with their port.
        max_body: The largest body that is read.
        faults: What is to go wrong.
        rpc: Who answers ``/rpc``, if anybody does.
        proxy: What a proxy before it does, if there is one.
    """

    def __init__(
        self,
        run: Run,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        pace: Pace = _INSTANT,
        token: str | None = None,
        allow_remote: bool = False,
        allowed_hosts: Sequence[str] = (),
        max_body: int = 32 * 2**20,
        faults: Faults | None = None,
        rpc: Rpc | None = None,
        proxy: ProxyRules | None = None,
    ) -> None:
        is_local = host in _LOOPBACK
        if not is_local and not allow_remote:
            raise InvalidRequest(
                "host", "other machines could reach it there; --allow-remote says that they may"
            )
        self._is_open_in_replay = not token and is_local
        self.run = run
        self._engine = run.engine()
        self.token = token or secrets.token_hex(32)
        caller = None if rpc is None else rpc.callers.by_token(self.token)
        if caller is not None:
            reason = f"is also that of the caller {caller.name}, who could then do everything; take another"
            raise InvalidRequest("token", reason)
        self._authority = _authority_for(proxy)
        self._socket = _bind(host, port)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        names = [*hosts_of(host, self.port), *allowed_hosts]
        self._access = Access(names, self.token, is_open=self._is_open, has_rpc=rpc is not None)
        self.faults = faults or Faults()
        run.call_rules.add_faults(strike_by(self.faults))
        self._rpc = rpc
        self._app = App(self._engine, self._access, pace, self.faults, rpc, max_body, door=self._door)
        self._server = _Server(_config(self._app, max_body))
        self._server.on_shutdown = self._app.end_streams
        self._proxy = None
        if proxy is not None:
            own = self.host, self.port
            self._proxy = Proxy(proxy, own, self, _bind("127.0.0.1", 0), self._authority)

    def protocol(self, visit: Visit, first: bytes = b"") -> asyncio.Protocol:
        """Who speaks HTTP on a connection that came through the proxy."""
        protocol = _Protocol(self._server.config, self._server.server_state, {}, asyncio.get_running_loop())
        protocol.visit, protocol.first = visit, first
        return protocol

    @property
    def certificate(self) -> bytes | None:
        """The certificate, as PEM, of the authority that clients behind the proxy have to trust."""
        return None if self._authority is None else self._authority.certificate

    def proxy_url(self, scope: str = "") -> str | None:
        """What a client's proxy variable holds, token and all; ``None`` where there is no proxy."""
        return None if self._proxy is None else self._proxy.url(scope)

    def url(self, upstream: str = "", scope: str = "") -> str:
        """The base URL for clients of an upstream, with the scope in it, and the token where it is needed.

        ``-`` is the gateway itself, for ``/-/faults`` and ``/-/ledger``.
        """
        needs_token = not self._is_open(scope) or upstream == CONTROL.strip("/")
        parts = [f"t-{self.token}"] if needs_token else []
        parts += [f"s-{quote(scope, safe='')}"] if scope else []
        parts += [upstream] if upstream else []
        return "/".join([self._origin, *parts])

    @property
    def rpc_url(self) -> str | None:
        """Where callers come in, each with its own token; ``None`` if there are none."""
        return None if self._rpc is None else self._origin + RPC_PATH

    @property
    def _origin(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{shown}:{self.port}"

    def _is_open(self, scope: str) -> bool:
        """Whether clients of providers need no token: all they can get is a recording."""
        return self._is_open_in_replay and self.run.scope(scope).mode is Mode.REPLAY

    def _door(self) -> Door:
        # Most gateways see no MCP client.
        from cortex_replay.gateway.mcp.door import Door  # noqa: PLC0415

        return Door(self.run.desk())

    def set_faults(self, scope: str, faults: Faults | None) -> None:
        """Let a scope have faults of its own, or those of all again."""
        self._app.set_faults(scope, faults)

    async def serve(self) -> None:
        """Serve until somebody stops it."""
        try:
            async with contextlib.AsyncExitStack() as stack:
                stack.callback(self._socket.close)  # the server does not, if it is stopped as it starts
                if self._proxy is not None:
                    await stack.enter_async_context(self._proxy.serving())
                await self._server.serve(sockets=[self._socket])
        finally:
            await self._app.aclose()
            await self._engine.aclose()
            if self._rpc is not None:
                await self._rpc.aclose()

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
    def running(self) -> Iterator[Gateway]:
        """Serve in a thread of its own, for as long as this lasts."""
        thread = threading.Thread(target=self.serve_here, name="cortex-replay gateway", daemon=True)
        thread.start()
        try:
            yield self  # the socket listens already: whoever connects now waits a moment
        finally:
            self.stop()
            thread.join()

    def stop(self) -> None:
        """Finish what is under way, and end."""
        self._app.is_closing = True
        self._server.stop()


def _authority_for(rules: ProxyRules | None) -> Authority | None:
    """Who signs for the hosts of models, where a proxy speaks for any.

    Raises:
        ConfigError: There is nothing to sign with.
    """
    if rules is None or rules.models is None:
        return None
    try:
        from cortex_replay.gateway.authority import Authority  # noqa: PLC0415 - not installed for everybody
    except ModuleNotFoundError as error:
        if error.name != "cryptography":
            raise
        reason = "needs the package cryptography: pip install 'cortex-replay[proxy]'"
        raise ConfigError("proxy", reason) from None
    return Authority(rules.models.patterns)


def _bind(host: str, port: int) -> socket.socket:
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


def _config(app: App, max_body: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_Protocol,
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


def _loop_factory() -> Any:
    try:
        import uvloop  # noqa: PLC0415 - not there on Windows
    except ImportError:
        return None
    return uvloop.new_event_loop
