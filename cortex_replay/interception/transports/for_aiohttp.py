"""aiohttp's client, whose connectors are asked for a connection to each request.

A request of ours gets one that leads nowhere: what is written to it is read, and its answer is fed to the
protocol of aiohttp, which parses it. Sessions, retries, redirects, traces and timeouts are aiohttp's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Any, Final

from cortex_replay.engine.http.call import HttpReply
from cortex_replay.errors import LlmError
from cortex_replay.interception.nowhere import Nowhere
from cortex_replay.interception.request import Request
from cortex_replay.interception.transports.active import Found, find
from cortex_replay.interception.transports.answers import AsyncReply
from cortex_replay.interception.transports.http1 import Encoder, SentRequest, failure_of
from cortex_replay.interception.transports.seam import Replacement, Transport

__all__ = ["TRANSPORTS"]

_GO_ON: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


def _replacements(library: Any) -> Iterable[Replacement]:
    yield Replacement(library.BaseConnector, "connect", partial(_connect, library))


TRANSPORTS: Final = [Transport("aiohttp.connector", _replacements)]


def _connect(library: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    async def connect(connector: Any, request: Any, *arguments: Any, **options: Any) -> Any:
        headers = [(str(name), str(value)) for name, value in request.headers.items()]
        is_tcp = isinstance(connector, library.TCPConnector)
        found = find(Request.at(request.method, str(request.url), headers)) if is_tcp else None
        if found is None or not await _is_ours(found, request):
            return await original(connector, request, *arguments, **options)
        loop = asyncio.get_running_loop()
        protocol = library.ResponseHandler(loop=loop)
        protocol.connection_made(_AnswerTransport(found, protocol, loop))
        return library.Connection(connector, request.connection_key, protocol, loop)

    return connect


async def _is_ours(found: Found, request: Any) -> bool:
    """Whether a request asks a model, where its body has to be looked at to tell. One that cannot be read
    twice is left to the guard."""
    if found.is_sure:
        return True
    payload = request.body
    # Newer ones give their bytes as often as they are asked; of older ones, those that hold bytes.
    body = await payload.as_bytes() if hasattr(payload, "as_bytes") else getattr(payload, "_value", payload)
    return isinstance(body, bytes | bytearray) and found.call(bytes(body)) is not None


class _AnswerTransport(asyncio.Transport, Nowhere):
    """What a protocol of aiohttp writes a request to, and gets its answer from."""

    def __init__(self, found: Found, protocol: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._found = found
        self._protocol = protocol
        self._loop = loop
        self._sent = SentRequest()
        self._work: asyncio.Task[None] | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._is_closing = False

    def write(self, data: Any) -> None:
        if self._sent.is_complete or self._is_closing:
            return
        if self._sent.feed(bytes(data)):
            self._work = self._loop.create_task(self._answer())
        elif not self._sent.is_http:
            self._protocol.set_exception(ValueError("this is not HTTP/1.1"))
        elif not self._sent.body and self._found.request.header("expect"):
            self._protocol.data_received(_GO_ON)

    def writelines(self, pieces: Iterable[Any]) -> None:
        self.write(b"".join(pieces))

    async def _answer(self) -> None:
        try:
            call = self._found.call(self._sent.body)
            assert call is not None  # noqa: S101 - as its head, or its body, has told
            await self._feed(*await AsyncReply.to(self._found.interception, call))
        except LlmError as error:
            await self._wait_for_reader()
            self._lose(ConnectionResetError(f"cortex-replay: {error}"))
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whoever waits for the answer is told
            self._protocol.set_exception(error)

    async def _feed(self, reply: HttpReply, live: Any) -> None:
        if reply.status:
            encoder = Encoder(reply, self._found.request.method)
            await self._receive(encoder.head)
            try:
                async for data in _replay(reply) if live is None else live.pieces():
                    await self._receive(encoder.piece(data))
            finally:
                if live is not None:
                    await live.close()
            if reply.ending == "whole":
                await self._receive(encoder.end)
                return
            await self._wait_for_reader()
        failure = failure_of(reply)
        if isinstance(failure, TimeoutError):
            self._protocol._on_read_timeout()  # noqa: SLF001 - as its own timer does
        else:
            self._lose(failure)

    async def _receive(self, data: bytes) -> None:
        await self._may_read.wait()
        if data:  # else aiohttp takes it for something else
            self._protocol.data_received(data)

    async def _wait_for_reader(self) -> None:
        """An error overtakes what nobody has read yet; from a real connection it would come later."""
        while (payload := self._protocol._payload) is not None and payload._size:  # noqa: SLF001
            await asyncio.sleep(0)

    def _lose(self, error: BaseException | None) -> None:
        self._is_closing = True
        self._protocol.connection_lost(error)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if self._work is not None:
                self._work.cancel()
            self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def is_reading(self) -> bool:
        return self._may_read.is_set()

    def can_write_eof(self) -> bool:
        return False


async def _replay(reply: HttpReply) -> AsyncIterator[bytes]:
    for data in [data for _, data in reply.events] or [reply.body]:
        yield data
