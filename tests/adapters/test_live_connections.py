"""What a live adapter does with its connections: when it opens, keeps and closes them."""

from __future__ import annotations

import asyncio

import pytest

from cortex_replay import (
    LlmRequest,
    ResponseParse,
    Timeout,
    Upstream,
)
from cortex_replay.adapters.live import LiveAdapter
from tests.adapters.calling import Call, calls, complete, dialects, failed_with, read_stream, run
from tests.adapters.dialects import DIALECTS, Dialect, ask
from tests.adapters.fake_provider import (
    Exchange,
    serving,
    stream,
    whole,
)
from tests.sampling import sample
from tests.waiting import until


@dialects
def test_leaving_a_stream_closes_the_connection(dialect: Dialect) -> None:
    """By ``break``, and by cancelling the task that reads."""
    first, delta, *_ = dialect.events("tick ")

    async def forever(exchange: Exchange) -> None:
        await exchange.start_stream(dialect.media_type)
        await exchange.piece(first + delta)
        exchange.provider.sent += 1
        await exchange.until_closed()
        raise ConnectionError

    async def main() -> None:
        async with serving(forever) as provider, dialect.adapter(provider.url) as adapter:
            chunks = adapter.stream(ask())
            async for _ in chunks:
                break
            await chunks.aclose()  # type: ignore[attr-defined]
            await until(lambda: provider.closed_early == 1)

            task = asyncio.create_task(read_stream(adapter, ask()))
            await until(lambda: provider.sent == 2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: provider.closed_early == 2)

    asyncio.run(main())


@dialects
def test_the_first_chunk_comes_while_the_server_still_talks(dialect: Dialect) -> None:
    """Weakness 14: the reference read the whole stream before it gave the first chunk."""
    first, delta, *rest = dialect.events("one ", "two")
    has_first = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await exchange.start_stream(dialect.media_type)
        await exchange.piece(first + delta)
        await has_first.wait()  # deadlocks against a client that waits for the rest
        for event in rest:
            await exchange.piece(event)
        await exchange.end_stream()

    async def call(adapter: LiveAdapter, request: LlmRequest) -> str:
        text = ""
        async for chunk in adapter.stream(request):
            text += chunk.delta
            has_first.set()
        return text

    outcome, _ = run(dialect, call, slow)

    assert outcome == "one two"


@dialects
def test_a_slow_reader_holds_the_sender_back(dialect: Dialect) -> None:
    """The sender gets no further than the buffers of the two sockets; nothing piles up here."""
    first, delta, *_ = dialect.events("x" * 10_000)
    total = 5_000

    async def much(exchange: Exchange) -> None:
        await exchange.start_stream(dialect.media_type)
        await exchange.piece(first)
        for _ in range(total):
            await exchange.piece(delta)
            exchange.provider.sent += 1

    async def main() -> None:
        async with serving(much) as provider, dialect.adapter(provider.url) as adapter:
            chunks = adapter.stream(ask(timeout_ms=20_000))
            await anext(aiter(chunks))
            before = -1
            while provider.sent != before:  # until it is stuck
                before = provider.sent
                await asyncio.sleep(0.2)
            assert provider.sent < total * 0.8
            await chunks.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())


@dialects
def test_a_finished_stream_leaves_its_connection_for_the_next_call(dialect: Dialect) -> None:
    connections: set[int] = set()

    async def script(exchange: Exchange) -> None:
        connections.add(id(exchange._writer))
        await stream(dialect.events("Hi."), dialect.media_type)(exchange)

    async def call(adapter: LiveAdapter, request: LlmRequest) -> None:
        for _ in range(3):
            await read_stream(adapter, request)

    outcome, provider = run(dialect, call, script)

    assert outcome is None
    assert len(provider.received) == 3
    assert len(connections) == 1


@dialects
def test_a_server_that_never_hangs_up_does_not_delay_the_end(dialect: Dialect) -> None:
    """The last event is the end, whether or not the connection ends with it."""

    async def script(exchange: Exchange) -> None:
        await exchange.start_stream(dialect.media_type)
        await exchange.piece(b"".join(dialect.events("Hi.")))
        await exchange.until_closed()

    outcome, _ = run(dialect, read_stream, script, request=ask(timeout_ms=20_000))

    assert outcome[-1].response.text == "Hi."


@dialects
def test_a_cancellation_at_the_moment_of_the_deadline_stays_one(dialect: Dialect) -> None:
    """The caller's own timeout, a moment earlier, later, or at once: one of the two, and no third thing."""
    first, delta, *_ = dialect.events("tick ")

    async def forever(exchange: Exchange) -> None:
        await exchange.start_stream(dialect.media_type)
        await exchange.piece(first + delta)
        await exchange.until_closed()

    async def main() -> None:
        async with serving(forever) as provider, dialect.adapter(provider.url, max_retries=0) as adapter:
            for outer_ms in (90, 99, 100, 101, 110):
                with pytest.raises((TimeoutError, Timeout)):
                    async with asyncio.timeout(outer_ms / 1000):
                        await read_stream(adapter, ask(timeout_ms=100))
                task = asyncio.current_task()
                assert task is not None
                assert task.cancelling() == 0

    asyncio.run(main())


@pytest.mark.parametrize("dialect", sample(DIALECTS, 1), ids=str)
@calls
def test_an_encoding_that_was_not_asked_for_keeps_no_connection(dialect: Dialect, call: Call) -> None:
    """More often than there are connections."""
    kind = "application/json" if call is complete else dialect.media_type
    scripts = [whole(b"x", content_type=kind, content_encoding="br")]

    async def often(adapter: LiveAdapter, request: LlmRequest) -> None:
        for _ in range(105):
            with pytest.raises(ResponseParse):
                await call(adapter, request)

    outcome, provider = run(dialect, often, *scripts, request=ask(timeout_ms=30_000))
    assert outcome is None
    assert len(provider.received) == 105


@dialects
@calls
def test_an_error_stays_an_error_whatever_it_is_wrapped_in(dialect: Dialect, call: Call) -> None:
    outcome, _ = run(dialect, call, whole(dialect.error(400, "no"), 400, content_encoding="br"))
    error = failed_with(outcome, Upstream)
    assert isinstance(error, Upstream)
    assert error.status == 400
