"""The transports of httpx and of httpx2, which most SDKs stand on.

Their methods are replaced for as long as something is intercepted, on the class: so a client that was made
before is intercepted too, in whatever thread it is used. The two libraries are alike but share nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, Final

from cortex_replay.engine.bypass import bypassing, is_bypassed
from cortex_replay.engine.http.call import Call, HttpReply
from cortex_replay.engine.http.question import Question
from cortex_replay.faults import Fault
from cortex_replay.faults.replies import answers_alone, faulty_reply, refusal
from cortex_replay.interception.interception import Interception, Target
from cortex_replay.interception.pump import AsyncAnswer, SyncAnswer

__all__ = ["install"]

_LIBRARIES: Final = ("httpx", "httpx2")
_METHODS: Final = (("HTTPTransport", "handle_request"), ("AsyncHTTPTransport", "handle_async_request"))
_LOCK: Final = threading.RLock()
_ACTIVE: Final[list[Interception]] = []
_REPLACED: Final[list[tuple[type, str, Any]]] = []


@contextmanager
def install(interception: Interception) -> Iterator[None]:
    """Intercept for as long as this lasts; of several, the innermost has the say."""
    with _LOCK:
        if not _ACTIVE:
            _replace()
        _ACTIVE.append(interception)
    try:
        yield
    finally:
        with _LOCK:
            _ACTIVE.remove(interception)
            if not _ACTIVE:
                _restore()


@cache
def _names() -> list[str]:
    return [name for name in _LIBRARIES if importlib.util.find_spec(name)]


def _libraries() -> list[ModuleType]:
    """Those that whoever imports them now gets: a test may have had them imported anew."""
    return list(map(importlib.import_module, _names()))


def _replace() -> None:
    for library in _libraries():
        for kind, method in _METHODS:
            transport = getattr(library, kind)
            original = transport.__dict__[method]
            replacement = _sync(library, original) if kind == "HTTPTransport" else _async(library, original)
            _REPLACED.append((transport, method, original))
            setattr(transport, method, replacement)


def _restore() -> None:
    while _REPLACED:
        transport, method, original = _REPLACED.pop()
        setattr(transport, method, original)


def _target_of(request: Any) -> tuple[Interception, Target] | None:
    """Who answers a request, and as whom; ``None`` for all other traffic."""
    if is_bypassed() or request.extensions.get("cortex_replay") or not _ACTIVE:
        return None
    active = _ACTIVE[-1]
    target = active.target(request)
    return None if target is None else (active, target)


def _sync(library: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    def handle_request(transport: Any, request: Any) -> Any:
        answered_by = _target_of(request)
        if answered_by is None:
            return original(transport, request)
        interception, target = answered_by
        call = interception.call(target, request, request.read())
        if call is None:
            with bypassing():
                return original(transport, request)
        fault, question, reply = _begin(library, interception, call)
        if reply is None:
            answer = SyncAnswer(interception.engine, interception.scope, call, question)
            reply = answer.reply
            if reply.live is not None:
                return _response(library, reply, _live_stream(library, answer))
        return _respond(library, interception, fault, call, reply)

    return handle_request


def _async(library: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    async def handle_async_request(transport: Any, request: Any) -> Any:
        answered_by = _target_of(request)
        if answered_by is None:
            return await original(transport, request)
        interception, target = answered_by
        call = interception.call(target, request, await request.aread())
        if call is None:
            with bypassing():
                return await original(transport, request)
        fault, question, reply = _begin(library, interception, call)
        if reply is None:
            answer = AsyncAnswer(interception.engine, interception.scope, call, question)
            reply = await answer.head()
            if reply.live is not None:
                return _response(library, reply, _live_stream(library, answer))
        return _respond(library, interception, fault, call, reply)

    return handle_async_request


def _begin(
    library: ModuleType, interception: Interception, call: Call
) -> tuple[Fault | None, Question | None, HttpReply | None]:
    """The fault that the answer to a call is to have, what it asks, and its answer where nothing has to be
    waited for. What would take a client's patience fails at once."""
    interception.calls += 1
    fault = interception.faults.next() if interception.faults.are_any else None
    if fault is None or not answers_alone(fault):
        return fault, *interception.engine.begin(interception.scope, call)
    interception.faults.note(fault)
    if fault.kind == "timeout":
        raise library.ReadTimeout("timed out (on demand)")
    if fault.kind == "reset":
        raise library.ReadError("connection reset (on demand)")
    return None, None, refusal(fault, call.route.protocol)


def _respond(
    library: ModuleType, interception: Interception, fault: Fault | None, call: Call, reply: HttpReply
) -> Any:
    faulty = faulty_reply(fault, reply, call.route.protocol) if fault is not None else None
    if fault is not None and faulty is not None:
        interception.faults.note(fault)
        reply = faulty
    return _response(library, reply, _replay_stream(library, reply))


def _response(library: ModuleType, reply: HttpReply, stream: Any) -> Any:
    headers = list(reply.headers)
    if reply.live is None and not reply.events and reply.status != 204:
        headers.append(("content-length", str(len(reply.body))))
    return library.Response(
        reply.status,
        headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        stream=stream,
        extensions={"http_version": b"HTTP/1.1", "reason_phrase": b"cortex-replay"},
    )


def _replay_stream(library: ModuleType, reply: HttpReply) -> Any:
    """The bytes of a recording, in its events where it was a stream."""
    pieces = [data for _, data in reply.events] or [reply.body]
    errors = {
        "cut": library.RemoteProtocolError("peer closed connection (on demand)"),
        "hang": library.ReadTimeout("timed out (on demand)"),
    }
    error = errors.get(reply.ending)

    class Replay(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            yield from pieces
            if error is not None:
                raise error

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece
            if error is not None:
                raise error

    return Replay()


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
