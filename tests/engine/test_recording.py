"""What is asked is recorded, once, as it was said, and only if it ended well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from cortex_replay import (
    Answer,
    Fixture,
    InvalidRequest,
    LlmRequest,
    LlmResponse,
    NoFixture,
    RecordingAdapter,
    RecordingRefused,
    ReplayAdapter,
    Store,
    StreamChunk,
    TokenUsage,
    ToolCall,
    ToolCallDelta,
    Upstream,
)
from cortex_replay.engine.ledger import shorten
from cortex_replay.redact.redactor import Redactor
from cortex_replay.testing import Rule, ScriptedAdapter
from tests.builder import ask
from tests.engine.counting import DIE, Counting, read, run, texts
from tests.waiting import until


def test_an_answer_is_recorded_and_replayed(tmp_path: Path) -> None:
    """With what a reviewer wants to know; the store is made when it is not there."""

    async def main() -> LlmResponse:
        async with RecordingAdapter(Counting(), tmp_path / "new") as recorder:
            return await recorder.complete(DIE)

    response = run(main())
    fixture = Store.open(tmp_path / "new").get(DIE.model, DIE.prompt_hash())

    assert response.text == "Answer 1."
    assert fixture.request == DIE
    assert fixture.answers == (Answer("Answer 1.", None, "real-model", TokenUsage(3, 4), "stop"),)
    assert fixture.meta is not None
    assert fixture.meta["adapter"] == "counting"
    assert set(fixture.meta) == {
        *("recorded_at", "run", "asked_at", "answered_ms", "adapter", "call", "version")
    }
    assert ReplayAdapter(tmp_path / "new").sync.complete(DIE).text == "Answer 1."


def test_a_stream_is_recorded_chunk_by_chunk_with_times(tmp_path: Path) -> None:
    async def main() -> list[StreamChunk]:
        async with RecordingAdapter(Counting(delay_s=0.05), tmp_path) as recorder:
            return await read(recorder)

    live = run(main())
    (answer,) = Store.open(tmp_path).get(DIE.model, DIE.prompt_hash()).answers

    assert [timed.chunk.delta for timed in answer.stream] == ["Ans", "wer 1.", ""]
    assert [timed.chunk.finish_reason for timed in answer.stream] == [None, None, "stop"]
    times = [timed.at_ms for timed in answer.stream]
    assert times == sorted(times)
    assert times[1] >= 50
    replayed = list(ReplayAdapter(tmp_path).sync.stream(DIE))
    assert [chunk.delta for chunk in replayed] == [chunk.delta for chunk in live]


def test_what_the_caller_receives_is_not_delayed(tmp_path: Path) -> None:
    """The first chunk is there while the provider still talks."""

    async def main() -> None:
        async with RecordingAdapter(Counting(delay_s=3600), tmp_path) as recorder:
            chunks = recorder.stream(DIE)
            assert (await anext(aiter(chunks))).delta == "Ans"
            await chunks.aclose()  # type: ignore[attr-defined]

    run(main())
    assert len(Store.open_or_create(tmp_path)) == 0


def test_the_caller_may_stop_at_the_last_chunk(tmp_path: Path) -> None:
    """Whoever holds it has everything, and never asks for more."""

    async def main() -> None:
        async with RecordingAdapter(Counting(), tmp_path) as recorder:
            async for chunk in recorder.stream(DIE):
                if chunk.finish_reason is not None:
                    break

    run(main())
    assert texts(tmp_path) == ["Answer 1."]


@pytest.mark.parametrize("how", ["fails", "is cancelled", "is left"])
def test_a_call_that_does_not_end_well_records_nothing(how: str, tmp_path: Path) -> None:
    inner = Counting(delay_s=0 if how == "fails" else 3600, fails=lambda _: how == "fails")

    async def main() -> None:
        async with RecordingAdapter(inner, tmp_path) as recorder:
            if how == "fails":
                for call in (recorder.complete(DIE), read(recorder)):
                    with pytest.raises(Upstream):
                        await call
                return
            task = asyncio.create_task(read(recorder) if how == "is cancelled" else recorder.complete(DIE))
            await until(lambda: inner.calls)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main())
    assert inner.is_closed
    assert len(Store.open_or_create(tmp_path)) == 0


def test_the_nth_call_is_answer_n(tmp_path: Path) -> None:
    """Also when they are made at once; and the same answer every time is stored once."""

    async def main() -> None:
        async with RecordingAdapter(Counting(), tmp_path) as recorder:
            await recorder.complete(DIE)
            await asyncio.gather(recorder.complete(DIE), read(recorder))
        async with RecordingAdapter(ScriptedAdapter([Rule(say="Same.")]), tmp_path) as recorder:
            for _ in range(3):
                await recorder.complete(ask("Else?"))

    run(main())
    assert texts(tmp_path) == ["Answer 1.", "Answer 2.", "Answer 3."]
    assert texts(tmp_path, ask("Else?")) == ["Same."]


def test_once_asks_only_what_is_missing(tmp_path: Path) -> None:
    """A recorded answer is given; where the recorded ones end, the next is asked for."""
    first, second = Counting(), Counting()

    async def main() -> list[str]:
        async with RecordingAdapter(first, tmp_path) as recorder:
            await recorder.complete(DIE)
            await recorder.complete(DIE)
        async with RecordingAdapter(second, tmp_path, "once") as recorder:
            return [(await recorder.complete(DIE)).text for _ in range(3)]

    said = run(main())

    assert said == ["Answer 1.", "Answer 2.", "Answer 1."]
    assert (first.calls, second.calls) == (2, 1)
    assert texts(tmp_path) == said


def test_once_takes_a_single_answer_for_every_call(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    store.add(Fixture.of(DIE, "Six."))
    store.commit()
    inner = Counting()

    async def main() -> list[str]:
        async with RecordingAdapter(inner, store) as recorder:
            return [(await recorder.complete(DIE)).text, (await read(recorder))[-1].response.text]  # type: ignore[union-attr]

    assert run(main()) == ["Six.", "Six."]
    assert inner.calls == 0


def test_record_overwrites_what_is_asked_for(tmp_path: Path) -> None:
    """And leaves the answers after it."""
    store = Store.create(tmp_path)
    store.add(Fixture.of(DIE, "One.", "Two.", "Three."))
    store.commit()

    async def main() -> None:
        async with RecordingAdapter(Counting(), tmp_path, "record") as recorder:
            await recorder.complete(DIE)
            await recorder.complete(DIE)

    run(main())
    assert texts(tmp_path) == ["Answer 1.", "Answer 2.", "Three."]


def test_the_same_answer_again_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    """Whatever times and usage say."""

    async def main() -> None:
        async with RecordingAdapter(Counting(), tmp_path, "record") as recorder:
            await recorder.complete(DIE)

    run(main())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    run(main())
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before


def test_live_and_replay_do_what_they_say(tmp_path: Path) -> None:
    inner = Counting()

    async def main() -> None:
        async with RecordingAdapter(inner, tmp_path, "live") as recorder:
            await recorder.complete(DIE)
            await read(recorder)
        assert len(Store.open_or_create(tmp_path)) == 0
        async with RecordingAdapter(inner, tmp_path, "replay") as recorder:
            with pytest.raises(NoFixture):
                await recorder.complete(DIE)
            with pytest.raises(NoFixture):
                await read(recorder)

    run(main())
    assert inner.calls == 2
    with pytest.raises(InvalidRequest, match="mode"):
        RecordingAdapter(inner, tmp_path, "none")  # type: ignore[arg-type]


def test_rules_for_keys_hold_in_recording_and_replay(tmp_path: Path) -> None:
    """They stand where the store is, so that it does not matter where the program runs."""
    (tmp_path / "cortex-replay.toml").write_text(
        '[normalisers.date]\npattern = "\\\\d{4}-\\\\d{2}-\\\\d{2}"\nplaceholder = "<date>"\n'
    )
    root = tmp_path / "store"

    async def main() -> None:
        async with RecordingAdapter(Counting(), root) as recorder:
            await recorder.complete(ask("It is 2026-11-15."))

    run(main())
    fixture = Store.open(root).get(*Store.open(root).key(ask("It is 2031-01-01.")))

    assert fixture.request is not None
    assert fixture.request.messages[0].content == "It is <date>."
    assert fixture.meta is not None
    assert fixture.meta["normalisers"] == ["date"]
    assert ReplayAdapter(root).sync.complete(ask("It is 1999-12-31.")).text == "Answer 1."


def test_an_adapter_that_forgets_the_whole_response_is_recorded_all_the_same(tmp_path: Path) -> None:
    class Plain(Counting):
        async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
            yield StreamChunk("a", reasoning="hm")
            yield StreamChunk("b", tool_calls=(ToolCallDelta(0, "c", "f", '{"x": 1}'),))
            yield StreamChunk("", "tool_calls")

    async def main() -> None:
        async with RecordingAdapter(Plain(), tmp_path) as recorder:
            await read(recorder)

    run(main())
    (answer,) = Store.open(tmp_path).get(DIE.model, DIE.prompt_hash()).answers
    assert (answer.text, answer.reasoning, answer.finish_reason) == ("ab", "hm", "tool_calls")
    assert answer.tool_calls == (ToolCall(id="c", name="f", arguments={"x": 1}),)


def test_a_stream_that_is_no_generator_is_fine(tmp_path: Path) -> None:
    class Listed(Counting):
        def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
            class Chunks:
                def __init__(self) -> None:
                    self._left = [StreamChunk("a"), StreamChunk("b", "stop")]

                def __aiter__(self) -> Chunks:
                    return self

                async def __anext__(self) -> StreamChunk:
                    if not self._left:
                        raise StopAsyncIteration
                    return self._left.pop(0)

            return Chunks()

    async def main() -> None:
        async with RecordingAdapter(Listed(), tmp_path) as recorder:
            await read(recorder)

    run(main())
    assert texts(tmp_path) == ["ab"]


def test_a_recorded_stream_that_is_left_early_does_not_count(tmp_path: Path) -> None:
    async def main() -> str:
        async with RecordingAdapter(Counting(), tmp_path) as recorder:
            await read(recorder)
            await read(recorder)
        async with RecordingAdapter(Counting(), tmp_path) as recorder:
            chunks = recorder.stream(DIE)
            await anext(aiter(chunks))
            await chunks.aclose()  # type: ignore[attr-defined]
            return (await recorder.complete(DIE)).text

    assert run(main()) == "Answer 1."


def test_replay_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also as a part of a run."""
    monkeypatch.setenv("CORTEX_REPLAY_RUN", "x")
    store = Store.create(tmp_path)
    store.add(Fixture.of(DIE, "a"))
    store.commit()
    before = sorted(tmp_path.rglob("*"))

    RecordingAdapter(Counting(), tmp_path, "replay").sync.complete(DIE)

    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("mode", ["once", "record"])
@pytest.mark.parametrize("way", ["complete", "stream"])
def test_an_answer_that_must_not_be_stored_is_paid_for_and_uses_no_turn(
    tmp_path: Path, mode: Literal["once", "record"], way: str
) -> None:
    """The caller is told, and the answer to the next call is the first that is recorded."""
    said = iter(["[SENSITIVITY:high] no", "[SENSITIVITY:high] no", "fine"])
    inner = ScriptedAdapter(lambda _: LlmResponse(next(said), None, "m", TokenUsage(3, 4), "", "stop"))

    async def main() -> tuple[list[str], int, int]:
        async with RecordingAdapter(inner, tmp_path, mode) as recorder:
            for _ in range(2):
                with pytest.raises(RecordingRefused):
                    await (recorder.complete(DIE) if way == "complete" else read(recorder))
            await recorder.complete(DIE)
            ledger = recorder._run.ledger
            return ledger.refused, ledger.recorded, ledger.prompt_tokens

    refused, recorded, tokens = run(main())
    assert (len(refused), recorded, tokens) == (2, 1, 9)
    assert texts(tmp_path) == ["fine"]


def test_an_explanation_is_cut_short_behind_its_secrets(tmp_path: Path) -> None:
    """Half a secret is not found any more."""
    secret = "a-key-that-only-this-run-knows-4711"
    recorder = RecordingAdapter(Counting(), tmp_path, redactor=Redactor([secret]))
    texts_of_secret = [f"{'x' * start}{secret}{'y' * 30_000}" for start in range(0, 16_000, 11)]
    halved = [text for text in texts_of_secret if secret[:9] in shorten(text) and secret not in shorten(text)]
    assert halved

    for text in halved:
        assert secret[:9] not in recorder._scope.clean(text)
