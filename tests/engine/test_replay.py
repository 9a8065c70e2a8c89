from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cortex_replay import (
    LlmAdapter,
    LlmRequest,
    LlmResponse,
    NoFixture,
    ReplayAdapter,
    Store,
    StreamChunk,
    Timeout,
)
from cortex_replay.store.fixture import Answer, TimedChunk
from cortex_replay.types import ToolCall
from tests.builder import StoreBuilder, ask, fixture_of
from tests.waiting import let_others_run

DIE = ask("Roll a die.")


@pytest.fixture
def adapter(builder: StoreBuilder) -> ReplayAdapter:
    """One fixture with three answers, the second of them streamed; two with one."""
    streamed = tuple(TimedChunk(i, StreamChunk(text)) for i, text in enumerate(["t", "w", "o"]))
    streamed += (TimedChunk(9, StreamChunk("", "stop")),)
    builder.add_fixture(fixture_of(DIE, Answer("one"), Answer("two", stream=streamed), Answer("three")))
    builder.write()
    return ReplayAdapter(builder.root)


async def texts(chunks: AsyncIterator[StreamChunk]) -> list[str]:
    return [chunk.delta async for chunk in chunks]


def test_a_fixture_with_one_answer_gives_it_every_time(adapter: ReplayAdapter) -> None:
    """However often it is asked."""
    assert [adapter.sync.complete(ask("What is one?")).text for _ in range(5)] == ["One."] * 5
    assert adapter.adapter_id == "replay"
    assert adapter.fixture_count == 3


def test_the_nth_call_gets_the_nth_answer_and_then_no_more(adapter: ReplayAdapter) -> None:
    """Whole or streamed, counted together."""

    async def run() -> None:
        assert (await adapter.complete(DIE)).text == "one"
        assert await texts(adapter.stream(DIE)) == ["t", "w", "o", ""]
        assert await texts(adapter.stream(DIE)) == ["three"]
        for _ in range(2):
            with pytest.raises(NoFixture) as caught:
                await adapter.complete(DIE)
            assert caught.value.exhausted
        with pytest.raises(NoFixture):
            await texts(adapter.stream(DIE))

    asyncio.run(run())


def test_each_adapter_counts_for_itself(adapter: ReplayAdapter) -> None:
    """An adapter is a scope; a shared store is not."""
    other = ReplayAdapter(adapter.store)

    assert adapter.sync.complete(DIE).text == "one"
    assert other.sync.complete(DIE).text == "one"
    assert adapter.sync.complete(DIE).text == "two"


def test_a_stream_that_is_left_early_does_not_count(adapter: ReplayAdapter) -> None:
    """Its answer comes again; one whose last chunk was taken does count."""

    async def run() -> None:
        await adapter.complete(DIE)
        early = adapter.stream(DIE)
        assert (await anext(early)).delta == "t"
        await early.aclose()  # type: ignore[attr-defined]
        assert await texts(adapter.stream(DIE)) == ["t", "w", "o", ""]

        last = adapter.stream(DIE)
        assert (await anext(last)).delta == "three"
        await last.aclose()  # type: ignore[attr-defined]
        with pytest.raises(NoFixture):
            await adapter.complete(DIE)

    asyncio.run(run())


def test_equal_calls_wait_for_one_another(adapter: ReplayAdapter) -> None:
    """A call that comes while a stream of the same key runs gets the answer after it."""

    async def run() -> None:
        await adapter.complete(DIE)
        stream = adapter.stream(DIE)
        await anext(stream)
        third = asyncio.create_task(adapter.complete(DIE))
        await let_others_run()
        assert not third.done()
        assert (await adapter.complete(ask("What is one?"))).text == "One."  # other keys do not wait
        assert await texts(stream) == ["w", "o", ""]
        assert (await third).text == "three"

    asyncio.run(run())


def test_a_cancelled_waiter_does_not_block_the_next(adapter: ReplayAdapter) -> None:
    """Nor does one that is cancelled in the moment its turn comes."""

    async def run() -> None:
        stream = adapter.stream(DIE)
        await anext(stream)
        waiting = [asyncio.create_task(adapter.complete(DIE)) for _ in range(3)]
        await let_others_run()
        waiting[0].cancel()
        await stream.aclose()  # type: ignore[attr-defined]
        waiting[1].cancel()  # its turn has come, but it did not run yet
        await asyncio.gather(*waiting, return_exceptions=True)
        assert waiting[2].result().text == "two"

    asyncio.run(run())


def test_concurrent_calls_get_each_answer_once(tmp_path: Path) -> None:
    """Many tasks in many threads, each with a loop of its own: no answer is lost or given twice."""
    builder = StoreBuilder(tmp_path)
    builder.add_fixture(fixture_of(DIE, *(Answer(str(i)) for i in range(400))))
    builder.write()
    adapter = ReplayAdapter(tmp_path)
    given: list[str] = []

    async def one(i: int) -> str:
        if i % 2:
            return (await adapter.complete(DIE)).text
        chunks = []
        async for chunk in adapter.stream(DIE):
            await asyncio.sleep(0)
            chunks.append(chunk.delta)
        return "".join(chunks)

    async def run() -> None:
        given.extend(await asyncio.gather(*(one(i) for i in range(100))))

    threads = [threading.Thread(target=lambda: asyncio.run(run())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert sorted(given, key=int) == [str(i) for i in range(400)]


def test_the_last_chunk_carries_the_whole_answer(adapter: ReplayAdapter) -> None:
    """And only the last; its finish reason is there even if the recording gave none."""
    *first, last = adapter.sync.stream(ask("What is one?"))
    assert first == []
    assert (last.delta, last.finish_reason) == ("One.", "stop")
    assert adapter.sync.complete(ask("What is one?")) == last.response


def test_a_tool_call_without_a_stream_is_one_chunk(tmp_path: Path) -> None:
    """With the finish reason that was recorded."""
    builder = StoreBuilder(tmp_path)
    call = ToolCall(id="a", name="f", arguments={"x": 1})
    builder.add_fixture(fixture_of(DIE, Answer("", tool_calls=(call,), finish_reason="tool_calls")))
    builder.write()
    (chunk,) = ReplayAdapter(tmp_path).sync.stream(DIE)

    assert chunk.finish_reason == "tool_calls"
    assert chunk.tool_calls[0].arguments == '{"x":1}'
    assert chunk.response is not None
    assert (call,) == chunk.response.tool_calls


def test_a_path_and_a_store_are_both_accepted(builder: StoreBuilder) -> None:
    """Verified in full by default, on read when asked."""
    for adapter in (
        ReplayAdapter(str(builder.root)),
        ReplayAdapter(builder.root, verify="on-read"),
        ReplayAdapter(Store.open(builder.root)),
    ):
        assert adapter.sync.complete(ask("What is two?")).text == "Two."


class Echo(LlmAdapter):
    """The least an adapter must be."""

    adapter_id = "echo"

    def __init__(self) -> None:
        self.is_closed = False

    async def complete(self, request: LlmRequest) -> LlmResponse:
        await asyncio.sleep(0)
        return LlmResponse(request.messages[-1].content, None, request.model, None, "")

    async def aclose(self) -> None:
        self.is_closed = True


def test_an_adapter_that_cannot_stream_gives_one_chunk() -> None:
    """The default of the base class."""
    (chunk,) = Echo().sync.stream(ask("hi"))

    assert (chunk.delta, chunk.finish_reason) == ("hi", "stop")


def test_the_seam_is_abstract() -> None:
    """An adapter must at least complete."""
    with pytest.raises(TypeError):
        LlmAdapter()  # type: ignore[abstract]


def test_leaving_an_adapter_closes_it() -> None:
    """Async or not."""
    adapter = Echo()
    with adapter.sync as sync:
        assert sync.complete(ask("hi")).text == "hi"
    assert adapter.is_closed

    async def run() -> None:
        async with Echo() as other:
            assert (await other.complete(ask("hi"))).text == "hi"
        assert other.is_closed

    asyncio.run(run())


def test_sync_works_inside_a_running_loop(adapter: ReplayAdapter) -> None:
    """As in a notebook, whole and streamed."""

    async def notebook_cell() -> tuple[str, list[str]]:
        return adapter.sync.complete(ask("What is one?")).text, [c.delta for c in adapter.sync.stream(DIE)]

    assert asyncio.run(notebook_cell()) == ("One.", ["one"])


def test_sync_raises_what_the_adapter_raises_and_works_again(adapter: ReplayAdapter) -> None:
    """An error does not break the loop behind it; nor does closing."""
    with pytest.raises(NoFixture):
        adapter.sync.complete(ask("never asked"))
    adapter.sync.close()
    assert adapter.sync.complete(ask("What is one?")).text == "One."


def test_sync_from_many_threads(adapter: ReplayAdapter) -> None:
    """One face, many callers."""
    answers: list[str] = []

    def work() -> None:
        answers.extend(adapter.sync.complete(ask("What is two?")).text for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert answers == ["Two."] * 200


def test_a_sync_stream_that_is_left_early_is_closed(adapter: ReplayAdapter) -> None:
    """The next equal call does not wait for it."""
    adapter.sync.complete(DIE)
    stream = adapter.sync.stream(DIE)
    assert next(stream).delta == "t"
    stream.close()  # type: ignore[attr-defined]

    assert adapter.sync.complete(DIE).text == "two"


def test_what_a_caller_does_to_an_answer_stays_with_the_caller(tmp_path: Path) -> None:
    """The next call gets what the index vouches for."""
    builder = StoreBuilder(tmp_path)
    call = ToolCall(name="f", arguments={"x": [1]})
    builder.add_fixture(fixture_of(DIE, Answer("{}", parsed_json={"ok": [True]}, tool_calls=(call,))))
    builder.write()
    adapter = ReplayAdapter(tmp_path)
    spoiled = adapter.sync.complete(DIE)
    spoiled.parsed_json["ok"].append(False)  # type: ignore[index, call-overload, union-attr]
    spoiled.tool_calls[0].arguments["x"] = 2  # type: ignore[index, call-overload]
    fresh = adapter.sync.complete(DIE)

    assert fresh.parsed_json == {"ok": [True]}
    assert fresh.tool_calls == (call,)


def test_waiting_for_oneself_ends_with_the_request_s_timeout(adapter: ReplayAdapter) -> None:
    """A stream that is not finished holds its turn; asking the same again inside it cannot go on forever."""
    hasty = dataclasses.replace(DIE, timeout_ms=50)

    async def run() -> None:
        stream = adapter.stream(DIE)
        await adapter.complete(ask("What is one?"))
        await anext(stream)
        second = adapter.stream(hasty)
        with pytest.raises(Timeout):
            await anext(second)
        await stream.aclose()  # type: ignore[attr-defined]
        assert (await adapter.complete(hasty)).text == "two"

    asyncio.run(run())


def test_a_waiter_that_is_lost_with_its_loop_does_not_keep_the_turn(adapter: ReplayAdapter) -> None:
    """The next one gets it."""

    async def run() -> None:
        await adapter.complete(DIE)
        stream = adapter.stream(DIE)
        await anext(stream)

        def doomed() -> None:
            loop = asyncio.new_event_loop()
            task = loop.create_task(adapter.complete(DIE))
            loop.run_until_complete(let_others_run())
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            loop.close()
            lost.append(task)

        lost: list[object] = []
        thread = threading.Thread(target=doomed)
        thread.start()
        thread.join(10)
        await texts(stream)
        assert (await asyncio.wait_for(adapter.complete(DIE), 5)).text == "three"

    asyncio.run(run())


def run_script(root: Path, script: str) -> subprocess.CompletedProcess[str]:
    code = "import sys\nfrom cortex_replay import *\nadapter = ReplayAdapter(sys.argv[1])\n" + script
    return subprocess.run(
        [sys.executable, "-c", code, str(root)], capture_output=True, text=True, timeout=300, check=False
    )


ONE = 'LlmRequest("test-model", messages="What is one?", max_tokens=16)'


def test_a_script_that_ends_inside_a_stream_ends(builder: StoreBuilder) -> None:
    """The thread behind it is gone by then."""
    done = run_script(builder.root, f"stream = adapter.sync.stream({ONE})\nprint(next(stream).delta)\n")

    assert (done.returncode, done.stdout, done.stderr) == (0, "One.\n", "")


def test_a_forked_child_has_a_loop_of_its_own(builder: StoreBuilder) -> None:
    """The parent's thread does not exist there."""
    script = (
        f"import os\nadapter.sync.complete({ONE})\n"
        f"if os.fork() == 0:\n    print(adapter.sync.complete({ONE}).text, flush=True)\n    os._exit(0)\n"
        "os.wait()\n"
    )
    done = run_script(builder.root, script)

    assert (done.returncode, done.stdout) == (0, "One.\n"), done.stderr


def test_many_adapters_share_one_thread(builder: StoreBuilder) -> None:
    """A suite that makes an adapter per test does not run out of descriptors."""
    before = threading.active_count()
    store = Store.open(builder.root)
    for _ in range(500):
        assert ReplayAdapter(store).sync.complete(ask("What is one?")).text == "One."

    assert threading.active_count() <= before + 1
