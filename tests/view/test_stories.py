"""Stories as documents: what led to what, and what is new in each request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.history.calls import HistoryCall, read_calls
from cortex_replay.history.mcp_calls import read_mcp_calls
from cortex_replay.history.story import tell_story
from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheOutcome
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Answer, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import FixtureKey, TimedChunk
from cortex_replay.types import LlmMessage, LlmRequest, StreamChunk, TokenUsage, ToolCall
from cortex_replay.view.documents.cache_steps import segments_of
from cortex_replay.view.documents.cutter import Cutter
from cortex_replay.view.documents.stories import StoryTeller, failures_before
from cortex_replay.view.shapes import Spent, StoryDocument, StoryStep
from cortex_replay.view.threads import threads_of
from tests import linked
from tests.engine.mcp import scenario
from tests.history.recordings import Recording, record

SECRET = "violet-otter-93-sings-in-the-harbour"
"""It is known by its value only: the half of it looks like nothing."""


def spent_of(calls: Sequence[tuple[str, TokenUsage | None]]) -> Spent:
    counted = [usage for _, usage in calls if usage is not None]
    return {
        "prompt": sum(usage.prompt_tokens for usage in counted),
        "completion": sum(usage.completion_tokens for usage in counted),
        "cached": 0,
        "cache_write": 0,
    }


def name_of(path: str) -> str:
    return path.rsplit("/", 1)[-1].removesuffix(".json")


def tell(root: Path, **more: Any) -> StoryDocument:
    store = Store.open(root)
    calls = read_calls(store).calls
    told = tell_story(calls, read_mcp_calls(store))
    cut = Cutter(Redactor([SECRET]))
    return StoryTeller(cut, name_of, spent_of, threads_of(calls), **more).tell("s", "a run", told)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> StoryDocument:
    made = tmp_path_factory.mktemp("agent")
    asyncio.run(scenario.record(made))
    return tell(made)


def test_steps_name_each_other_by_their_places(agent: StoryDocument) -> None:
    handshake, asks, reads, sampled, says = agent["steps"]

    assert [step["number"] for step in agent["steps"]] == [1, 2, 3, 4, 5]
    assert [step["kind"] for step in agent["steps"]] == ["mcp", "model", "mcp", "model", "model"]
    assert (handshake["caused_by"], reads["caused_by"], sampled["caused_by"]) == (None, 2, 3)
    read, local = asks["tools"]
    assert (read["made"], read["made_in"], read["result_in"], read["is_certain"]) == (
        reads["id"],
        3,
        5,
        True,
    )
    assert (local["made"], local["made_in"], local["result_in"]) == (None, None, None)
    assert says["tools"] == []


def test_a_step_says_what_is_new_and_what_came_of_it(agent: StoryDocument) -> None:
    _, asks, reads, _, says = agent["steps"]

    assert (asks["what"], asks["finish_reason"]) == (scenario.QUESTION, "tool_calls")
    assert asks["tools"][0]["arguments"] == 'path="a.txt"'
    assert (reads["what"], reads["said"], reads["is_error"]) == (
        'read_short(path="a.txt")',
        "result: a greeting",
        False,
    )
    assert (says["what"], says["said"]) == ("1 tool result", "It says: a greeting")


def test_a_step_has_exactly_its_shape(agent: StoryDocument) -> None:
    assert agent.keys() == StoryDocument.__annotations__.keys()
    assert {frozenset(step) for step in agent["steps"]} == {frozenset(StoryStep.__annotations__)}


def test_a_secret_is_gone_before_a_line_is_cut(tmp_path: Path) -> None:
    long = f"{'x ' * 140}{SECRET} and {'more ' * 20}"
    body = "".join(f"{'MIIEvQIBADANBgkqhkiG9w0BAQ' * 2}\n" for _ in range(9))
    key = f"Your key:\n-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\n"
    calls = (ToolCall(name="keep", arguments={"text": long}),)
    record(tmp_path, Recording(0, turns=[long], answer=Answer(key, tool_calls=calls)))
    (step,) = tell(tmp_path)["steps"]

    assert "violet" not in step["what"]
    assert (step["what"][-1], len(step["what"])) == ("…", 300)
    assert "violet" not in step["tools"][0]["arguments"]
    assert "MIIE" not in step["said"]


def test_where_a_cache_broke_is_said_with_its_reason(tmp_path: Path) -> None:
    rules, long = "Rule. " * 2000, "Answer in short. " * 800
    first = {"clock": "It is 9:00.", "rules": rules}
    later = {"clock": "It is 9:01.", "rules": rules}
    usage = TokenUsage(6000, 10, cached_tokens=0, cache_write_tokens=5900)
    again = replace(usage, cached_tokens=5900, cache_write_tokens=0)
    marks = [("system", 2)]
    record(
        tmp_path,
        Recording(0, first, [long], usage, marks),
        Recording(9, first, [f"{long} Again?"], again, marks),
        Recording(19, later, [long], usage, marks),
    )
    made, read, broke = (step["cache"] for step in tell(tmp_path)["steps"])

    assert made is not None
    assert read is not None
    assert broke is not None
    assert (made["read"], made["written"], made["broke_at"]) == (0, 5900, None)
    assert (read["read"], read["share"], read["broke_at"]) == (5900, round(5900 / 6000, 4), None)
    assert broke["broke_at"] == "block 'clock'"
    assert broke["why"][0].startswith("block 'clock' changed: ")
    assert broke["lost"] > 1000
    states = [(block["name"], block["state"]) for block in read["blocks"]]
    assert states[:2] == [("block 'clock'", "read"), ("block 'rules'", "read")]
    assert states[-1] == ("turn 1 (user)", "fresh")
    assert [block["mark"] for block in read["blocks"]][:2] == ["", "5m"]
    assert sum(block["tokens"] for block in read["blocks"]) == 6000


def block(
    name: str, tokens: int, marker: CachePolicy = CachePolicy.NONE, place: Place = Place.MESSAGES
) -> CacheBlock:
    return CacheBlock(name, place, name, tokens, marker)


def shown(blocks: list[CacheBlock], outcome: CacheOutcome | None) -> list[tuple[str, int, str, str]]:
    return [(one["name"], one["tokens"], one["state"], one["mark"]) for one in segments_of(blocks, outcome)]


def test_blocks_are_cut_where_the_cache_ends_and_joined_up_to_a_marker() -> None:
    five = CachePolicy.EPHEMERAL_5M
    system = block("system text", 10, place=Place.SYSTEM)
    turns = [block("t1", 5), block("t2", 5, five), block("t3", 4), block("t4", 4), block("t5", 2)]

    assert shown([system, *turns], CacheOutcome(read=20, write_5m=6, fresh=4)) == [
        ("system text", 10, "read", ""),
        ("t1 to t2", 10, "read", "5m"),
        ("t3 to t4", 6, "written", ""),
        ("t4 to t5", 4, "fresh", ""),
    ]
    assert shown([system], CacheOutcome(read=3, fresh=7)) == [
        ("system text", 3, "read", ""),
        ("system text", 7, "fresh", ""),
    ]
    assert shown([system, *turns[:1]], None) == [("system text", 10, "", ""), ("t1", 5, "", "")]
    assert shown([block("t1", 0)], CacheOutcome()) == [("t1", 0, "read", "")]
    assert shown([block("t1", 9)], CacheOutcome(read=99)) == [("t1", 9, "read", "")]


def test_very_many_blocks_become_few() -> None:
    tools = [block(f"tool {n}", 1, place=Place.TOOLS) for n in range(50)]

    assert shown(tools, CacheOutcome(read=30, fresh=20)) == [
        ("tool 0 to tool 29", 30, "read", ""),
        ("tool 30 to tool 49", 20, "fresh", ""),
    ]


def test_a_prompt_that_asks_for_no_cache_breaks_none(tmp_path: Path) -> None:
    """But what it could have read is said."""
    long, usage = "Answer in short. " * 2000, TokenUsage(6000, 10, cached_tokens=0)
    turns = [long, "Yes.", "And now?"]
    record(tmp_path, Recording(0, turns=turns[:1], usage=usage), Recording(5, turns=turns, usage=usage))
    _, step = tell(tmp_path)["steps"]

    assert step["cache"] is not None
    assert step["cache"]["broke_at"] is None
    assert "no marker" in " ".join(step["cache"]["why"])


_CHUNK = '{"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, %s}]}'
STREAM: dict[str, Any] = {
    "protocol": "openai-chat",
    "stream": True,
    "status": 200,
    "headers": {"content-type": "text/event-stream"},
    "events": [
        {"at_ms": at_ms, "text": f"data: {data}\n\n"}
        for at_ms, data in (
            (1, _CHUNK % '"delta": {"content": "Yes."}'),
            (60, _CHUNK % '"delta": {}, "finish_reason": "stop"'),
            (125, "[DONE]"),
        )
    ],
}
STREAMED = Answer("Yes.", finish_reason="stop", wire=STREAM)


@pytest.mark.parametrize(
    ("recording", "took"),
    [
        (Recording(0.6, answer=STREAMED, meta={"answered_ms": 4}), 129),
        (Recording(0.6, answer=STREAMED), 125),
        (Recording(0.6, meta={"answered_ms": 40}), 40),
        (Recording(0.6, answer=Answer("Yes.", stream=(TimedChunk(90, StreamChunk("Yes.", "stop")),))), 90),
        (Recording(0.9, meta={"answered_ms": 40, "recorded_at": "2026-11-16T06:30:27Z"}), 2100),
        (Recording(0.9, meta={"recorded_at": "2026-11-16T06:30:24Z"}), None),
    ],
    ids=["events", "events alone", "whole", "chunks", "recorded later", "in the same second"],
)
def test_a_call_lasts_until_its_answer_is_whole(
    tmp_path: Path, recording: Recording, took: int | None
) -> None:
    """A stream, to its last event; the time of a recording has whole seconds only."""
    record(tmp_path, recording)
    (step,) = tell(tmp_path)["steps"]

    assert step["took_ms"] == took


def test_failures_stand_before_the_answer_that_followed(tmp_path: Path) -> None:
    record(tmp_path, Recording(0))
    key = FixtureKey("m", "0" * 64)
    body = '{"error": {"message": "Overloaded"}}'
    wire: Any = {"status": 529, "headers": {"content-type": "application/json"}, "body": body}
    failure = Exchange.failure(key, 1, wire)
    (step,) = tell(tmp_path, failures_of=lambda _: {1: failure, 3: failure})["steps"]

    assert [row["status"] for row in step["failures"]] == [529]
    assert "Overloaded" in step["failures"][0]["text"]


def test_failures_between_two_answers_are_those_of_the_second() -> None:
    failures = {place: Exchange({"status": place}) for place in (1, 3, 4, 6)}  # good: 2, 5

    assert [one.wire["status"] for one in failures_before(1, failures)] == [1]
    assert [one.wire["status"] for one in failures_before(2, failures)] == [3, 4]


def call(number: int, *texts: str, scopes: tuple[str, ...] = (), **more: Any) -> HistoryCall:
    """A call whose messages are one value where they are equal, as a history has them."""
    request = LlmRequest(
        "m", more.pop("system", ""), [MESSAGES.setdefault(t, LlmMessage("user", t)) for t in texts]
    )
    return HistoryCall(
        request=request,
        prompt_hash=request.prompt_hash(),
        path=f"{number}",
        answer=1,
        usage=None,
        ready=None,
        order=number,
        scopes=scopes,
        meta={},
        **{"at": float(number), "run": "r", **more},
    )


MESSAGES: dict[str, LlmMessage] = {}


def links(*calls: HistoryCall) -> list[tuple[str | None, int, bool]]:
    threads = threads_of(calls)
    return [(t.continues, t.before, t.goes_back) for t in (threads[one.path] for one in calls)]


def test_a_request_goes_on_from_the_longest_before_it() -> None:
    assert links(call(1, "a"), call(2, "a", "b", "c"), call(3, "a", "b", "c", "d")) == [
        (None, 0, False),
        ("1", 1, False),
        ("2", 3, False),
    ]


def test_another_way_from_a_turn_on_says_so() -> None:
    assert links(call(1, "a", "b", "c"), call(2, "a", "b", "d")) == [(None, 0, False), ("1", 2, True)]


def test_the_last_message_is_always_new() -> None:
    """The same question again would else be shown without a question."""
    assert links(call(1, "a", "b"), call(2, "a", "b", system="other")) == [(None, 0, False), ("1", 1, True)]


def test_only_what_is_in_all_stories_of_a_call_is_named() -> None:
    """Who reads one test, or a file with one run, has what is before."""
    both, one, none = ("t1", "t2"), ("t1",), ()

    assert links(call(1, "a", scopes=one), call(2, "a", "b", scopes=both)) == [(None, 0, False)] * 2
    assert links(call(1, "a", scopes=both), call(2, "a", "b", scopes=one))[1] == ("1", 1, False)
    assert links(call(1, "a", scopes=one), call(2, "a", "b", scopes=none))[1] == ("1", 1, False)
    assert links(call(1, "a"), call(2, "a", "b", run="other")) == [(None, 0, False)] * 2


def test_calls_without_a_time_go_on_from_shorter_ones() -> None:
    long, short = call(1, "a", "b", "c", at=None), call(2, "a", at=None)

    assert links(long, short) == [("2", 1, False), (None, 0, False)]


def test_a_long_system_text_stands_in_one_document() -> None:
    long = "You are brief. " * 100
    first, same, short = (call(1, "a", system=long), call(2, "b", system=long), call(3, "c", system="Hi"))
    threads = threads_of([first, same, short])

    assert [threads[path].system_in for path in "123"] == [None, "1", None]


@pytest.mark.parametrize("is_short", [False, True])
def test_a_store_that_holds_a_conversation_once_tells_the_same(tmp_path: Path, is_short: bool) -> None:
    root = linked.write_whole(tmp_path)
    if is_short:
        root = linked.make_short(root, tmp_path.parent / f"{tmp_path.name}-short")
    calls = read_calls(Store.open(root)).calls
    threads = threads_of(calls)
    of_test = [one for one in calls if one.scopes == (linked.TEST,)]
    by_path = {one.path: one for one in calls}

    assert [threads[one.path].before for one in of_test] == [0, 1, 3, 6, 0, 1, 3]
    for one in of_test:
        thread = threads[one.path]
        if thread.continues is not None:
            before = by_path[thread.continues].request.messages[: thread.before]
            assert before == one.request.messages[: thread.before]
            assert one.request.system == by_path[thread.system_in or ""].request.system
            assert one.request.tools == by_path[thread.tools_in or ""].request.tools
