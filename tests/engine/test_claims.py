"""Scopes and processes of one run share what they record."""

from __future__ import annotations

import asyncio
import errno
import multiprocessing
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cortex_replay import (
    Answer,
    Fixture,
    LlmError,
    LlmRequest,
    RecordingAdapter,
    Store,
    StoreIo,
    StreamChunk,
    Timeout,
    Upstream,
)
from cortex_replay.engine.claims import (
    Claims,
    FileClaims,
    FileSlots,
    FileSpending,
    MemoryClaims,
    RunFolder,
    parse_outcome,
)
from cortex_replay.engine.outcomes import Outcome
from cortex_replay.store import FixtureKey
from cortex_replay.store.exchange import Exchange
from tests.builder import ask
from tests.engine.counting import DIE, Counting, read, run, texts


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
    outermost = RunFolder(Store.create(root).run_folder("run-1"))
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


def opened(root: Path, name: str = "run-1") -> RunFolder:
    return RunFolder(Store.open_or_create(root).run_folder(name))


async def claimed(claims: Claims, key: FixtureKey, n: int, *left: Outcome) -> Outcome | None:
    """What is there for an answer, and then leave something else."""
    async with claims.claim(key, n, 1000) as claim:
        found = claim.outcome
        for outcome in left:
            claim.settle(outcome)
        return found


LONG, SHORT = Answer("long " * 2000), Answer("short")
FAILED = Exchange.failure(FixtureKey("m", "0" * 64), 1, {"status": 529, "headers": {}, "body": "x" * 5000})


@pytest.mark.parametrize("before", [LONG, FAILED], ids=["an answer", "a failure"])
def test_a_short_answer_takes_the_place_of_a_long_one(tmp_path: Path, before: Outcome) -> None:
    """Nothing of the long one is left behind it; a writer that was killed may have left that."""
    claims, key = FileClaims(opened(tmp_path)), FixtureKey("m", "0" * 64)

    asyncio.run(claimed(claims, key, 1, before, SHORT))
    found = asyncio.run(claimed(claims, key, 1))

    assert isinstance(found, Answer)
    assert found.text == "short"


def test_few_moments_take_the_place_of_many(tmp_path: Path) -> None:
    slots = FileSlots(opened(tmp_path), "openai")
    for moments in ([1.25, 2.5, 3.75], [4.125]):
        with slots.change() as taken:
            taken[:] = moments
    with slots.change() as taken:
        assert taken == [4.125]
    with FileSlots(slots.folder, "other").change() as taken:
        assert taken == [], "each provider has its own"


def test_small_counts_take_the_place_of_large_ones(tmp_path: Path) -> None:
    spending = FileSpending(opened(tmp_path))
    for numbers in ((1, 1, 123_456_789), (2, 3, 0)):
        with spending.change() as counters:
            counters.calls, counters.tokens, counters.reserved = numbers
    with spending.change() as counters:
        assert (counters.calls, counters.tokens, counters.reserved) == (2, 3, 0)


def test_a_disk_that_refuses_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spending = FileSpending(opened(tmp_path))

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "the disk is full")

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(StoreIo, match="the run's folder cannot be written: the disk is full"):  # noqa: SIM117
        with spending.change() as counters:
            counters.calls += 1


@pytest.mark.parametrize("is_shared", [False, True], ids=["in one process", "in several"])
def test_a_claim_is_of_one_model_one_question_and_one_number(tmp_path: Path, is_shared: bool) -> None:
    claims: Claims = FileClaims(opened(tmp_path)) if is_shared else MemoryClaims()
    places = [(FixtureKey(model, question * 64), n) for model in "ab" for question in "01" for n in (1, 2)]
    said = {place: Answer(f"answer {number}") for number, place in enumerate(places)}

    async def main() -> list[str | None]:
        for place in places:
            assert await claimed(claims, *place, said[place]) is None
        found = [await claimed(claims, *place) for place in places]
        return [one.text if isinstance(one, Answer) else None for one in found]

    assert asyncio.run(main()) == [answer.text for answer in said.values()]


def test_who_waits_too_long_for_a_claim_gives_up(tmp_path: Path) -> None:
    claims = FileClaims(opened(tmp_path))
    key = FixtureKey("m", "1" * 64)

    async def main() -> None:
        async with claims.claim(key, 1, 1000):
            with pytest.raises(Timeout):
                async with claims.claim(key, 1, 10):
                    pass
        async with claims.claim(key, 1, 1000):
            pass

    run(main())


def test_who_waits_for_a_claim_gets_it(tmp_path: Path) -> None:
    claims = FileClaims(opened(tmp_path))
    key, order = FixtureKey("m", "1" * 64), []

    async def second() -> None:
        async with claims.claim(key, 1, 60_000):
            order.append("second")

    async def main() -> None:
        async with claims.claim(key, 1, 60_000):
            waiting = asyncio.create_task(second())
            for _ in range(3):
                await asyncio.sleep(0)
            order.append("first")
        await waiting

    run(main())
    assert order == ["first", "second"]


@pytest.mark.parametrize("left", [b"", b"{", b"no answer", b"failure\n{"])
def test_what_a_killed_process_left_is_nothing(left: bytes) -> None:
    assert parse_outcome(left) is None


def test_moments_that_a_killed_process_left_are_none(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    with FileSlots(folder, "openai").change() as moments:
        moments.append(1.5)
    [path] = tmp_path.rglob("rate-*")
    path.write_bytes(b"1.5 2.")
    with FileSlots(folder, "openai").change() as moments:
        assert moments == [1.5, 2.0]
    path.write_bytes(b"1.5 2.e")

    with FileSlots(folder, "openai").change() as moments:
        assert moments == []
