"""A proxy before the gateway: it leads calls to models there, and decides about all others.

In replay a command's proxy variables point here: whatever goes around the gateway is refused and named. With
``--proxy`` it also speaks for the hosts of models, by certificates of an authority that only the command
trusts, so that a client needs no base URL. Some clients ask a proxy for this machine, too, whatever
``NO_PROXY`` says; those are led to the gateway.

Whoever is to get anything through it brings its token, as the password of the proxy's URL: other users of
this machine can reach the port as well.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import re
import secrets
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import quote

from cortex_replay.engine.http.model_hosts import ModelHosts
from cortex_replay.gateway.tunnels import carry, connect, open_tunnel, outer_proxy
from cortex_replay.gateway.visits import Visit
from cortex_replay.hosts import LOCAL, host_of, normal_host
from cortex_replay.redact.logs import logger_of

if TYPE_CHECKING:
    from cortex_replay.gateway.authority import Authority

__all__ = ["Proxy", "ProxyRules"]

logger = logger_of(__name__)

_HEAD: Final = re.compile(rb"([A-Z]+) (?:([a-z]+)://)?(?:[^/@\s]*@)?([^/?\s]+)(\S*) HTTP/1\.[01]\r\n")
_HEAD_S: Final = 10.0
"""How long a client may take to send its head, or to begin TLS."""
_CONNECT_S: Final = 30.0
_LAST_S: Final = 1.0
"""How long a client that is refused may go on sending, so as to see why."""
_PIECE: Final = 64 * 1024
_MOST_HEAD_BYTES: Final = 128 * 1024
_MOST_CONNECTIONS: Final = 512
_PAUSE_S: Final = 0.05
_NOWHERE: Final = "somewhere"
_MOST_LISTED: Final = 1000
_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_NO_WAY: Final = "cortex-replay: no call leaves while recordings are replayed.\r\n"
_UNKNOWN: Final = "cortex-replay: this proxy is for one command, which has its token.\r\n"
_USER: Final = "cortex-replay"
_OF_SCOPE: Final = "s-"


@dataclass
class ProxyRules:
    """What a proxy does with hosts, and what came of it.

    Args:
        models: The hosts that it speaks for; ``None`` for none.
        is_open: Whether all other hosts are reached through it.
        allowed: Those that are reached where others are not; a host, or a host and its port.
        refuse: Is told each host that is not.
    """

    models: ModelHosts | None = None
    is_open: bool = False
    allowed: Collection[str] = ()
    refuse: Callable[[str], None] = lambda _: None
    tunnelled: Counter[str] = field(default_factory=Counter)
    """How often other hosts were reached."""
    distrusted: Counter[str] = field(default_factory=Counter)
    """How often a client did not take our word for a model's host."""

    def lets_through(self, host: str, port: int) -> bool:
        """Whether a host that is no model's is reached through the proxy."""
        return self.is_open or any(_is_named(host, port, name) for name in self.allowed)


def _is_named(host: str, port: int, name: str) -> bool:
    wanted, colon, number = name.rpartition(":")
    if colon and number.isdecimal() and (":" not in wanted or wanted.endswith("]")):
        return host == normal_host(wanted) and port == int(number)
    return host == normal_host(name)


class _Request(NamedTuple):
    """The first request on a connection."""

    method: str
    host: str
    """In its one form."""
    port: int
    target: str
    """The host as it is told to people, with the port if the client named one."""
    path: str
    lines: list[bytes]
    """Its headers."""
    rest: bytes
    """What came behind the head."""

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"

    def header(self, name: bytes) -> bytes:
        """The value of a header; empty where there is none."""
        pairs = (line.partition(b":") for line in self.lines)
        return next((value.strip() for key, _, value in pairs if key.strip().lower() == name), b"")

    def for_server(self, target: str, more: str = "") -> bytes:
        """The head in another form, for one request only: the next one may be for somebody else."""
        kept = [one for one in self.lines if not one.lower().startswith((b"connection:", b"proxy-"))]
        first = f"{self.method} {target} HTTP/1.1".encode("latin-1")
        more_lines = more.encode("latin-1")
        return b"\r\n".join([first, *kept, b"connection: close"]) + b"\r\n" + more_lines + b"\r\n" + self.rest


class Server(Protocol):
    """What a proxy needs of the server that answers for models."""

    def protocol(self, visit: Visit, first: bytes = b"") -> asyncio.Protocol:
        """Who speaks HTTP on a connection, of which the first bytes came already."""
        raise NotImplementedError


class Proxy:
    """Takes connections on a socket of its own, in the loop of its gateway.

    Args:
        rules: What it does with hosts.
        gateway: Where the gateway listens.
        server: Who answers for models.
        listening: The socket, bound.
        authority: Who signs for the hosts of models, where there are any.
    """

    def __init__(
        self,
        rules: ProxyRules,
        gateway: tuple[str, int],
        server: Server,
        listening: socket.socket,
        authority: Authority | None = None,
    ) -> None:
        self._rules = rules
        self._gateway = gateway
        host, port = gateway
        self._own_names = {(name, port) for name in (LOCAL if host in LOCAL else [normal_host(host)])}
        self._server = server
        self._socket = listening
        self._socket.setblocking(False)
        self._address: tuple[str, int] = listening.getsockname()[:2]
        self._authority = authority
        self._token = secrets.token_hex(32)
        self._tasks: set[asyncio.Task[None]] = set()

    def url(self, scope: str = "") -> str:
        """What a client's proxy variable holds; calls through it are counted in the scope."""
        host, port = self._address
        user = f"{_OF_SCOPE}{quote(scope, safe='')}" if scope else _USER
        return f"http://{user}:{self._token}@{host}:{port}"

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Take connections for as long as this lasts; then those that are under way are closed."""
        with self._socket:
            self._begin(self._serve())
            try:
                yield
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                logger.debug("a connection was not taken: %s", type(error).__name__)
                await asyncio.sleep(_PAUSE_S)
                continue
            if len(self._tasks) > _MOST_CONNECTIONS:
                connection.close()
            else:
                self._begin(self._take(connection))

    async def _take(self, connection: socket.socket) -> None:
        """Do what the first request on a connection asks for. Whoever else takes it over closes it."""
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        is_handed_over = False
        try:
            async with asyncio.timeout(_HEAD_S):
                head = await _read_head(connection)
            is_handed_over = await self._answer(connection, _read(head))
        except (OSError, TimeoutError) as error:
            logger.debug("a connection to the proxy broke off: %s", type(error).__name__)
        finally:
            if not is_handed_over:
                connection.close()

    async def _answer(self, connection: socket.socket, request: _Request | None) -> bool:
        """Whether somebody else has the connection now."""
        if request is None:
            self._rules.refuse(_NOWHERE)
            await _refuse(connection, "403 Forbidden", _NO_WAY)
            return False
        host, port = request.host, request.port
        if (host, port) in self._own_names:
            await self._lead(connection, request, await connect(*self._gateway), request.path)
            return False
        models = self._rules.models
        model = None if models is None else models.server_at(host, port)
        if model is None and not self._rules.lets_through(host, port):
            self._rules.refuse(request.target)
            await _refuse(connection, "403 Forbidden", _NO_WAY)
            return False
        scope = self._scope(request)
        if scope is None:
            challenge = f'proxy-authenticate: Basic realm="{_USER}"\r\n'
            await _refuse(connection, "407 Proxy Authentication Required", _UNKNOWN, challenge)
            return False
        if model is None:
            await self._tunnel(connection, request)
            return False
        server = model if request.is_tunnel else model._replace(scheme="http")
        await self._visit(connection, request, Visit(server, scope))
        return True

    def _scope(self, request: _Request) -> str | None:
        """The scope that a client brings with the token; ``None`` if it does not bring that."""
        kind, _, coded = request.header(b"proxy-authorization").partition(b" ")
        try:
            user, _, password = base64.b64decode(coded.strip(), validate=True).rpartition(b":")
        except binascii.Error:
            return None
        if kind.lower() != b"basic" or not hmac.compare_digest(password, self._token.encode()):
            return None
        name = user.decode("utf-8", "replace")
        return name.removeprefix(_OF_SCOPE) if name.startswith(_OF_SCOPE) else ""

    async def _visit(self, connection: socket.socket, request: _Request, visit: Visit) -> None:
        """Let the gateway answer, as the host that the client wants to reach."""
        loop = asyncio.get_running_loop()
        is_plain = visit.server.scheme == "http"
        if request.is_tunnel:
            await loop.sock_sendall(connection, _ESTABLISHED)
            first = request.rest if is_plain else b""
            context = None if is_plain or self._authority is None else self._authority.context(request.host)
        else:
            first, context = request.for_server(request.path), None
        protocol = self._server.protocol(visit, first)
        limit = None if context is None else _HEAD_S
        try:
            await loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=context, ssl_handshake_timeout=limit
            )
        except (OSError, TimeoutError):
            connection.close()
            if context is not None:
                self._count(self._rules.distrusted, request.target)
            raise

    async def _tunnel(self, connection: socket.socket, request: _Request) -> None:
        """Reach a host that is none of our business."""
        host, port, target = request.host, request.port, request.path
        try:
            async with asyncio.timeout(_CONNECT_S):
                if request.is_tunnel:
                    remote, more = await open_tunnel(host, port), ""
                elif (outer := outer_proxy("http", host, port)) is None:
                    remote, more = await connect(host, port), ""
                else:
                    remote, more = await connect(outer.host, outer.port), outer.authorization
                    target = f"http://{request.target}{request.path}"
        except (OSError, TimeoutError) as error:
            reason = f"cortex-replay: {request.target} cannot be reached: {type(error).__name__}\r\n"
            await _refuse(connection, "502 Bad Gateway", reason)
            return
        self._count(self._rules.tunnelled, request.target)
        await self._lead(connection, request, remote, target, more)

    @staticmethod
    async def _lead(
        connection: socket.socket, request: _Request, remote: socket.socket, target: str, more: str = ""
    ) -> None:
        with remote:
            loop = asyncio.get_running_loop()
            if request.is_tunnel:
                await loop.sock_sendall(connection, _ESTABLISHED)
                first = request.rest
            else:
                first = request.for_server(target, more)
            await loop.sock_sendall(remote, first)
            await carry(connection, remote)

    @staticmethod
    def _count(counter: Counter[str], target: str) -> None:
        if target in counter or len(counter) < _MOST_LISTED:
            counter[target] += 1


async def _read_head(connection: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    data = b""
    while b"\r\n\r\n" not in data and len(data) < _MOST_HEAD_BYTES:
        piece = await loop.sock_recv(connection, _PIECE)
        if not piece:
            break
        data += piece
    return data


def _read(data: bytes) -> _Request | None:
    """The request that bytes are; ``None`` for what is none, or none for a proxy."""
    first = _HEAD.match(data)
    head, found, rest = data.partition(b"\r\n\r\n")
    if first is None or not found:
        return None
    method, scheme, authority, path = (part.decode("latin-1") for part in first.groups(b""))
    is_tunnel = method == "CONNECT"
    if bool(scheme) == is_tunnel or (is_tunnel and path) or scheme not in ("", "http"):
        return None
    name, colon, port = authority[:300].rpartition(":")
    if not colon or not port.isdecimal():
        host, number, target = host_of(authority[:300]), 443 if is_tunnel else 80, host_of(authority[:300])
    else:
        host, number = normal_host(name), int(port)
        target = f"{host[:200]}:{number}"
    path = path if path.startswith("/") else f"/{path}"
    return _Request(method, host, number, target[:206], path, head.split(b"\r\n")[1:], rest)


async def _refuse(connection: socket.socket, status: str, reason: str, more: str = "") -> None:
    """Say why, and wait until the client has read it: what it still sends would make the system drop that."""
    loop = asyncio.get_running_loop()
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\nconnection: close\r\n{more}"
    await loop.sock_sendall(connection, f"{head}content-length: {len(reason)}\r\n\r\n{reason}".encode())
    connection.shutdown(socket.SHUT_WR)
    async with asyncio.timeout(_LAST_S):
        while await loop.sock_recv(connection, _PIECE):
            pass
