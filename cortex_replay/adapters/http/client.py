"""Our own requests, made again where that may help."""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, TypeVar

import httpx

from cortex_replay.adapters.deadline import Deadline
from cortex_replay.adapters.http.byte_stream import ByteStream
from cortex_replay.adapters.http.connections import Connections
from cortex_replay.adapters.http.endpoint import Endpoint
from cortex_replay.adapters.http.sigv4 import AwsSigner
from cortex_replay.adapters.request_rate import RequestRate
from cortex_replay.adapters.secret import ApiKey
from cortex_replay.errors import InvalidRequest, LlmError, Transport, TurnTooLate, Upstream
from cortex_replay.redact.logs import logger_of
from cortex_replay.wire.failures import upstream_error

__all__ = ["HttpClient", "Payload"]

logger = logger_of(__name__)

_T = TypeVar("_T")

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 8.0
_MAX_ERROR_BYTES: Final = 64 * 1024


class Payload(NamedTuple):
    """The whole body of an answer with a good status."""

    content_type: str
    body: bytes
    headers: list[tuple[str, str]]


class _RetryableError(Exception):
    """The server refused, and may not the next time."""

    def __init__(self, error: LlmError, retry_after_s: float | None) -> None:
        super().__init__()
        self.error = error
        self.retry_after_s = retry_after_s


class HttpClient(Connections):
    """Sends requests to one server, again where that may help.

    Raises:
        InvalidRequest: A header's value cannot be sent.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        headers: Mapping[str, str] | None = None,
        key: ApiKey | None = None,
        key_header: str = "authorization",
        key_prefix: str = "",
        signer: AwsSigner | None = None,
        max_retries: int = 2,
        max_body_bytes: int = 64 * 2**20,
        rate: RequestRate | None = None,
    ) -> None:
        super().__init__(
            endpoint,
            key=key,
            key_header=key_header,
            key_prefix=key_prefix,
            signer=signer,
            max_body_bytes=max_body_bytes,
            rate=rate,
        )
        for name, value in (headers or {}).items():
            if not value.isascii() or not value.isprintable():
                raise InvalidRequest(name, "holds characters that no header can carry")
        # What a model says is small and a compressed bomb is not, so nothing compressed is asked for.
        self._headers = {
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "cortex-replay",
            **(headers or {}),
        }
        self._max_retries = max_retries

    async def fetch(self, method: str, path: str, body: bytes | None, deadline: Deadline) -> Payload:
        """A whole answer.

        Raises:
            Upstream: The status is not a good one.
            Transport, Timeout, ResponseParse: See :meth:`ByteStream.read`.
        """

        async def fetch_once() -> Payload:
            async with await self._open(method, path, body, deadline) as stream:
                return Payload(stream.content_type, await stream.read_all(), stream.headers)

        return await self._with_retries(fetch_once, deadline)

    async def open(self, path: str, body: bytes, deadline: Deadline) -> ByteStream:
        """An answer whose body is still to come; for what goes wrong up to here, see :meth:`fetch`."""
        return await self._with_retries(lambda: self._open("POST", path, body, deadline), deadline)

    async def _with_retries(self, once: Callable[[], Awaitable[_T]], deadline: Deadline) -> _T:
        attempt = 0
        error: LlmError | None = None
        while True:
            try:
                return await once()
            except TurnTooLate:
                if error is None:
                    raise
                raise error from None  # it was asked, and this is what came of it
            except Transport as broken:
                error = broken
                pause = None
            except _RetryableError as refusal:
                error, pause = refusal.error, refusal.retry_after_s
            if pause is None:
                pause = min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S)
                pause *= random.uniform(0.75, 1.0)  # noqa: S311 - so that many clients do not knock as one
            attempt += 1
            if attempt > self._max_retries or pause >= deadline.remaining_s:
                raise error
            logger.debug("attempt %d at %s failed, again in %.1f s", attempt, self._endpoint.host, pause)
            await asyncio.sleep(pause)

    async def _open(self, method: str, path: str, body: bytes | None, deadline: Deadline) -> ByteStream:
        response, stream = await self._send(method, path, self._headers, body, deadline)
        if response.is_success:
            return stream
        raise await self._refusal(response, stream)

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
        return _RetryableError(error, _retry_after_s(response.headers))


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
