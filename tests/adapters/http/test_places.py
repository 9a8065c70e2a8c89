"""A call takes one of the places of its server, and gives one back, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import httpx
import pytest

from cortex_replay.adapters.deadline import Deadline
from cortex_replay.adapters.http import Endpoint, HttpClient, RelayClient
from cortex_replay.adapters.http.connections import Connections
from cortex_replay.errors import LlmError, ResponseParse, Upstream
from tests.waiting import let_others_run

MOST = 2


class _Bytes(httpx.AsyncByteStream):
    def __init__(self, *pieces: bytes, error: Exception | None = None) -> None:
        self._pieces = pieces
        self._error = error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._error is not None:
            raise self._error


Script = Callable[[], Awaitable[httpx.Response]]


async def whole() -> httpx.Response:
    return httpx.Response(200, stream=_Bytes(b"{", b"}"))


async def refused() -> httpx.Response:
    return httpx.Response(503, headers={"retry-after": "0"}, stream=_Bytes(b"{}"))


async def broken() -> httpx.Response:
    return httpx.Response(200, stream=_Bytes(b"{", error=httpx.ReadError("broken")))


async def silent() -> httpx.Response:
    await asyncio.Event().wait()
    raise AssertionError


async def unreachable() -> httpx.Response:
    raise httpx.ConnectError("nobody")


async def odd() -> httpx.Response:
    raise RuntimeError("of a library")


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the next calls be answered so; the last one again and again."""
    scripts: list[Script] = []

    async def handle(_: object, __: object) -> httpx.Response:
        return await (scripts.pop(0) if len(scripts) > 1 else scripts[0])()

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", handle)

    def say(*given: Script) -> None:
        scripts[:] = given

    return say


def relay() -> RelayClient:
    return RelayClient(Endpoint("http://127.0.0.1:9"), most_at_once=MOST)


async def free(client: Connections) -> int:
    """How many more calls may be under way."""
    return (await client._client()).places._value


async def read(client: RelayClient, timeout_ms: int = 60_000) -> bytes:
    reply = await client.relay("POST", "/x", [], b"", Deadline(timeout_ms))
    try:
        return await reply.body.read_all()
    finally:
        await reply.body.aclose()


async def leave(client: RelayClient) -> None:
    reply = await client.relay("POST", "/x", [], b"", Deadline(60_000))
    await reply.body.read()
    await reply.body.aclose()


async def close_twice(client: RelayClient) -> None:
    reply = await client.relay("POST", "/x", [], b"", Deadline(60_000))
    await reply.body.aclose()
    await reply.body.aclose()


async def give_up(client: RelayClient) -> None:
    call = asyncio.ensure_future(read(client))
    await let_others_run()
    call.cancel()
    await call


async def too_late(client: RelayClient) -> None:
    await read(client, timeout_ms=0)


ENDS: dict[str, tuple[Script, Callable[[RelayClient], Awaitable[object]]]] = {
    "well": (whole, read),
    "left in the middle": (whole, leave),
    "closed twice": (whole, close_twice),
    "refused": (refused, read),
    "broken off": (broken, read),
    "not reached": (unreachable, read),
    "an error of a library": (odd, read),
    "out of time": (silent, too_late),
    "cancelled": (silent, give_up),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_place_is_given_back_once(name: str, say: Callable[..., None]) -> None:
    """More often than there are places, so that a server is still asked behind that."""
    script, call = ENDS[name]

    async def main() -> bytes:
        client = relay()
        for _ in range(2 * MOST):
            say(script)
            with suppress(LlmError, asyncio.CancelledError):
                await call(client)
            assert await free(client) == MOST
        say(whole)
        async with asyncio.timeout(20):
            return await read(client)

    assert asyncio.run(main()) == b"{}"


def test_who_gives_up_waiting_for_a_place_takes_none(say: Callable[..., None]) -> None:
    async def main() -> tuple[int, int]:
        client = relay()
        say(silent)
        calls = [asyncio.ensure_future(read(client)) for _ in range(MOST + 2)]
        await let_others_run()
        busy = await free(client)
        for call in reversed(calls):
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        return busy, await free(client)

    assert asyncio.run(main()) == (0, MOST)


@pytest.mark.parametrize("script", [refused, broken, unreachable])
def test_every_try_gives_its_place_back(script: Script, say: Callable[..., None]) -> None:
    async def main() -> None:
        client = HttpClient(Endpoint("http://127.0.0.1:9"), max_retries=1)
        before = await free(client)
        say(script, script, whole)
        with pytest.raises((Upstream, LlmError)):
            await client.fetch("POST", "/x", b"", Deadline(60_000))
        assert await free(client) == before
        say(whole)
        async with await client.open("/x", b"", Deadline(60_000)) as stream:
            assert await free(client) == before - 1
            assert await stream.read_all() == b"{}"
        assert await free(client) == before

    asyncio.run(main())


@pytest.mark.parametrize(("most", "is_read"), [(1, False), (2, True), (3, True)])
def test_an_answer_may_be_just_as_large_as_allowed(
    most: int, is_read: bool, say: Callable[..., None]
) -> None:
    async def main() -> bytes:
        say(whole)
        return await read(RelayClient(Endpoint("http://127.0.0.1:9"), max_body_bytes=most))

    if is_read:
        assert asyncio.run(main()) == b"{}"
    else:
        with pytest.raises(ResponseParse, match="larger than 1 bytes"):
            asyncio.run(main())
