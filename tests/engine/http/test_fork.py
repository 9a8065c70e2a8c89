"""A scope that replays its first calls and then asks, over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store
from cortex_replay.engine.fork import Fork
from cortex_replay.engine.fork_names import ForkPlan
from cortex_replay.run import Run
from tests.adapters.fake_provider import Exchange, serving_in_thread
from tests.engine.http.harness import PATHS, answer, ask, body_of, open_call, request_for, run_over

CHAT = "openai-chat"


async def count(exchange: Exchange) -> None:
    """Another answer to each call."""
    exchange.provider.sent += 1
    number = exchange.provider.sent
    if exchange.received.path.endswith("/embeddings"):
        await exchange.whole(json.dumps({"number": number}).encode())
        return
    message = {"role": "assistant", "content": str(number)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    await exchange.whole(json.dumps({"choices": [choice]}).encode())


@contextmanager
def forking(root: Path, url: str, calls: int, name: str = "x", **options: Any) -> Iterator[Run]:
    with run_over(root, "record", url, **options) as run:
        run.fork_plan = ForkPlan(calls, name)
        yield run


@contextmanager
def on_road(root: Path, name: str) -> Iterator[Run]:
    with run_over(root, "replay") as run:
        run.fork_name = name
        yield run


def chat(run: Run, *texts: str, scope: str = "") -> list[str]:
    """What a model says to each, or a status that is no success."""
    said = []
    for text in texts:
        got = ask(run, "POST", PATHS[CHAT], body_of(CHAT, request_for(text)), scope=scope)
        is_good = got.status == 200
        said.append(got.json["choices"][0]["message"]["content"] if is_good else str(got.status))
    return said


def test_each_scope_forks_by_itself(tmp_path: Path) -> None:
    """And has its own answers before the fork, too."""
    with serving_in_thread(count) as provider:
        with run_over(tmp_path, "record", provider.url) as run:
            assert chat(run, "a", "b", "c", scope="one") == ["1", "2", "3"]
            assert chat(run, "a", "b", "c", scope="two") == ["1", "2", "3"], "asked once in a run"
        with run_over(tmp_path, "record", provider.url) as run:
            assert chat(run, "a", "b", scope="two") == ["4", "5"]
        with forking(tmp_path, provider.url, 2) as run:
            assert chat(run, "a", "b", "c", scope="one") == ["1", "2", "6"]
            assert chat(run, "a", "b", "d", scope="two") == ["4", "5", "7"]
    for name, scope, said in (
        ("x", "one", ["1", "2", "6"]),
        ("x", "two", ["4", "5", "7"]),
        ("", "one", ["1", "2", "3"]),
    ):
        with on_road(tmp_path, name) as run:
            assert chat(run, "a", "b", "d" if said[2] == "7" else "c", scope=scope) == said


def test_other_calls_are_of_the_side_they_come_on(tmp_path: Path) -> None:
    """They are not counted; before the fork they are replayed, behind it they are asked."""

    def embed(run: Run) -> int:
        number: int = ask(run, "POST", "/v1/embeddings", {"model": "m", "input": "text"}).json["number"]
        return number

    with serving_in_thread(count) as provider:
        with run_over(tmp_path, "record", provider.url) as run:
            assert (chat(run, "a"), embed(run), chat(run, "b")) == (["1"], 2, ["3"])
        with forking(tmp_path, provider.url, 1) as run:
            road = [embed(run), chat(run, "a"), embed(run), chat(run, "b"), embed(run)]
            assert road == [2, ["1"], 2, ["4"], 5]
    with on_road(tmp_path, "x") as run:
        assert [embed(run), chat(run, "a"), embed(run), chat(run, "b"), embed(run)] == road


def test_a_call_that_breaks_off_counts_once(tmp_path: Path) -> None:
    """A client that lost its connection asks the same again, and is not nearer to the fork."""
    with serving_in_thread(count) as provider:
        with run_over(tmp_path, "record", provider.url) as run:
            chat(run, "a", "b")
        with forking(tmp_path, provider.url, 2) as run:

            async def break_off() -> None:
                body = body_of(CHAT, request_for("a"))
                async with open_call(run, "POST", PATHS[CHAT], body):
                    raise ConnectionResetError

            for _ in range(3):
                with suppress(ConnectionResetError):
                    asyncio.run(break_off())
            assert chat(run, "a", "b", "c") == ["1", "2", "3"]
            assert provider.sent == 3


def test_calls_at_the_same_time_are_counted_as_they_come(tmp_path: Path) -> None:
    """No more of them are replayed than were to be, and none is asked too many."""
    with serving_in_thread(count) as provider:
        with run_over(tmp_path, "record", provider.url) as run:
            chat(run, *"abcdef")
        with forking(tmp_path, provider.url, 4) as run:

            async def all_at_once() -> None:
                bodies = [body_of(CHAT, request_for(text)) for text in "abcdef"]
                await asyncio.gather(*(answer(run, "POST", PATHS[CHAT], body) for body in bodies))

            asyncio.run(all_at_once())
            assert (run.ledger.hits, run.ledger.live, provider.sent) == (4, 2, 8)


@pytest.mark.parametrize("calls", [1, 2])
def test_nobody_is_asked_behind_a_miss(tmp_path: Path, calls: int) -> None:
    """Whether it is the last call before the fork or an earlier one; a list of models is no miss."""
    with serving_in_thread(count) as provider:
        with run_over(tmp_path, "record", provider.url) as run:
            chat(run, "a", "b")
        with forking(tmp_path, provider.url, calls) as run:
            assert ask(run, "GET", "/v1/models").status == 424
            assert chat(run, *["a", "b"][: calls - 1], "new", "b", "newer") == [
                *["1", "2"][: calls - 1],
                *["424", "2", "424"],
            ]
            assert [fork.is_lost for fork in run.forks] == [True]
        assert provider.sent == 2


def test_what_is_copied_says_when_it_was_recorded(tmp_path: Path) -> None:
    """A road that goes on with other answers to the same question is not younger for that."""
    with serving_in_thread(count) as provider:
        with run_over(tmp_path, "record", provider.url, every_answer=True) as run:
            assert chat(run, "a", "a") == ["1", "2"]
        for path in tmp_path.rglob("fixtures/**/*.json"):
            before = json.loads(path.read_text())["meta"]
        with forking(tmp_path, provider.url, 1, every_answer=True) as run:
            assert chat(run, "a", "a") == ["1", "3"]
    [own] = [item for item in Store.open(tmp_path).list(scoped=True) if item.scope]
    meta = Store.open(tmp_path).get(own.model, own.prompt_hash, "x").meta or {}
    assert {name: meta[name] for name in ("recorded_at", "asked_at", "answered_ms")} == {
        name: before[name] for name in ("recorded_at", "asked_at", "answered_ms")
    }


def test_a_call_of_the_past_that_fails_late_does_not_end_the_road() -> None:
    """It was under way when the road began, which has asked and paid since."""
    fork: Fork[Any] = Fork(1, road=None)
    assert [fork.begin_call(), fork.begin_call()] == [False, True]

    fork.lose()

    assert (fork.has_left, fork.is_lost, fork.begin_call()) == (True, False, True)
