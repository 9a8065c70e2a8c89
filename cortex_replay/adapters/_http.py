"""The one module that speaks HTTP.

What goes wrong in it leaves as one of our errors, and with nothing attached: an httpx error carries
the request, and the request the key. For that reason errors are raised after the ``except`` block
that noticed them, where Python has no context to chain. Redirects are never followed, because httpx
would take ``x-api-key`` along to the other host.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import http.cookiejar
import ipaddress
import random
import ssl
import time
import weakref
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, Self, TypeVar
from weakref import WeakKeyDictionary

import httpx

from cortex_replay.adapters.budget import Budget, Watch
from cortex_replay.adapters.secret import ApiKey
from cortex_replay.errors import InvalidRequest, LlmError, ResponseParse, Timeout, Transport, Upstream
from cortex_replay.redact.known_values import KNOWN
from cortex_replay.redact.logs import guard_http_logs, logger_of
from cortex_replay.redact.process import learn_secret, process_redactor
from cortex_replay.redact.redactor import Redactor
from cortex_replay.wire.failures import upstream_error

__all__ = ["Answer", "ByteStream", "Endpoint", "Http", "Relayed"]

logger = logger_of(__name__)

_T = TypeVar("_T")

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 8.0
_MAX_ERROR_BYTES: Final = 64 * 1024
_DRAIN_MS: Final = 250
_DRAIN_BYTES: Final = 64 * 1024
_MAX_REASON: Final = 200
_MAX_MESSAGE: Final = 2000
_MOST_AT_ONCE: Final = 100


class _NoCookies(http.cookiejar.CookieJar):
    """Takes none and gives none: a call must not depend on the calls before it."""

    def extract_cookies(self, *_: object) -> None:
        pass

    def add_cookie_header(self, *_: object) -> None:
        pass


class Endpoint:
    """A server's base URL, checked.

    The host is taken from the very value that the client connects to, so that no trick of spelling
    makes a foreign host look local.

    Raises:
        InvalidRequest: It is no plain http or https URL. User names are refused: they are how
            ``http://localhost:x@evil.example`` looks local, and a password in a URL ends up in logs.
    """

    def __init__(self, base_url: str) -> None:
        problem = None
        try:
            url = httpx.URL(base_url)
            _ = url.host, self._joined(url, "/")
        except (httpx.InvalidURL, TypeError, UnicodeError, ValueError):
            problem = "is not a URL"
        else:
            if url.scheme not in ("http", "https") or not url.host:
                problem = "is not an http or https URL with a host"
            elif url.userinfo or "@" in url.netloc.decode("ascii"):
                problem = "must not hold a user name or password"
            elif url.port is not None and url.port > 65535:
                problem = "has no such port"
            elif url.query or url.fragment:
                problem = "must not hold a query or a fragment"
        if problem is not None:
            raise InvalidRequest("base_url", problem)
        self.url: Final = url
        self.host: Final = url.host

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return (mapped or address).is_loopback

    def at(self, path: str) -> httpx.URL:
        """The URL of a path below this one.

        Raises:
            InvalidRequest: The path leads elsewhere, once the client has resolved its dots.
        """
        base = self.url.raw_path.rstrip(b"/")
        try:
            url = self._joined(self.url, path)
        except (httpx.InvalidURL, UnicodeError):
            raise InvalidRequest("path", "cannot be part of a URL") from None
        is_below = url.raw_path.startswith(base + b"/") and url.raw_path[len(base) :][:2] != b"//"
        # Only the client's own resolving makes a path shorter; escaping makes it longer.
        if not is_below or url.netloc != self.url.netloc or len(url.raw_path) < len(base) + len(path):
            raise InvalidRequest("path", "leads away from the provider's base URL")
        return url

    @staticmethod
    def _joined(url: httpx.URL, path: str) -> httpx.URL:
        return url.copy_with(raw_path=url.raw_path.rstrip(b"/") + path.encode("ascii"))

    def __str__(self) -> str:
        return str(self.url)


class Answer(NamedTuple):
    """A whole answer with a good status."""

    content_type: str
    body: bytes


class Relayed(NamedTuple):
    """Whatever a server answered, its body still to come."""

    status: int
    headers: list[tuple[str, str]]
    body: ByteStream


class _Failed(Exception):
    """An attempt that failed and may be made again."""

    def __init__(self, error: LlmError, retry_after_s: float | None = None) -> None:
        super().__init__()
        self.error = error
        self.retry_after_s = retry_after_s


class ByteStream:
    """The body of an answer as it comes, decoded, within the call's budget and its size."""

    def __init__(
        self, response: httpx.Response, budget: Budget, most_bytes: int, places: asyncio.Semaphore
    ) -> None:
        self.content_type: Final = _content_type(response)
        self._response = response
        self._raw = response.aiter_raw()
        self._budget = budget
        self._watch = Watch(budget.deadline)
        self._most = most_bytes
        self._size = 0
        self._places: asyncio.Semaphore | None = places
        self._encoding = response.headers.get("content-encoding", "identity").strip().lower()
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)

    async def read(self) -> bytes:
        """The next bytes; none at the end.

        Raises:
            Timeout: The budget is spent.
            Transport: The connection broke.
            ResponseParse: The body is too large, or not in its encoding.
        """
        data = await self._next()
        if self._encoding not in ("identity", ""):
            data = await self._inflated(data)
        self._size += len(data)
        if self._size > self._most:
            raise ResponseParse(f"the answer is larger than {self._most} bytes")
        return data

    async def _next(self) -> bytes:
        try:
            with self._watch:
                return await anext(self._raw, b"")
        except TimeoutError:
            failure: LlmError = Timeout(self._budget.timeout_ms)
        except Exception as error:  # noqa: BLE001 - whatever the client throws, nothing of it may leave
            failure = Transport(_reason(error))
        raise failure

    async def _inflated(self, data: bytes) -> bytes:
        """Decoded, but never more than one byte over the limit: a bomb goes off in one read."""
        if self._encoding not in ("gzip", "x-gzip", "deflate"):
            raise ResponseParse("the answer is compressed in a way that was not asked for")
        decoded: bytes | None = b""
        while data and not decoded:
            try:
                decoded = self._inflate.decompress(data, self._most - self._size + 1)
            except zlib.error:
                decoded = None
            if decoded is None or self._inflate.unused_data:
                raise ResponseParse("the answer is not in its content encoding")
            if not decoded:
                data = await self._next()  # so far there were only headers in it
        if not data and not self._inflate.eof:
            raise ResponseParse("the answer ends in the middle of its content encoding")
        return decoded or b""

    def limit(self, most_bytes: int) -> None:
        """Take no more than this."""
        self._most = min(self._most, most_bytes)

    async def read_all(self) -> bytes:
        pieces = []
        while data := await self.read():
            pieces.append(data)
        return b"".join(pieces)

    async def drain(self) -> None:
        """Read to the end, if it is near, so that the connection can be used again."""
        self._most = self._size + _DRAIN_BYTES
        self._watch.close()
        self._watch = Watch(Budget(_DRAIN_MS).deadline)
        with contextlib.suppress(LlmError):
            await self.read_all()

    async def aclose(self) -> None:
        self._watch.close()
        if self._places is not None:
            self._places.release()
            self._places = None
        try:
            await self._response.aclose()
        except Exception as error:  # noqa: BLE001 - it is over anyway
            logger.debug("closing a connection: %s", _reason(error))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Held(NamedTuple):
    client: httpx.AsyncClient
    keeper: AsyncGenerator[None]
    places: asyncio.Semaphore
    """How many calls may be under way: httpx's own queue takes quadratic time."""


async def _keeper(client: httpx.AsyncClient) -> AsyncGenerator[None]:
    """Closes the client with its loop, for those who do not close their adapter.

    ``asyncio.run`` closes the generators that are still open when it ends; a loop offers no other way
    to be told.
    """
    try:
        yield
    finally:
        await client.aclose()


_Clients = WeakKeyDictionary[asyncio.AbstractEventLoop, _Held]


def _drop(clients: _Clients) -> None:
    """Close the clients of an adapter that is gone, each in its own loop."""
    for loop, held in clients.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(loop.create_task, _closed(held))


async def _closed(held: _Held) -> None:
    await held.keeper.aclose()


class Http:
    """Sends requests to one server, again where that may help.

    httpx ties its connections to an event loop, so there is a client per loop: one adapter serves
    scripts that call ``asyncio.run`` twice, and test suites with a loop per test.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        headers: Mapping[str, str] | None = None,
        key: ApiKey | None = None,
        key_header: str = "authorization",
        key_prefix: str = "",
        max_retries: int = 2,
        max_body_bytes: int = 64 * 2**20,
    ) -> None:
        self._endpoint = endpoint
        # What a model says is small and a compressed bomb is not, so nothing compressed is asked for.
        for name, value in (headers or {}).items():
            if not value.isascii() or not value.isprintable():
                raise InvalidRequest(name, "holds characters that no header can carry")
        self._headers = {
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "cortex-replay",
            **(headers or {}),
        }
        self._key = key
        self._of_key: Redactor | None = None
        if key is not None:
            learn_secret(key.reveal())
        guard_http_logs()
        self._key_header = key_header
        self._key_prefix = key_prefix
        self._max_retries = max_retries
        self._max_body_bytes = max_body_bytes
        self._clients: _Clients = WeakKeyDictionary()
        weakref.finalize(self, _drop, self._clients).atexit = False

    async def fetch(self, method: str, path: str, body: bytes | None, budget: Budget) -> Answer:
        """A whole answer.

        Raises:
            Upstream: The status is not a good one.
            Transport, Timeout, ResponseParse: See :meth:`ByteStream.read`.
        """

        async def once() -> Answer:
            async with await self._open(method, path, body, budget) as stream:
                try:
                    return Answer(stream.content_type, await stream.read_all())
                except Transport as error:
                    failure = _Failed(error)
                raise failure

        return await self._with_retries(once, budget)

    async def open(self, path: str, body: bytes, budget: Budget) -> ByteStream:
        """An answer whose body is still to come; for what goes wrong up to here, see :meth:`fetch`."""
        return await self._with_retries(lambda: self._open("POST", path, body, budget), budget)

    async def relay(
        self, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes, budget: Budget
    ) -> Relayed:
        """What the server answers to somebody else's request, good or bad. Whoever asked tries again.

        Args:
            method: Of the request.
            target: Its path, with the query.
            headers: All of them but the key, which takes the place of the same header.
            body: May be empty.
            budget: For all of it.

        Raises:
            InvalidRequest: The target leads away from the base URL.
            Transport, Timeout: See :meth:`ByteStream.read`.
        """
        held = await self._held()
        written = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        failure: LlmError
        try:
            request = held.client.build_request(
                method,
                self._endpoint.at(target),
                content=body,
                headers=[*written, (b"accept-encoding", b"identity")],
                extensions={"cortex_replay": True},  # not to be intercepted on its own way out
            )
            response = await self._sent(held, request, budget)
        except TimeoutError:
            failure = Timeout(budget.timeout_ms)
        except InvalidRequest as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - see ByteStream.read
            failure = Transport(_reason(error))
        else:
            stream = ByteStream(response, budget, self._max_body_bytes, held.places)
            # Whoever asked is meant to hold no key, and a server may repeat it.
            given = [
                (name.decode("latin-1"), self._without_key(value.decode("latin-1")))
                for name, value in response.headers.raw
            ]
            return Relayed(response.status_code, given, stream)
        raise failure

    def _without_key(self, text: str) -> str:
        if self._key is None:
            return text
        if self._of_key is None:
            self._of_key = Redactor([self._key.reveal()], only=[KNOWN])
        return self._of_key.text(text)[0]

    def scrubbed(self, error: LlmError) -> LlmError:
        """The error without a secret, should the server have repeated one, and not too long."""
        if not isinstance(error, Upstream | Transport | ResponseParse):
            return error
        redactor = process_redactor()

        def clean(text: str) -> str:
            return redactor.text(text)[0]

        if isinstance(error, Upstream):
            kind = None if error.error_type is None else clean(error.error_type)[:_MAX_REASON]
            return Upstream(error.status, clean(error.message)[:_MAX_MESSAGE], kind)
        return type(error)(clean(str(error.args[0]))[:_MAX_REASON])

    def __str__(self) -> str:
        return f"base_url={str(self._endpoint)!r}"

    async def aclose(self) -> None:
        held = self._clients.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held.keeper.aclose()

    async def _with_retries(self, once: Callable[[], Awaitable[_T]], budget: Budget) -> _T:
        attempt = 0
        while True:
            try:
                return await once()
            except _Failed as failed:
                error, pause = failed.error, failed.retry_after_s
            if pause is None:
                pause = min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S)
                pause *= random.uniform(0.75, 1.0)  # noqa: S311 - so that many clients do not knock as one
            attempt += 1
            if attempt > self._max_retries or pause >= budget.remaining_s:
                raise error
            logger.debug("attempt %d at %s failed, again in %.1f s", attempt, self._endpoint.host, pause)
            await asyncio.sleep(pause)

    async def _open(self, method: str, path: str, body: bytes | None, budget: Budget) -> ByteStream:
        held = await self._held()
        url = self._endpoint.at(path)
        request = held.client.build_request(method, url, content=body, headers=self._headers)
        response = None
        try:
            response = await self._sent(held, request, budget)
        except TimeoutError:
            failure: Exception = Timeout(budget.timeout_ms)
        except Exception as error:  # noqa: BLE001 - see ByteStream.read
            failure = _Failed(Transport(_reason(error)))
        if response is None:
            raise failure
        stream = ByteStream(response, budget, self._max_body_bytes, held.places)
        if response.is_success:
            return stream
        raise await self._refusal(response, stream)

    async def _sent(self, held: _Held, request: httpx.Request, budget: Budget) -> httpx.Response:
        """The head of an answer. Its body gives back the place that the call has taken."""
        response = None
        async with asyncio.timeout_at(budget.deadline):
            await held.places.acquire()
            try:
                response = await held.client.send(request, auth=self._authorized, stream=True)
            finally:
                if response is None:
                    held.places.release()
        return response

    async def _refusal(self, response: httpx.Response, stream: ByteStream) -> Exception:
        status = response.status_code
        async with stream:
            stream.limit(_MAX_ERROR_BYTES)
            try:
                body = await stream.read_all()
            except LlmError:  # the status alone says enough
                body = b""
        if response.has_redirect_location or 300 <= status < 400:
            return Upstream(status, "a redirect, which is never followed")
        error = upstream_error(status, stream.content_type, body)
        if response.headers.get("x-should-retry") == "false" or not (status == 429 or status >= 500):
            return error
        return _Failed(error, _retry_after_s(response.headers))

    def _authorized(self, request: httpx.Request) -> httpx.Request:
        """Put the key into the request as late as can be, so that no variable holds it in clear."""
        if self._key is not None:
            request.headers[self._key_header] = self._key_prefix + self._key.reveal()
        return request

    async def _held(self) -> _Held:
        loop = asyncio.get_running_loop()
        held = self._clients.get(loop)
        if held is None:
            for finished in [other for other in self._clients if other.is_closed()]:
                del self._clients[finished]  # its connections went with it
            has_tls = self._endpoint.url.scheme == "https"
            client = httpx.AsyncClient(
                timeout=None,  # noqa: S113 - the budget is above it, and counts everything
                follow_redirects=False,
                cookies=_NoCookies(),
                # A proxy has no business between this machine and itself.
                trust_env=not self._endpoint.is_loopback,
                # Without TLS there is nothing to verify, and loading the roots takes 20 ms.
                verify=True if has_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            )
            places = asyncio.Semaphore(_MOST_AT_ONCE)
            held = self._clients[loop] = _Held(client, _keeper(client), places)
            await anext(held.keeper)
        return held


def _content_type(response: httpx.Response) -> str:
    value: str = response.headers.get("content-type", "")
    return value.partition(";")[0].strip().lower()


def _retry_after_s(headers: httpx.Headers) -> float | None:
    """How long the server wants us to wait: in milliseconds, in seconds, or until a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        return seconds if 0 <= seconds < float("inf") else None
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, date.timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _reason(error: Exception) -> str:
    """What happened, in the words of the library that noticed."""
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
