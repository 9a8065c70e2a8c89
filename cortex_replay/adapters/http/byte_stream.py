"""The body of an answer, as it comes."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from typing import Final, Self

import httpx

from cortex_replay.adapters.deadline import Deadline, Watch
from cortex_replay.adapters.http.endpoint import Endpoint
from cortex_replay.adapters.http.failures import failure_at, reason_of
from cortex_replay.errors import LlmError, ResponseParse
from cortex_replay.redact.logs import logger_of

__all__ = ["ByteStream"]

logger = logger_of(__name__)

_DRAIN_MS: Final = 250
_DRAIN_BYTES: Final = 64 * 1024


class ByteStream:
    """The body of an answer as it comes, decoded, within the call's time and its size."""

    def __init__(
        self,
        response: httpx.Response,
        endpoint: Endpoint,
        deadline: Deadline,
        most_bytes: int,
        places: asyncio.Semaphore,
    ) -> None:
        self.content_type: Final = _media_type(response)
        self._response = response
        self._raw = response.aiter_raw()
        self._endpoint = endpoint
        self._deadline = deadline
        self._watch = Watch(deadline.at)
        self._most = most_bytes
        self._size = 0
        self._places: asyncio.Semaphore | None = places
        self._encoding = response.headers.get("content-encoding", "identity").strip().lower()
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Those of the answer, as they came."""
        raw = self._response.headers.raw
        return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw]

    async def read(self) -> bytes:
        """The next bytes; none at the end.

        Raises:
            Timeout: The deadline has passed.
            Transport: The connection broke.
            ResponseParse: The body is too large, or not in its encoding.
        """
        data = await self._next()
        if self._encoding not in ("identity", ""):
            data = await self._decode(data)
        self._size += len(data)
        if self._size > self._most:
            raise ResponseParse(f"the answer is larger than {self._most} bytes")
        return data

    async def _next(self) -> bytes:
        try:
            with self._watch:
                return await anext(self._raw, b"")
        except Exception as error:  # noqa: BLE001 - whatever the client throws, nothing of it may leave
            failure = failure_at(self._endpoint, self._deadline, error)
        raise failure

    async def _decode(self, data: bytes) -> bytes:
        """The data decoded, but never more than one byte over the limit: a bomb goes off in one read."""
        if self._encoding not in ("gzip", "x-gzip", "deflate"):
            raise ResponseParse("the answer is compressed in a way that was not asked for")
        decoded: bytes | None = b""
        while data and not decoded:
            try:
                decoded = self._inflater.decompress(data, self._most - self._size + 1)
            except zlib.error:
                decoded = None
            if decoded is None or self._inflater.unused_data:
                raise ResponseParse("the answer is not in its content encoding")
            if not decoded:
                data = await self._next()  # so far there were only headers in it
        if not data and not self._inflater.eof:
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
        self._watch = Watch(Deadline(_DRAIN_MS).at)
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
            logger.debug("closing a connection: %s", reason_of(error))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _media_type(response: httpx.Response) -> str:
    value: str = response.headers.get("content-type", "")
    return value.partition(";")[0].strip().lower()
