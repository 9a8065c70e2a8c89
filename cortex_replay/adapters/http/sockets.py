"""WebSockets to a server: opened with our key, and without anything that could lead elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from cortex_replay.adapters.deadline import Deadline
from cortex_replay.adapters.http.endpoint import Endpoint
from cortex_replay.adapters.http.failures import failure_at, reason_of
from cortex_replay.errors import Transport
from cortex_replay.redact.logs import logger_of

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["UpgradeRefused", "UpstreamSocket", "open_socket"]

logger = logger_of(__name__)

_CLOSE_S: Final = 1.0
"""How long a server may take to say goodbye."""
_NO_CLOSE_FRAME: Final = 1006


class UpgradeRefused(NamedTuple):
    """What a server answered that opened no WebSocket."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class UpstreamSocket:
    """One open WebSocket."""

    def __init__(self, connection: ClientConnection, endpoint: Endpoint) -> None:
        self._connection = connection
        self._endpoint = endpoint

    @property
    def subprotocol(self) -> str | None:
        return self._connection.subprotocol

    @property
    def close_frame(self) -> tuple[int, str] | None:
        """How the server closed it: code and reason; ``None`` if it is open, or broke."""
        code = self._connection.close_code
        if code is None or code == _NO_CLOSE_FRAME:
            return None
        return code, self._connection.close_reason or ""

    async def send(self, message: str | bytes) -> None:
        """Send one message.

        Raises:
            Transport: The connection is closed.
        """
        try:
            await self._connection.send(message)
        except (ConnectionClosed, OSError) as error:
            failure = self._failure(error)
        else:
            return
        raise failure

    async def receive(self) -> str | bytes | None:
        """The next message; ``None`` once the server has closed the connection, as it should.

        Raises:
            Transport: The connection broke.
        """
        try:
            return await self._connection.recv()
        except (ConnectionClosed, OSError) as error:
            if self.close_frame is not None:
                return None
            failure = self._failure(error)
        raise failure

    def _failure(self, error: Exception) -> Transport:
        return Transport(f"the WebSocket to {self._endpoint.origin} broke ({reason_of(error)})")

    async def aclose(self) -> None:
        try:
            await self._connection.close()
        except (WebSocketException, OSError) as error:
            logger.debug("closing a WebSocket: %s", reason_of(error))


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception:
        """Follow none: a key is for the server that the user named."""
        return exc


async def open_socket(
    endpoint: Endpoint,
    target: str,
    headers: Sequence[tuple[str, str]],
    subprotocols: Sequence[str],
    deadline: Deadline,
    most_bytes: int,
) -> UpstreamSocket | UpgradeRefused:
    """A WebSocket below a base URL, or what the server answered instead.

    Raises:
        InvalidRequest: The target leads away from the base URL.
        Transport, Timeout: The server could not be reached, or not in time.
    """
    url = endpoint.at(target)
    is_secure = url.scheme == "https"
    tls: dict[str, Any] = {"ssl": httpx.create_ssl_context()} if is_secure else {}
    try:
        connection = await _Connect(
            str(url.copy_with(scheme="wss" if is_secure else "ws")),
            additional_headers=list(headers),
            subprotocols=[Subprotocol(name) for name in subprotocols] or None,
            compression=None,
            user_agent_header=None,
            # A proxy has no business between this machine and itself.
            proxy=None if endpoint.is_loopback else True,
            open_timeout=max(0.0, deadline.remaining_s),
            ping_interval=None,
            close_timeout=_CLOSE_S,
            max_size=most_bytes,
            logger=logger,
            **tls,
        )
    except InvalidStatus as error:
        answered = error.response
        return UpgradeRefused(
            answered.status_code, list(answered.headers.raw_items()), bytes(answered.body or b"")
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, nothing of the request may leave with it
        wrapped = error if isinstance(error, TimeoutError) else _as_connecting(error)
        failure = failure_at(endpoint, deadline, wrapped)
    else:
        return UpstreamSocket(connection, endpoint)
    raise failure


def _as_connecting(error: Exception) -> httpx.ConnectError:
    """An error of the handshake in the terms of the HTTP client, which words it for people."""
    wrapped = httpx.ConnectError(reason_of(error))
    wrapped.__cause__ = error
    return wrapped
