"""Calls without a scope: a question has one answer in a recording run, whoever asks first."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store
from cortex_replay.run import Run
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import Exchange, Script, hang_up, serving_in_thread, stream, whole
from tests.engine.http.harness import Got, answer, ask, body_of, open_call, request_for, run_over

CLAUDE, CHAT = DIALECTS[:2]
COMPLETIONS = "/openai/v1/chat/completions"
HELLO = request_for("Say hello.")
MESSAGES = "/anthropic/v1/messages"
ASKED = body_of("anthropic-messages", HELLO)
STREAMED = body_of("anthropic-messages", HELLO, stream=True)
BUSY = b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}'


def varied(*texts: str) -> list[Script]:
    return [whole(CLAUDE.answer(text)) for text in texts]


def texts_of(got: Sequence[Got]) -> list[str]:
    return [str(one.json["content"][0]["text"]) for one in got]


def ask_often(run: Run, count: int, **options: Any) -> list[Got]:
    return [ask(run, "POST", MESSAGES, ASKED, **options) for _ in range(count)]


def answers_in(root: Path) -> list[str]:
    store = Store.open(root)
    return [one.text for one in store.get(*store.key(HELLO)).answers]


@pytest.mark.parametrize("mode", ["once", "record"])
def test_four_workers_get_one_answer_and_any_order_of_replay_is_good(tmp_path: Path, mode: str) -> None:
    async def at_once(run: Run) -> list[Got]:
        return await asyncio.gather(*(answer(run, "POST", MESSAGES, ASKED) for _ in range(4)))

    with (
        serving_in_thread(*varied("six", "two", "five", "one")) as provider,
        run_over(tmp_path, mode, provider.url) as run,
    ):
        recorded = asyncio.run(at_once(run))
        ledger = run.ledger
        assert (ledger.live, ledger.recorded, ledger.hits, ledger.repeated) == (1, 1, 3, 3)
        assert len(provider.received) == 1
    with run_over(tmp_path) as run:
        replayed = [*ask_often(run, 5), *ask_often(run, 2, scope="a")]
        assert (run.ledger.hits, run.ledger.repeated) == (7, 0)

    assert {*texts_of(recorded), *texts_of(replayed)} == {"six"}
    assert answers_in(tmp_path) == ["six"]


def test_whoever_asks_during_a_stream_gets_all_of_it(tmp_path: Path) -> None:
    events = CLAUDE.events("Hello ", "there")

    async def both(run: Run, go_on: asyncio.Event) -> tuple[bytes, Got]:
        async with open_call(run, "POST", MESSAGES, STREAMED) as first:
            assert first.live is not None
            pieces = [await anext(first.live)]
            second = asyncio.ensure_future(answer(run, "POST", MESSAGES, STREAMED))
            await asyncio.sleep(0)
            assert not second.done()
            go_on.set()
            pieces += [piece async for piece in first.live]
        return b"".join(pieces), await second

    async def held(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.piece(events[0])
        while not released.is_set():
            await asyncio.sleep(0.005)
        for event in events[1:]:
            await exchange.piece(event)
        await exchange.end_stream()

    released = asyncio.Event()
    with serving_in_thread(held) as provider, run_over(tmp_path, "once", provider.url) as run:
        first, second = asyncio.run(both(run, released))
        assert (len(provider.received), run.ledger.repeated) == (1, 1)

    assert first == second.body == b"".join(events)


@pytest.mark.parametrize("failure", [whole(BUSY, 529), hang_up, stream(CLAUDE.events("half")[:-1])])
def test_if_the_first_fails_the_next_asks(tmp_path: Path, failure: Script) -> None:
    with (
        serving_in_thread(failure, *varied("fine", "other")) as provider,
        run_over(tmp_path, "once", provider.url) as run,
    ):
        _, second, third = ask_often(run, 3)
        assert (run.ledger.live, run.ledger.failed, run.ledger.repeated) == (2, 1, 1)

    assert texts_of([second, third]) == ["fine", "fine"]
    assert answers_in(tmp_path) == ["fine"]


def test_a_new_recording_takes_the_place_of_all_that_was_there(tmp_path: Path) -> None:
    """Of yesterday's other answers, and of failures that came behind them."""
    before = [*varied("old"), whole(BUSY, 529), *varied("older")]
    with (
        serving_in_thread(*before) as provider,
        run_over(tmp_path, "once", provider.url, every_answer=True, record_failures=True) as run,
    ):
        ask_often(run, 3)
    with serving_in_thread(*varied("new")) as provider, run_over(tmp_path, "record", provider.url) as run:
        assert texts_of(ask_often(run, 3)) == ["new"] * 3
        assert run.ledger.live == 1
    with run_over(tmp_path) as run:
        replayed = ask_often(run, 3)

    assert texts_of(replayed) == ["new"] * 3
    assert answers_in(tmp_path) == ["new"]


@pytest.mark.parametrize("options", [{"every_answer": True}, {"scope": "test_one"}], ids=str)
def test_every_answer_is_kept_where_that_is_wanted(tmp_path: Path, options: dict[str, Any]) -> None:
    settings = {name: value for name, value in options.items() if name != "scope"}
    asked = {name: value for name, value in options.items() if name == "scope"}
    with (
        serving_in_thread(*varied("six", "two")) as provider,
        run_over(tmp_path, "once", provider.url, **settings) as run,
    ):
        recorded = texts_of(ask_often(run, 2, **asked))
        assert (run.ledger.live, run.ledger.repeated) == (2, 0)
    with run_over(tmp_path) as run:
        assert texts_of(ask_often(run, 2, **asked)) == recorded == ["six", "two"]


def test_a_store_with_several_answers_goes_on_as_it_was_recorded(tmp_path: Path) -> None:
    """A third call that got the first of two answers would miss in replay."""
    with (
        serving_in_thread(*varied("six", "two")) as provider,
        run_over(tmp_path, "once", provider.url, every_answer=True) as run,
    ):
        ask_often(run, 2)
    with serving_in_thread(*varied("five")) as provider, run_over(tmp_path, "once", provider.url) as run:
        assert texts_of(ask_often(run, 3)) == ["six", "two", "five"]
        assert (run.ledger.live, run.ledger.repeated) == (1, 0)
    with run_over(tmp_path) as run:
        assert texts_of(ask_often(run, 3)) == ["six", "two", "five"]


def test_answers_of_scopes_are_not_for_those_without_one(tmp_path: Path) -> None:
    """A test rolls thrice; others that ask the same outside of any test get the first roll, in any order."""
    with (
        serving_in_thread(*varied("six", "two", "five")) as provider,
        run_over(tmp_path, "once", provider.url) as run,
    ):
        assert texts_of(ask_often(run, 2)) == ["six", "six"]
        assert texts_of(ask_often(run, 3, scope="a")) == ["six", "two", "five"]
        assert texts_of(ask_often(run, 2, scope="b")) == ["six", "two"]
    for mode in ("replay", "once"):
        with run_over(tmp_path, mode) as run:
            assert texts_of(ask_often(run, 3, scope="a")) == ["six", "two", "five"]
            assert texts_of(ask_often(run, 2, scope="b")) == ["six", "two"]
            assert texts_of(ask_often(run, 2, scope="c")) == ["six"] * 2
            assert texts_of(ask_often(run, 4)) == ["six"] * 4
            assert run.ledger.live == 0


@pytest.mark.parametrize(
    ("second", "is_counted"),
    [(whole(CHAT.answer("six")), True), (whole(CHAT.answer("two")), False), (whole(BUSY, 529), False)],
    ids=["the same", "another", "none"],
)
def test_what_a_stream_did_not_count_is_asked_for_once(
    tmp_path: Path, second: Script, is_counted: bool
) -> None:
    """An answer that says something else is not given: there is one answer."""
    asked, streamed = (body_of("openai-chat", HELLO, stream=is_stream) for is_stream in (False, True))
    streamed["stream_options"] = {"include_usage": False}
    uncounted = re.split(rb"(?<=\n\n)", b"".join(CHAT.events("six")))
    with (
        serving_in_thread(stream([one for one in uncounted if b'"usage"' not in one]), second) as provider,
        run_over(tmp_path, "once", provider.url) as run,
    ):
        ask(run, "POST", COMPLETIONS, streamed)
        live = [ask(run, "POST", COMPLETIONS, asked) for _ in range(3)]
        assert len(provider.received) == 2
    with run_over(tmp_path) as run:
        replayed = [ask(run, "POST", COMPLETIONS, asked) for _ in range(3)]

    for got in (*live, *replayed):
        assert got.json["choices"][0]["message"]["content"] == "six"
        assert (got.json["usage"]["completion_tokens"] > 0) is is_counted


def test_an_answer_that_is_given_again_costs_nothing(tmp_path: Path) -> None:
    with (
        serving_in_thread(*varied("six")) as provider,
        run_over(tmp_path, "once", provider.url, budget_calls=1) as run,
    ):
        got = ask_often(run, 3)
        paid = run.ledger.prompt_tokens + run.ledger.completion_tokens
        assert run.ledger.replayed_tokens == 2 * paid > 0

    assert [one.status for one in got] == [200] * 3
