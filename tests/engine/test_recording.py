"""What is asked is recorded, once, as it was said, and only if it ended well."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cortex_replay import (
    Answer,
    Fixture,
    InvalidRequest,
    LlmAdapter,
    LlmError,
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
from cortex_replay.engine.claims import FileClaims
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store.exchange import Exchange
from cortex_replay.testing import Rule, ScriptedAdapter
from tests.builder import ask

DIE = ask("Roll a die.")
SECRET = "hunter2-hunter2-hunter2"


class Counting(LlmAdapter):
    """Says how often it was asked, and can fail, stall, or be cancelled on the way."""

    adapter_id: ClassVar[str] = "counting"

    def __init__(self, delay_s: float = 0, fails: Callable[[int], bool] = lambda _: False) -> None:
        self.calls = 0
        self.is_closed = False
        self._delay_s = delay_s
        self._fails = fails

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return [chunk async for chunk in self.stream(request)][-1].response  # type: ignore[return-value]

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        self.calls += 1
        text = f"Answer {self.calls}."
        yield StreamChunk(text[:3])
        await asyncio.sleep(self._delay_s)
        if self._fails(self.calls):
            raise Upstream(529, "overloaded", "overloaded_error")
        yield StreamChunk(text[3:])
        response = LlmResponse(text, None, "real-model", TokenUsage(3, 4), "", "stop")
        yield StreamChunk("", "stop", response=response)

    async def aclose(self) -> None:
        self.is_closed = True


def texts(store: Store | Path, request: LlmRequest = DIE) -> list[str]:
    opened = store if isinstance(store, Store) else Store.open(store)
    return [answer.text for answer in opened.get(*opened.key(request)).answers]


async def read(adapter: LlmAdapter, request: LlmRequest = DIE) -> list[StreamChunk]:
    return [chunk async for chunk in adapter.stream(request)]


def run(work: Any) -> Any:
    return asyncio.run(work)


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
    assert set(fixture.meta) == {"recorded_at", "adapter", "version"}
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
    assert len(Store.open(tmp_path)) == 0


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
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main())
    assert inner.is_closed
    assert len(Store.open(tmp_path)) == 0


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
        assert len(Store.open(tmp_path)) == 0
        async with RecordingAdapter(inner, tmp_path, "replay") as recorder:
            with pytest.raises(NoFixture):
                await recorder.complete(DIE)
            with pytest.raises(NoFixture):
                await read(recorder)

    run(main())
    assert inner.calls == 2
    with pytest.raises(InvalidRequest, match="mode"):
        RecordingAdapter(inner, tmp_path, "none")  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["complete", "stream", "mixed"])
def test_scopes_that_need_the_same_answer_make_one_call(way: str, tmp_path: Path) -> None:
    """Many tests ask the same first question at once; each of them is answer 1."""
    inner = Counting(delay_s=0.02)
    store = Store.create(tmp_path)

    async def one(number: int) -> list[str]:
        recorder = RecordingAdapter(inner, store, commit_on_close=False)
        said = []
        for _ in range(2):
            if way == "stream" or (way == "mixed" and number % 2):
                said.append("".join(chunk.delta for chunk in await read(recorder)))
            else:
                said.append((await recorder.complete(DIE)).text)
        return said

    async def main() -> list[list[str]]:
        return await asyncio.gather(*(one(number) for number in range(8)))

    said = run(main())
    store.commit()

    assert said == [["Answer 1.", "Answer 2."]] * 8
    assert inner.calls == 2
    assert texts(tmp_path) == ["Answer 1.", "Answer 2."]


def test_a_scope_that_waits_takes_over_from_one_that_failed(tmp_path: Path) -> None:
    inner = Counting(delay_s=0.05, fails=lambda call: call == 1)
    store = Store.create(tmp_path)

    async def one() -> object:
        recorder = RecordingAdapter(inner, store, commit_on_close=False)
        try:
            return (await recorder.complete(DIE)).text
        except LlmError as error:
            return type(error)

    async def main() -> list[object]:
        return list(await asyncio.gather(one(), one(), one()))

    assert run(main()) == [Upstream, "Answer 2.", "Answer 2."]
    assert inner.calls == 2


def _child(root: str, log: str) -> None:
    class Logging(Counting):
        async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
            with Path(log).open("a") as file:
                file.write("call\n")
            async for chunk in super().stream(request):
                yield chunk

    async def main() -> None:
        async with RecordingAdapter(Logging(delay_s=0.1), root) as recorder:
            assert (await recorder.complete(DIE)).text == "Answer 1."
            await recorder.complete(ask(f"Only {os.getpid()}."))

    asyncio.run(main())


def test_processes_of_one_run_make_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEX_REPLAY_RUN", "run-1")
    root, log = tmp_path / "store", tmp_path / "log"
    # As the outermost process of a run does: a run lives as long as a process of it, and on a busy machine
    # the first child may have ended before the last has begun.
    outermost = FileClaims(Store.create(root).run_folder("run-1"))
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=_child, args=(str(root), str(log))) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()

    del outermost
    assert [child.exitcode for child in children] == [0] * 4
    assert log.read_text().count("call") == 1 + 4
    assert len(Store.open(root)) == 1 + 4


def test_a_failure_is_recorded_when_asked(tmp_path: Path) -> None:
    """And replayed in its turn, then the success; by the recorder too."""
    inner = Counting(fails=lambda call: call == 2)

    async def main() -> None:
        async with RecordingAdapter(inner, tmp_path, record_failures=True) as recorder:
            await recorder.complete(DIE)
            with pytest.raises(Upstream):
                await recorder.complete(DIE)
            await recorder.complete(DIE)

    run(main())

    for adapter in (ReplayAdapter(tmp_path), RecordingAdapter(inner, tmp_path)):
        assert adapter.sync.complete(DIE).text == "Answer 1."
        with pytest.raises(Upstream) as caught:
            adapter.sync.complete(DIE)
        error = caught.value
        assert (error.status, error.message, error.error_type) == (529, "overloaded", "overloaded_error")
        assert adapter.sync.complete(DIE).text == "Answer 3."
    assert inner.calls == 3
    spent = ReplayAdapter(tmp_path)
    spent.sync.complete(DIE)
    with pytest.raises(Upstream):
        spent.sync.complete(DIE)
    spent.sync.complete(DIE)
    with pytest.raises(NoFixture):
        spent.sync.complete(DIE)


def test_only_failures_are_no_answer(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    store.add_exchange(Exchange.failure(store.key(DIE), 1, {"status": 500, "headers": {}, "body": "{}"}))
    store.commit()
    replay = ReplayAdapter(store)

    with pytest.raises(Upstream):
        replay.sync.complete(DIE)
    with pytest.raises(NoFixture):
        replay.sync.complete(DIE)


def secretive(tmp_path: Path, inner: LlmAdapter, request: LlmRequest, *, stream: bool) -> Fixture:
    async def main() -> None:
        async with RecordingAdapter(inner, tmp_path, redactor=Redactor([SECRET])) as recorder:
            if stream:
                await read(recorder, request)
            else:
                await recorder.complete(request)

    run(main())
    store = Store.open(tmp_path)
    for path in tmp_path.rglob("*.json"):
        assert SECRET not in path.read_text()
    return store.get(*store.key(request))


@pytest.mark.parametrize("stream", [False, True])
def test_a_secret_in_an_answer_is_cut_out(stream: bool, tmp_path: Path) -> None:
    """Wherever a chunk ends; text, reasoning, arguments and parsed JSON say the same."""
    chunks = [f'{{"key": "{SECRET[:5]}', SECRET[5:9], f'{SECRET[9:]}", "n": 1}}']
    call = {"name": "f", "arguments": {"token": SECRET, "city": "Paris"}}
    rules = [
        Rule(when={"contains": "json"}, chunks=chunks, think=f"the key is {SECRET} I think"),
        Rule(call=[call]),
    ]
    schema = {"type": "object"}

    fixture = secretive(tmp_path, ScriptedAdapter(rules), ask("json", json_schema=schema), stream=stream)
    answer = fixture.answers[0]
    assert answer.text == '{"key": "[REDACTED:known-value]", "n": 1}'
    assert answer.parsed_json == {"key": "[REDACTED:known-value]", "n": 1}
    assert answer.reasoning == "the key is [REDACTED:known-value] I think"
    assert fixture.meta is not None
    assert fixture.meta["redactions"] == [
        {"kind": "value", "where": "response", "rule": "known-value", "count": 2}
    ]

    fixture = secretive(tmp_path, ScriptedAdapter(rules), ask("call"), stream=stream)
    assert fixture.answers[0].tool_calls[0].arguments == {"token": "[REDACTED:known-value]", "city": "Paris"}


def test_a_secret_in_a_request_is_cut_out_and_the_key_stays(tmp_path: Path) -> None:
    """The fixture is found by the real request, and says that its stored one cannot be checked."""
    request = ask(f"My key is {SECRET}.")

    fixture = secretive(tmp_path, Counting(), request, stream=False)

    assert fixture.is_request_redacted
    assert fixture.request is not None
    assert fixture.request.messages[0].content == "My key is [REDACTED:known-value]."
    assert ReplayAdapter(tmp_path).sync.complete(request).text == "Answer 1."


def test_a_secret_that_cannot_be_cut_out_refuses_the_recording(tmp_path: Path) -> None:
    """Over two messages, each of which is a text of its own: the message says where, and not what."""
    inner = ScriptedAdapter([Rule(say="Hi.")])
    halves = [{"role": "user", "content": half} for half in (SECRET[:7], SECRET[7:])]

    async def main() -> None:
        async with RecordingAdapter(inner, tmp_path, redactor=Redactor([SECRET])) as recorder:
            with pytest.raises(RecordingRefused) as caught:
                await recorder.complete(LlmRequest("m", messages=halves))
            assert "request.messages[].content" in str(caught.value)
            assert SECRET not in str(caught.value)

    run(main())
    assert len(Store.open(tmp_path)) == 0


def test_a_failure_that_repeats_a_secret_is_redacted(tmp_path: Path) -> None:
    class Echoing(Counting):
        async def complete(self, request: LlmRequest) -> LlmResponse:
            raise Upstream(401, f"bad key {SECRET}")

    async def main() -> None:
        redactor = Redactor([SECRET])
        async with RecordingAdapter(Echoing(), tmp_path, redactor=redactor, record_failures=True) as recorder:
            with pytest.raises(Upstream):
                await recorder.complete(DIE)

    run(main())
    (path,) = (tmp_path / "fixtures/exchanges").glob("*.json")
    assert SECRET not in path.read_text()


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


def test_an_answer_that_somebody_else_was_faster_with_gives_way(tmp_path: Path) -> None:
    """Only for its own key; the rest is committed, and nothing stays staged."""
    store = Store.create(tmp_path)

    async def main() -> int:
        recorder = RecordingAdapter(Counting(), store, commit_on_close=False)
        await recorder.complete(DIE)
        await recorder.complete(ask("Other?"))
        other = Store.open(tmp_path)
        other.add(Fixture.of(DIE, "First."))
        other.commit()
        return (await recorder.commit()).dropped

    assert run(main()) == 1
    assert texts(tmp_path) == ["First."]
    assert texts(tmp_path, ask("Other?")) == ["Answer 2."]
    assert Store.open(tmp_path).abandoned().answers == 0


def test_more_answers_keep_what_the_first_recording_said_of_itself(tmp_path: Path) -> None:
    """Also that a secret was cut out of its request, without which it could not be trusted."""
    request = ask(f"My key is {SECRET}.")

    async def main(calls: int) -> None:
        redactor = Redactor([SECRET])
        async with RecordingAdapter(Counting(), tmp_path, redactor=redactor) as recorder:
            for _ in range(calls):
                await recorder.complete(request)

    run(main(2))
    run(main(3))
    fixture = Store.open(tmp_path).get(request.model, request.prompt_hash())
    assert len(fixture.answers) == 3
    assert fixture.is_request_redacted


def test_a_commit_in_between_does_not_let_a_scope_forget(tmp_path: Path) -> None:
    """Adapters of one store close at different times; each n-th call is still one answer."""
    store = Store.create(tmp_path)
    inner = Counting()

    async def main() -> list[str]:
        first, second = RecordingAdapter(inner, store), RecordingAdapter(inner, store)
        said = [(await first.complete(DIE)).text, (await second.complete(DIE)).text]
        said.append((await first.complete(DIE)).text)
        await first.aclose()
        said.append((await second.complete(DIE)).text)
        await second.aclose()
        return said

    assert run(main()) == ["Answer 1.", "Answer 1.", "Answer 2.", "Answer 2."]
    assert texts(tmp_path) == ["Answer 1.", "Answer 2."]


def test_an_answer_takes_the_place_of_a_failure(tmp_path: Path) -> None:
    async def main(inner: Counting, mode: Any) -> None:
        async with RecordingAdapter(inner, tmp_path, mode, record_failures=True) as recorder:
            for _ in range(2):
                try:
                    await recorder.complete(DIE)
                except Upstream:
                    continue

    run(main(Counting(fails=lambda call: call == 1), "once"))
    assert Store.open(tmp_path).has_failures(DIE.model, DIE.prompt_hash())
    run(main(Counting(), "record"))
    replay = ReplayAdapter(tmp_path)
    assert [replay.sync.complete(DIE).text for _ in range(2)] == ["Answer 1.", "Answer 2."]


def test_scopes_share_a_failure_too(tmp_path: Path) -> None:
    inner = Counting(delay_s=0.02, fails=lambda call: call == 1)
    store = Store.create(tmp_path)

    async def one() -> list[object]:
        recorder = RecordingAdapter(inner, store, record_failures=True, commit_on_close=False)
        said: list[object] = []
        for _ in range(2):
            try:
                said.append((await recorder.complete(DIE)).text)
            except Upstream as error:
                said.append(error.status)
        return said

    async def main() -> list[list[object]]:
        return list(await asyncio.gather(one(), one()))

    assert run(main()) == [[529, "Answer 2."]] * 2
    store.commit()
    assert inner.calls == 2


def test_a_run_of_the_same_name_starts_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody of the old one is alive, so its answers are none of the new one's business."""
    monkeypatch.setenv("CORTEX_REPLAY_RUN", "nightly")
    inner = Counting()

    async def main() -> None:
        async with RecordingAdapter(inner, tmp_path, "record") as recorder:
            await recorder.complete(DIE)

    run(main())
    run(main())
    assert inner.calls == 2
    assert texts(tmp_path) == ["Answer 2."]


def test_a_failure_that_was_replaced_meanwhile_is_read_anew(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    key = store.key(DIE)
    store.add_exchange(Exchange.failure(key, 1, {"status": 500, "headers": {}, "body": "{}"}))
    store.commit()
    reader = Store.open(tmp_path, verify="on-read")
    other = Store.open(tmp_path)
    other.add_exchange(Exchange.failure(key, 1, {"status": 503, "headers": {}, "body": "{}"}), overwrite=True)
    other.commit()

    assert reader.failures(*key)[1].wire["status"] == 503


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


def test_a_key_of_the_environment_is_cut_out_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)

    async def main() -> None:
        async with RecordingAdapter(ScriptedAdapter([Rule(say=f"It is {SECRET}.")]), tmp_path) as recorder:
            await recorder.complete(DIE)

    run(main())
    assert texts(tmp_path) == ["It is [REDACTED:known-value]."]


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
