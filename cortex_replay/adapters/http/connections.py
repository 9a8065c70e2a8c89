"""The connections to a server, and the key that goes with every request."""

from __future__ import annotations

import asyncio
import http.cookiejar
import ssl
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.request import getproxies
from weakref import WeakKeyDictionary

import httpx

from cortex_replay.adapters.deadline import Deadline
from cortex_replay.adapters.http.byte_stream import ByteStream
from cortex_replay.adapters.http.endpoint import Endpoint
from cortex_replay.adapters.http.failures import failure_at
from cortex_replay.adapters.http.server_pool import ServerTransport
from cortex_replay.adapters.http.sigv4 import AwsSigner
from cortex_replay.adapters.request_rate import RequestRate
from cortex_replay.adapters.secret import ApiKey
from cortex_replay.redact.logs import guard_http_logs
from cortex_replay.redact.process import learn_secret

__all__ = ["Connections"]

_MOST_AT_ONCE: Final = 100


class _NoCookies(http.cookiejar.CookieJar):
    """Takes none and gives none: a call must not depend on the calls before it."""

    def extract_cookies(self, *_: object) -> None:
        pass

    def add_cookie_header(self, *_: object) -> None:
        pass


class _LoopClient(NamedTuple):
    """The client of one event loop."""

    client: httpx.AsyncClient
    keeper: AsyncGenerator[None]
    places: asyncio.Semaphore
    """How many calls may be under way: httpx's own queue takes quadratic time."""


async def _keep(client: httpx.AsyncClient) -> AsyncGenerator[None]:
    """Close the client with its loop, for those who do not close their adapter.

    ``asyncio.run`` closes the generators that are still open when it ends; a loop offers no other way
    to be told.
    """
    try:
        yield
    finally:
        await client.aclose()


_Clients = WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClient]


def _drop(clients: _Clients) -> None:
    """Close the clients of an adapter that is gone, each in its own loop."""
    for loop, own in clients.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(loop.create_task, _close(own))


async def _close(own: _LoopClient) -> None:
    await own.keeper.aclose()


class Connections:
    """Sends requests to one server.

    httpx ties its connections to an event loop, so there is a client per loop: one adapter serves
    scripts that call ``asyncio.run`` twice, and test suites with a loop per test.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        key: ApiKey | None = None,
        key_header: str = "authorization",
        key_prefix: str = "",
        signer: AwsSigner | None = None,
        max_body_bytes: int = 64 * 2**20,
        rate: RequestRate | None = None,
        most_at_once: int = _MOST_AT_ONCE,
    ) -> None:
        self._endpoint = endpoint
        self._most_at_once = most_at_once
        self._rate = rate
        self._key = key
        self._signer = signer
        for secret in self._secrets:
            learn_secret(secret)
        guard_http_logs()
        self._key_header = key_header
        self._key_prefix = key_prefix
        self._max_body_bytes = max_body_bytes
        self._clients: _Clients = WeakKeyDictionary()
        weakref.finalize(self, _drop, self._clients).atexit = False

    def __str__(self) -> str:
        return f"base_url={str(self._endpoint)!r}"

    @property
    def url(self) -> str:
        """The server's base URL."""
        return str(self._endpoint)

    async def aclose(self) -> None:
        own = self._clients.pop(asyncio.get_running_loop(), None)
        if own is not None:
            await _close(own)

    async def take_turn(self, deadline: Deadline) -> None:
        """Wait until another request may go out, where their number is limited.

        Raises:
            TurnTooLate: That would be after the deadline.
        """
        if self._rate is not None:
            await self._rate.turn(deadline)

    async def _send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | Sequence[tuple[bytes, bytes]],
        body: bytes | None,
        deadline: Deadline,
        extensions: dict[str, Any] | None = None,
    ) -> tuple[httpx.Response, ByteStream]:
        """The head of an answer, and its body, which gives back the place that the call has taken.

        Raises:
            InvalidRequest: The path leads away from the base URL.
            TurnTooLate: A limit of requests leaves it no time.
            Transport, Timeout: See :meth:`ByteStream.read`.
        """
        client, _, places = await self._client()
        url = self._endpoint.at(path)
        await self.take_turn(deadline)
        response = None
        try:
            request = client.build_request(method, url, content=body, headers=headers, extensions=extensions)
            async with asyncio.timeout_at(deadline.at):
                await places.acquire()
                try:
                    response = await client.send(request, auth=self._authorize, stream=True)
                finally:
                    if response is None:
                        places.release()
        except Exception as error:  # noqa: BLE001 - see ByteStream.read
            failure = failure_at(self._endpoint, deadline, error)
        else:
            return response, ByteStream(response, self._endpoint, deadline, self._max_body_bytes, places)
        raise failure

    def _authorize(self, request: httpx.Request) -> httpx.Request:
        """Put the key into the request as late as can be, so that no variable holds it in clear."""
        if self._key is not None:
            request.headers[self._key_header] = self._key_prefix + self._key.reveal()
        if self._signer is not None:
            host, target = request.headers["host"], request.url.raw_path.decode("ascii")
            request.headers.update(self._signer.sign(request.method, host, target, request.content))
        return request

    @property
    def _secrets(self) -> list[str]:
        """What is sent, or signed with, and must not be shown."""
        signs = () if self._signer is None else self._signer.credentials[1:]
        return [secret.reveal() for secret in (self._key, *signs) if secret is not None]

    async def _client(self) -> _LoopClient:
        loop = asyncio.get_running_loop()
        own = self._clients.get(loop)
        if own is None or own.client.is_closed:  # a loop may go on behind the end that _keep takes it for
            for finished in [other for other in self._clients if other.is_closed()]:
                del self._clients[finished]  # its connections went with it
            client = httpx.AsyncClient(
                timeout=None,  # noqa: S113 - the deadline is above it, and counts everything
                follow_redirects=False,
                cookies=_NoCookies(),
                **self._way(),
            )
            own = _LoopClient(client, _keep(client), asyncio.Semaphore(self._most_at_once))
            self._clients[loop] = own
            await anext(own.keeper)
        return own

    def _way(self) -> dict[str, Any]:
        """How the client reaches the server."""
        has_tls = self._endpoint.url.scheme == "https"
        # A proxy has no business between this machine and itself.
        trust_env = not self._endpoint.is_loopback
        # Without TLS there is nothing to verify, and loading the roots takes 20 ms.
        verify = (
            httpx.create_ssl_context(trust_env=trust_env)
            if has_tls
            else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )
        if trust_env and getproxies():
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)  # there are places
            return {"verify": verify, "limits": limits}
        return {"transport": ServerTransport(verify), "trust_env": trust_env}
