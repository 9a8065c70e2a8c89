"""The transports of httpx and of httpx2, which most SDKs stand on. The two libraries are alike but share
nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, Final

from cortex_replay.engine.bypass import bypassing
from cortex_replay.engine.http.call import HttpReply
from cortex_replay.interception.pump import AsyncAnswer, SyncAnswer
from cortex_replay.interception.request import Request
from cortex_replay.interception.transports.active import Found, find
from cortex_replay.interception.transports.answers import AsyncReply, SyncReply, headers_of
from cortex_replay.interception.transports.seam import Replacement, Transport

__all__ = ["TRANSPORTS"]


def _replacements(library: Any) -> Iterable[Replacement]:
    yield Replacement(library.HTTPTransport, "handle_request", partial(_sync, library))
    yield Replacement(library.AsyncHTTPTransport, "handle_async_request", partial(_async, library))


TRANSPORTS: Final = [Transport("httpx", _replacements), Transport("httpx2", _replacements)]


def _sync(library: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    def handle_request(transport: Any, request: Any) -> Any:
        found = _find(request)
        if found is None:
            return original(transport, request)
        call = found.call(request.read())
        if call is None:
            with bypassing():
                return original(transport, request)
        return _response(library, *SyncReply.to(found.interception, call))

    return handle_request


def _async(library: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    async def handle_async_request(transport: Any, request: Any) -> Any:
        found = _find(request)
        if found is None:
            return await original(transport, request)
        call = found.call(await request.aread())
        if call is None:
            with bypassing():
                return await original(transport, request)
        return _response(library, *await AsyncReply.to(found.interception, call))

    return handle_async_request


def _find(request: Any) -> Found | None:
    if request.extensions.get("cortex_replay"):  # our own, on its way out
        return None
    url = request.url
    address = f"{url.scheme}://{(url.netloc + url.raw_path).decode('ascii')}"
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
    return find(Request.at(request.method, address, headers))


def _response(library: ModuleType, reply: HttpReply, live: SyncAnswer | AsyncAnswer | None) -> Any:
    error = _error(library, reply)
    if reply.status == 0:
        raise error
    return library.Response(
        reply.status,
        headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers_of(reply)],
        stream=_replay_stream(library, reply, error) if live is None else _live_stream(library, live),
        extensions={"http_version": b"HTTP/1.1", "reason_phrase": b"cortex-replay"},
    )


def _error(library: ModuleType, reply: HttpReply) -> Any:
    """What a client is told of an answer that does not end well. A timeout comes at once."""
    match reply.ending:
        case "hang":
            return library.ReadTimeout("timed out (on demand)")
        case "reset":
            return library.ReadError("connection reset (on demand)")
        case "cut":
            return library.RemoteProtocolError("peer closed connection (on demand)")
    return None


def _replay_stream(library: ModuleType, reply: HttpReply, error: BaseException | None) -> Any:
    """The bytes of a recording, in its events where it was a stream."""
    return _replay_class(library)([data for _, data in reply.events] or [reply.body], error)


@lru_cache(maxsize=2)  # one for each of the two: a class for every answer would cost more than the answer
def _replay_class(library: ModuleType) -> Callable[[list[bytes], BaseException | None], Any]:
    class Replay(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, pieces: list[bytes], error: BaseException | None) -> None:
            self._pieces = pieces
            self._error = error

        def __iter__(self) -> Iterator[bytes]:
            yield from self._pieces
            if self._error is not None:
                raise self._error

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in self._pieces:
                yield piece
            if self._error is not None:
                raise self._error

    return Replay


def _live_stream(library: ModuleType, answer: SyncAnswer | AsyncAnswer) -> Any:
    """What an upstream sends, as it comes; closing it ends the call."""

    class Live(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            assert isinstance(answer, SyncAnswer)  # noqa: S101 - of a synchronous client
            return answer.pieces()

        async def __aiter__(self) -> AsyncIterator[bytes]:
            assert isinstance(answer, AsyncAnswer)  # noqa: S101 - of an asynchronous client
            async for piece in answer.pieces():
                yield piece

        def close(self) -> None:
            if isinstance(answer, SyncAnswer):
                answer.close()

        async def aclose(self) -> None:
            if isinstance(answer, AsyncAnswer):
                await answer.close()

    return Live()
