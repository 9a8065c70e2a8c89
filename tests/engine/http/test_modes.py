"""What each mode does with what is recorded, on every road; and what a client that leaves uses up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.run import Run
from tests.engine.http.harness import body_of, request_for, run_over
from tests.engine.http.spoken import ROADS, Spoken, bytes_saying, heard

roads = pytest.mark.parametrize("road", ROADS)


class Left(Exception):
    """The client has."""


def said(road: str, *texts: str) -> list[bytes]:
    return [b"".join(bytes_saying(road, text)[1]) for text in texts]


def run_in(root: Path, mode: str, work: Callable[[Run], Awaitable[Any]], **options: Any) -> Any:
    """What is got of a run, whose recordings are committed at its end."""
    with run_over(root, mode, **options) as run:
        return asyncio.run(work(run))  # type: ignore[arg-type]


def record(root: Path, road: str, *texts: str) -> None:
    async def ask(run: Run) -> list[bytes]:
        upstream = Spoken(road, *texts)
        return [await upstream.ask(run) for _ in texts]

    assert run_in(root, "once", ask, every_answer=True) == said(road, *texts)


@roads
@pytest.mark.parametrize(
    ("mode", "given", "asked", "kept"),
    [
        ("replay", "old", 0, "old"),
        ("once", "old", 0, "old"),
        ("record", "new", 1, "new"),
        ("live", "new", 1, "old"),
    ],
)
@pytest.mark.parametrize("every_answer", [False, True])
def test_what_a_mode_gives_asks_and_keeps(
    tmp_path: Path, road: str, mode: str, given: str, asked: int, kept: str, every_answer: bool
) -> None:
    record(tmp_path, road, "old")
    upstream, idle = Spoken(road, "new"), Spoken(road)
    before = sorted(file.read_bytes() for file in tmp_path.rglob("*.json"))

    assert run_in(tmp_path, mode, upstream.ask, every_answer=every_answer) == said(road, given)[0]
    assert len(upstream.asked) == asked
    after = sorted(file.read_bytes() for file in tmp_path.rglob("*.json"))
    assert (after == before) == (kept == "old"), "and nothing else is written"
    assert run_in(tmp_path, "replay", idle.ask) == said(road, kept)[0]


@roads
@pytest.mark.parametrize("mode", ["replay", "once"])
@pytest.mark.parametrize("error", [Left, asyncio.CancelledError], ids=["broken off", "cancelled"])
def test_a_client_that_leaves_halfway_has_not_had_its_turn(
    tmp_path: Path, road: str, mode: str, error: type[BaseException]
) -> None:
    """It gets the same answer when it comes back, and the next one behind that."""
    record(tmp_path, road, "one", "two")
    upstream = Spoken(road)

    async def leave(run: Run) -> list[bytes]:
        for _ in range(2):
            with suppress(error):
                async with upstream.open(run):
                    raise error
        return [await upstream.ask(run) for _ in range(2)]

    assert run_in(tmp_path, mode, leave, every_answer=True) == said(road, "one", "two")


@roads
@pytest.mark.parametrize("mode", ["once", "record"])
def test_an_answer_that_a_client_left_is_asked_again(tmp_path: Path, road: str, mode: str) -> None:
    """What came whole before it left is recorded all the same; what was cut is not."""
    upstream = Spoken(road, "first", "second")
    is_cut = road.startswith("a streamed")

    async def leave(run: Run) -> bytes:
        with suppress(Left):
            async with upstream.open(run) as reply:
                if reply.live is not None:
                    await anext(reply.live)
                raise Left
        assert run.ledger.recorded == (0 if is_cut else 1)
        return await upstream.ask(run)

    expected = said(road, "second" if is_cut else "first")[0]
    assert run_in(tmp_path, mode, leave) == expected
    assert run_in(tmp_path, "replay", Spoken(road).ask) == expected


@roads
def test_scopes_count_by_themselves_and_ask_together(tmp_path: Path, road: str) -> None:
    """Each has both answers and each was asked once; what one of them got stays its own, whatever another
    records later."""

    async def ask(upstream: Spoken, scopes: str, run: Run) -> list[list[bytes]]:
        return [[await upstream.ask(run, scope) for _ in range(2)] for scope in scopes]

    def run_all(mode: str, upstream: Spoken, scopes: str) -> Any:
        return run_in(tmp_path, mode, partial(ask, upstream, scopes), every_answer=True)

    first, second = Spoken(road, "one", "two"), Spoken(road, "three", "four")
    before, after = said(road, "one", "two"), said(road, "three", "four")
    assert run_all("once", first, "ab") == [before, before]
    assert len(first.asked) == 2
    assert run_all("replay", Spoken(road), "ab") == [before, before]
    assert run_all("record", second, "a") == [after]
    assert run_all("replay", Spoken(road), "ab") == [after, before]


@roads
def test_what_others_recorded_is_a_scope_s_own_once_it_got_it(tmp_path: Path, road: str) -> None:
    """In ``once``, without a call: to record it anew for others does not change what it gets."""

    async def ask(upstream: Spoken, scope: str, run: Run) -> bytes:
        return await upstream.ask(run, scope)

    old, new = Spoken(road, "old"), Spoken(road, "new")
    run_in(tmp_path, "once", partial(ask, old, "a"))
    assert run_in(tmp_path, "once", partial(ask, Spoken(road), "b")) == said(road, "old")[0]
    run_in(tmp_path, "record", partial(ask, new, "a"))

    got = [run_in(tmp_path, "replay", partial(ask, Spoken(road), scope)) for scope in ("a", "b", "c")]
    assert got == said(road, "new", "old", "new")


@roads
def test_a_run_within_its_budget_asks_and_then_no_more(tmp_path: Path, road: str) -> None:
    upstream = Spoken(road, "one", "two")

    async def ask(run: Run) -> list[int]:
        statuses = []
        for scope in ("a", "b"):
            run.open_scope(scope)
            async with upstream.open(run, scope) as reply:
                statuses.append(reply.status)
                await heard(reply)
        return statuses

    assert run_in(tmp_path, "live", ask, budget_calls=1) == [200, 400]
    assert len(upstream.asked) == 1


LABELLED = "[SENSITIVITY:high] the plan"
LABELLED_BODIES: dict[str, Any] = {
    "a completion": body_of("openai-chat", request_for(LABELLED)),
    "a streamed completion": body_of("openai-chat", request_for(LABELLED), stream=True),
    "a streamed exchange": {"stream": True, "input": [{"text": LABELLED}]},
}


@pytest.mark.parametrize("road", LABELLED_BODIES)
@pytest.mark.parametrize(
    ("mode", "most", "leaves"),
    [("live", "medium", False), ("live", "high", True), ("once", "medium", False), ("once", "high", False)],
)
def test_labelled_text_leaves_only_where_it_may(
    tmp_path: Path, road: str, mode: str, most: str, leaves: bool
) -> None:
    """By what may be sent; and, if it would be recorded, by what the store may hold."""
    upstream = Spoken(road, "fine", body=LABELLED_BODIES[road])

    async def ask(run: Run) -> int:
        async with upstream.open(run) as reply:
            await heard(reply)
            return reply.status

    assert run_in(tmp_path, mode, ask, max_sensitivity=most) == (200 if leaves else 400)
    assert len(upstream.asked) == leaves
