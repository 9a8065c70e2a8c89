"""The story of a run: what led to what."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.history.calls import HistoryCall, read_calls
from cortex_replay.history.mcp_calls import Cause, McpCall, read_mcp_calls, stored_mcp_calls
from cortex_replay.history.runs import choose_calls
from cortex_replay.history.story import McpStep, Story, tell_story, tool_uses
from cortex_replay.modes import Mode
from cortex_replay.store import Answer, Store
from cortex_replay.types import LlmMessage, LlmRequest, ToolCall
from tests.engine.mcp import scenario
from tests.engine.mcp.harness import FakeServer, run_at


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("story")
    asyncio.run(scenario.record(made))
    return made


def story_in(root: Path) -> Story:
    store = Store.open(root)
    return tell_story(read_calls(store).calls, read_mcp_calls(store))


def test_calls_stand_in_order_with_what_caused_them(root: Path) -> None:
    story = story_in(root)

    assert [
        step.call.what if isinstance(step, McpStep) else f"model {step.number}" for step in story.steps
    ] == ["initialize", "model 1", 'read_short(path="a.txt")', "model 2", "model 3"]
    first, sampled, last = story.model_steps
    handshake, read = story.mcp_steps
    assert (handshake.caused_by, read.caused_by) == (None, 1)
    assert [(use.made, use.is_certain, use.result_in) for use in first.uses] == [
        (read.call, True, 3),
        (None, False, None),
    ]
    assert sampled.sampled_by is not None
    assert (sampled.sampled_by.made, sampled.sampled_by.request) == (read.call, 1)
    assert (first.sampled_by, last.sampled_by, last.uses) == (None, None, ())
    assert len(story.runs) == 1


def test_a_story_is_plain_values_for_a_program(root: Path) -> None:
    told = story_in(root).to_dict()

    assert [step["kind"] for step in told["steps"]] == ["mcp", "model", "mcp", "model", "model"]
    read = told["steps"][2]
    assert (read["caused_by"], read["cause"]["tool_call"], read["tool"]) == (1, 1, "read_short")
    assert [next(name for name in said if name != "at_ms") for said in read["messages"]] == [
        "notification",
        "request",
        "answer",
        "result",
    ]
    assert told["steps"][1]["tool_calls"][0]["made"]["key"] == read["key"]
    assert told["steps"][3]["sampled_by"] == {
        "server": "files",
        "key": read["key"],
        "path": read["path"],
        "answer": 1,
        "request": 1,
    }


def test_what_a_recording_caused_and_where_it_came_back(root: Path) -> None:
    store = Store.open(root)
    calls, every = read_calls(store).calls, read_mcp_calls(store)
    read, local = tool_uses(calls, every, calls[0].path)

    assert (read.use.made is not None, read.came_back) == (True, calls[2])
    assert (local.use.made, local.came_back) == (None, None)
    assert tool_uses(calls, every, calls[2].path) == []


def test_the_whole_run_replays_without_the_server(root: Path) -> None:
    """Both halves: a client that has a model answer a server's request gets what was recorded."""

    def nobody(_: dict[str, Any]) -> list[dict[str, Any]]:
        raise AssertionError

    run = run_at(root, Mode.REPLAY)

    assert asyncio.run(scenario.play(run, FakeServer(nobody))) == "It says: a greeting"
    assert (run.ledger.hits, run.ledger.misses) == (5, [])
    assert run.ledger.unused_calls(run.store) == []


def test_a_run_and_a_test_name_calls_of_both_kinds(root: Path) -> None:
    store = Store.open(root)
    calls: list[HistoryCall | McpCall] = [*read_calls(store).calls, *read_mcp_calls(store)]

    assert choose_calls(calls, ["latest"]) == calls


def model_call(
    number: int, *calls: ToolCall, messages: tuple[LlmMessage, ...] = (), text: str = ""
) -> HistoryCall:
    request = LlmRequest("m", "", [LlmMessage("user", f"question {number}"), *messages])
    return HistoryCall(
        request=request,
        prompt_hash=request.prompt_hash(),
        path=f"fixtures/{number}.json",
        answer=1,
        usage=None,
        at=float(number),
        ready=None,
        order=number,
        run="r",
        scopes=(),
        meta={},
        said=Answer(text, tool_calls=calls),
    )


def tool_call(
    at: float,
    cause: Cause | None = None,
    *,
    key: str = "k",
    server: str = "files",
    messages: tuple[dict[str, Any], ...] = (),
) -> McpCall:
    return McpCall(
        server=server,
        method="tools/call",
        parameters={"name": "read", "arguments": {"path": "a"}},
        key=key,
        path=f"exchanges/{key}.json",
        answer=1,
        messages=messages,
        at=at,
        run="r",
        scopes=(),
        cause=cause,
    )


READ = ToolCall(name="read", arguments={"path": "a"})


def uses_of(story: Story) -> list[tuple[McpCall | None, bool]]:
    return [(use.made, use.is_certain) for step in story.model_steps for use in step.uses]


def test_one_recording_stands_for_equal_calls() -> None:
    """Two equal calls with equal answers are stored once, with the first one's cause."""
    first, second = model_call(1, READ), model_call(2, READ)
    made = tool_call(1.5, Cause("m", first.prompt_hash, 1, 1))

    assert uses_of(tell_story([first, second], [made])) == [(made, True), (made, False)]


def test_a_tool_of_two_servers_is_nobody_s() -> None:
    calls = [tool_call(1.5, key="a"), tool_call(1.6, key="b", server="other")]

    assert uses_of(tell_story([model_call(1, READ)], calls)) == [(None, False)]


def test_a_cause_is_found_by_its_id_when_keys_were_made_anew() -> None:
    wish = ToolCall(id="call_7", name="read", arguments={"path": "a"})
    made = tool_call(1.5, Cause("m", "0" * 64, 1, 1, "call_7"))

    assert uses_of(tell_story([model_call(1, wish)], [made])) == [(made, True)]


def test_a_cause_that_is_another_s_by_now_is_none() -> None:
    """A call that is recorded anew with an equal answer keeps its file, and the cause that this names."""
    wish = ToolCall(id="call_7", name="write", arguments={"path": "a"})
    asked = model_call(1, wish)
    calls = [tool_call(1.5, Cause("m", asked.prompt_hash, 1, 1, "call_7"))]

    assert uses_of(tell_story([asked], calls)) == [(None, False)]


def test_a_result_is_found_without_an_id() -> None:
    again = (LlmMessage("assistant", "", tool_calls=[READ]), LlmMessage("tool", "text"))
    story = tell_story(
        [model_call(1, READ), model_call(2, messages=again), model_call(3, messages=again)], []
    )

    assert story.model_steps[0].uses[0].result_in == 2


def test_a_sampling_that_could_be_two_is_none() -> None:
    asked = {"messages": [{"role": "user", "content": {"type": "text", "text": "question 1"}}]}
    messages: tuple[dict[str, Any], ...] = (
        {"at_ms": 0, "request": {"method": "sampling/createMessage", "params": asked}},
        {"at_ms": 1, "answer": {"to": 1, "result": {"content": [{"type": "text", "text": "yes"}]}}},
    )
    call, other = model_call(1, text="yes"), model_call(2, text="yes")
    once = tell_story([call, other], [tool_call(0.5, messages=messages)])
    twice = tell_story(
        [call], [tool_call(0.5, messages=messages), tool_call(0.6, key="b", messages=messages)]
    )

    assert [step.sampled_by is not None for step in once.model_steps] == [True, False]
    assert twice.model_steps[0].sampled_by is None


def test_stored_calls_say_what_they_ask(root: Path) -> None:
    store = Store.open(root)
    found = stored_mcp_calls(store)

    assert sorted(call.what for call in found) == ["initialize", 'read_short(path="a.txt")']
    assert stored_mcp_calls(store, without={call.key for call in found}) == []


def test_steps_of_one_moment_stand_cause_before_effect() -> None:
    wish = ToolCall(id="c", name="read", arguments={"path": "a"})
    result = LlmMessage("tool", "text", tool_call_id="c")
    first, then = model_call(1, wish), replace(model_call(2, messages=(result,)), at=1.0)
    made = tool_call(1.0, Cause("m", first.prompt_hash, 1, 1))
    before = tool_call(1.0, key="b", server="other")

    steps = tell_story([first, then], [before, made]).steps
    assert [step.call for step in steps] == [before, first, made, then]
