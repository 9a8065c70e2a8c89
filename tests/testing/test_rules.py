"""When a rule fits, and what it says."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from cortex_replay import (
    InvalidRequest,
    LlmError,
    LlmRequest,
    LlmResponse,
    ResponseParse,
    StreamChunk,
    Timeout,
    TokenUsage,
    ToolCall,
    ToolCallDelta,
    Transport,
    Upstream,
    blake3_hex,
)
from cortex_replay.testing import Reply, Rule, ScriptedAdapter, When
from tests.builder import ask

QUESTION = {"role": "user", "content": "How is the weather in Paris?"}
CALLS = [
    {"id": "a", "name": "get_weather", "arguments": {}},
    {"id": "b", "name": "calculate", "arguments": {}},
]
WEATHER_TOOL = {"name": "get_weather", "input_schema": {"type": "object"}}


def after(*results: str | None, calls: list[dict[str, Any]] = CALLS, **fields: Any) -> LlmRequest:
    """A conversation in which two tools were called, and those of the given ids have answered."""
    turns: list[dict[str, Any]] = [
        QUESTION,
        {"role": "assistant", "content": "", "tool_calls": calls, **fields},
    ]
    turns += [
        {"role": "tool", "content": f"result {i}", "tool_call_id": call_id}
        for i, call_id in enumerate(results, 1)
    ]
    return LlmRequest("m", messages=turns)


def fits(request: LlmRequest, **when: Any) -> bool:
    rules = [Rule(when=when, say="yes"), Rule(say="no")]
    return ScriptedAdapter(rules).sync.complete(request).text == "yes"


def answer(request: LlmRequest | str = "hi", **fields: Any) -> LlmResponse:
    """What a rule with these fields answers."""
    request = ask(request) if isinstance(request, str) else request
    return ScriptedAdapter([Rule(**fields)]).sync.complete(request)


def streamed(request: LlmRequest | str = "hi", **fields: Any) -> list[StreamChunk]:
    request = ask(request) if isinstance(request, str) else request
    return list(ScriptedAdapter([Rule(**fields)]).sync.stream(request))


@pytest.mark.parametrize(
    ("when", "does_fit"),
    [
        ({}, True),
        ({"contains": "weather"}, True),
        ({"contains": "Weather"}, False),
        ({"contains": ""}, True),
        ({"equals": "How is the weather?"}, True),
        ({"equals": "How is the weather"}, False),
        ({"matches": r"^How\b.*\?$"}, True),
        ({"matches": "(?i)WEATHER"}, True),
        ({"matches": "^weather"}, False),
        ({"model": "claude-*"}, True),
        ({"model": "claude-x-1"}, True),
        ({"model": "claude"}, False),
        ({"model": "Claude-*"}, False),
        ({"system_contains": "brief"}, True),
        ({"system_contains": "weather"}, False),
        ({"tool": "get_weather"}, True),
        ({"tool": "wrapped"}, True),
        ({"tool": "get"}, False),
        ({"after_tool": True}, False),
        ({"after_tool": False}, True),
        ({"after_tool": "get_weather"}, False),
        ({"json_schema": True}, False),
        ({"json_schema": False}, True),
        ({"contains": "weather", "tool": "get_weather", "model": "*"}, True),
        ({"contains": "weather", "tool": "other"}, False),
        ({"contains": "other", "tool": "get_weather"}, False),
    ],
)
def test_a_rule_fits_when_all_its_conditions_hold(when: dict[str, Any], does_fit: bool) -> None:
    """One by one, and together."""
    wrapped = {"type": "function", "function": {"name": "wrapped"}}
    request = LlmRequest(
        "claude-x-1", "Be brief.", "How is the weather?", tools=[WEATHER_TOOL, wrapped, "?", {"name": 5}]
    )

    assert fits(request, **when) is does_fit


@pytest.mark.parametrize("choice", ["none", {"type": "none"}])
def test_a_tool_that_must_not_be_called_is_not_offered(choice: object) -> None:
    """Though it stands in the request."""
    assert fits(LlmRequest("m", messages="hi", tools=[WEATHER_TOOL], tool_choice="auto"), tool="get_weather")
    request = LlmRequest("m", messages="hi", tools=[WEATHER_TOOL], tool_choice=choice)
    assert not fits(request, tool="get_weather")


def test_only_the_last_user_message_counts() -> None:
    """Whatever was said before, or by others after it."""
    turns = [
        QUESTION,
        {"role": "user", "content": "Never mind."},
        {"role": "assistant", "content": "weather"},
    ]
    request = LlmRequest("m", messages=turns)

    assert fits(request, equals="Never mind.")
    assert not fits(request, contains="weather")


@pytest.mark.parametrize("when", [{"contains": ""}, {"equals": ""}, {"matches": ""}])
def test_without_a_user_message_no_condition_on_it_holds(when: dict[str, str]) -> None:
    """Not even one that an empty message fulfils."""
    assert fits(ask(""), **when)
    assert not fits(LlmRequest("m"), **when)
    assert fits(LlmRequest("m"))


@pytest.mark.parametrize(
    ("request_after", "tool"),
    [
        (after("a"), "get_weather"),
        (after("a", "b"), "calculate"),
        (after("b", "a"), "get_weather"),
        (after(None), "get_weather"),
        (after(None, None), "calculate"),
        (after(None, None, None), None),
        (after("c"), None),
        (after("a", calls=[]), None),
        (after(None, calls=[]), None),
        (after("p", calls=[], parts=["?", {"type": "tool_use", "id": "p", "name": "f"}]), "f"),
    ],
)
def test_a_result_belongs_to_the_call_with_its_id_or_else_its_place(
    request_after: LlmRequest, tool: str | None
) -> None:
    """Some clients give no ids; a result that belongs to nothing is still a tool's."""
    assert fits(request_after, after_tool=True)
    assert not fits(request_after, after_tool=False)
    names = [name for name in ("get_weather", "calculate", "f") if fits(request_after, after_tool=name)]
    assert names == ([] if tool is None else [tool])


def test_a_result_may_belong_to_an_earlier_turn() -> None:
    """The id says so."""
    later = {"role": "assistant", "content": "", "tool_calls": [{"id": "z", "name": "later"}]}
    result = {"role": "tool", "content": "r", "tool_call_id": "a"}
    request = LlmRequest("m", messages=[*after("b").messages, later, result])

    assert fits(request, after_tool="get_weather")


def test_the_first_rule_that_fits_answers() -> None:
    """The order of a script is its meaning."""
    adapter = ScriptedAdapter([Rule(when={"contains": "b"}, say="1"), Rule(when={"contains": "a"}, say="2")])

    assert [adapter.sync.complete(ask(text)).text for text in ("a", "ab", "b")] == ["2", "1", "1"]


def test_an_answer_has_all_its_fields() -> None:
    """From what the rule says, and from the request."""
    assert answer("How are you?", say="Fine, thanks.", think="Hm.") == LlmResponse(
        text="Fine, thanks.",
        parsed_json=None,
        model="test-model",
        usage=TokenUsage(3, 3),
        raw_hash=blake3_hex(b"Fine, thanks."),
        finish_reason="stop",
        tool_calls=(),
        reasoning="Hm.",
    )


def test_what_a_rule_gives_is_not_made_up() -> None:
    """Finish reason, usage and ids."""
    response = answer(
        call=[{"id": "x", "name": "f"}, ToolCall(name="g")],
        finish_reason="length",
        usage={"prompt_tokens": 7, "completion_tokens": 8, "cached_tokens": 3},
    )

    assert response.finish_reason == "length"
    assert response.usage == TokenUsage(7, 8, 3)
    assert response.tool_calls == (
        ToolCall(id="x", name="f", arguments={}),
        ToolCall(id="call_1", name="g", arguments=None),
    )


def test_a_single_call_needs_no_list() -> None:
    """In Python and in a file."""
    one = answer(call={"name": "f", "arguments": {"a": [1]}})

    assert one == answer(call=ToolCall(name="f", arguments={"a": [1]})) == answer(call=[one.tool_calls[0]])
    assert one.finish_reason == "tool_calls"


def test_calls_are_numbered_through_the_conversation() -> None:
    """No id comes twice in it, whoever gave the others."""
    calls = [{"id": "call_1", "name": "f"}, {"id": "x", "name": "f"}]
    request = after("call_3", "x", calls=calls)

    made = answer(request, call=[{"name": "f"}, {"name": "f", "id": "call_4"}, {"name": "f"}]).tool_calls
    assert [call.id for call in made] == ["call_2", "call_4", "call_5"]


def test_a_stream_gives_reasoning_then_text_then_calls() -> None:
    """A call as its name, then its arguments in pieces; the last chunk has everything."""
    *chunks, last = streamed(
        think="Let me see.",
        say="One moment.",
        call=[{"name": "f", "arguments": {"city": "Paris, France"}}, {"name": "g"}],
    )

    assert chunks == [
        StreamChunk("", reasoning="Let"),
        StreamChunk("", reasoning=" me"),
        StreamChunk("", reasoning=" see."),
        StreamChunk("One"),
        StreamChunk(" moment."),
        StreamChunk("", tool_calls=(ToolCallDelta(0, "call_1", "f"),)),
        StreamChunk("", tool_calls=(ToolCallDelta(0, arguments='{"city":"Par'),)),
        StreamChunk("", tool_calls=(ToolCallDelta(0, arguments='is, France"}'),)),
        StreamChunk("", tool_calls=(ToolCallDelta(1, "call_2", "g"),)),
        StreamChunk("", tool_calls=(ToolCallDelta(1, arguments="{}"),)),
    ]
    assert last.response is not None
    assert last == StreamChunk("", "tool_calls", response=last.response)
    pieces = [piece for chunk in chunks for piece in chunk.tool_calls]
    assert ToolCallDelta.join(pieces) == last.response.tool_calls


def test_chunks_are_streamed_exactly() -> None:
    """Also those with no text in them."""
    chunks = streamed(chunks=["He", "", "llo {model}"])

    assert [chunk.delta for chunk in chunks] == ["He", "", "llo test-model", ""]
    assert answer(chunks=["He", "llo"]).text == "Hello"
    assert answer(chunks=[]).text == ""


def test_an_empty_text_is_an_answer() -> None:
    """A model may have nothing to say."""
    assert [chunk.finish_reason for chunk in streamed(say="")] == ["stop"]


def test_a_json_answer_is_compact_and_in_its_order() -> None:
    """It is parsed where a schema asks for it, and only there."""
    json = {"b": [1, 2.5, True], "a": "{last_user}"}
    request = ask('say "hi"', json_schema={"type": "object", "required": ["a"]})

    assert answer("x", json=json).text == '{"b":[1,2.5,true],"a":"x"}'
    assert answer("x", json=json).parsed_json is None
    assert answer(request, json=json).parsed_json == {"b": [1, 2.5, True], "a": 'say "hi"'}
    assert streamed(request, json=json)[-1].response == answer(request, json=json)


@pytest.mark.parametrize("value", [False, 0, "", {}, []])
def test_a_json_answer_may_be_anything_but_null(value: object) -> None:
    """Falsehoods included."""
    assert answer(ask("x", json_schema=True), json=value).parsed_json == value


@pytest.mark.parametrize(
    ("say", "why"), [("plain words", "is not JSON"), ('{"a": 5}', "breaks the schema at a")]
)
def test_an_answer_that_breaks_the_schema_is_no_answer(say: str, why: str) -> None:
    """As from a live model: a stream gives its pieces first."""
    request = ask("x", json_schema={"properties": {"a": {"type": "string"}}})
    with pytest.raises(ResponseParse, match=why):
        answer(request, say=say)

    chunks = ScriptedAdapter([Rule(say=say)]).sync.stream(request)
    assert "".join(next(chunks).delta for _ in range(2)) == say
    with pytest.raises(ResponseParse, match=why):
        next(chunks)


def test_a_call_of_a_tool_needs_no_json() -> None:
    """The answer comes in a later turn."""
    assert answer(ask("x", json_schema={"type": "object"}), call={"name": "f"}).parsed_json is None


@pytest.mark.parametrize(
    ("settings", "field"),
    [({"json_schema": {"type": "none"}}, "json_schema"), ({"extra": {"n": 2}}, "extra.n")],
)
def test_what_no_adapter_takes_is_refused(settings: dict[str, Any], field: str) -> None:
    """Before any rule is looked at."""
    with pytest.raises(InvalidRequest) as caught:
        answer(ask("hi", **settings), say="hi")

    assert caught.value.field == field


def test_places_are_filled_in() -> None:
    """In every text of an answer, and in no name."""
    rule: dict[str, Any] = {
        "when": {"matches": r"(?P<what>\w+) in (?P<city>\w+)(?P<more> now)?"},
        "think": "{what}?",
        "say": "{model}: {last_tool} [{more}]",
        "call": {"name": "{model}", "arguments": {"{city}": ["{city}", 5, {"x": "{last_user}"}]}},
    }
    response = answer(after("a"), **rule)

    assert response.reasoning == "weather?"
    assert response.text == "m: result 1 []"
    (call,) = response.tool_calls
    assert call.name == "{model}"
    assert call.arguments == {"{city}": ["Paris", 5, {"x": "How is the weather in Paris?"}]}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{last_user}{last_user}", "{model}{model}"),  # what is filled in is not filled in again
        ("{{model}}", "{model}"),
        ("{{{model}}}", "{{model}}"),
        ("{{model}", "{test-model"),
        ("{model}}", "test-model}"),
        ('{"a": {"model": 1}}', '{"a": {"model": 1}}'),
        ("{other} {} {0} {model.x} {model!r} { model }", "{other} {} {0} {model.x} {model!r} { model }"),
        ("{{other}} {__class__} %(model)s $model", "{{other}} {__class__} %(model)s $model"),
        ("{last_tool}.", "."),
    ],
)
def test_every_other_brace_stays_as_it_is(text: str, filled: str) -> None:
    """A template is neither a program nor a format."""
    assert answer("{model}", say=text).text == filled


def test_what_was_answered_is_the_callers_own() -> None:
    """Changing it does not change the next answer."""
    adapter = ScriptedAdapter([Rule(call={"name": "f", "arguments": {"list": [1]}})]).sync
    for _ in range(2):
        (call,) = adapter.complete(ask("hi")).tool_calls
        assert call.arguments == {"list": [1]}
        call.arguments["list"].append(2)  # type: ignore[union-attr]


def test_a_rule_keeps_its_own_copy_of_what_it_was_made_of() -> None:
    """It is a frozen value."""
    arguments = {"list": [1]}
    rule = Rule(call={"name": "f", "arguments": arguments})
    arguments["list"].append(2)

    assert rule.call[0].arguments == {"list": [1]}
    assert rule == Rule(call={"name": "f", "arguments": {"list": [1]}})


def test_a_scripted_error_is_upstreams() -> None:
    """With its status, message and word; whole and streamed."""
    error = {"status": 529, "message": "overloaded", "type": "overloaded_error"}
    for ask_it in (answer, streamed):
        with pytest.raises(Upstream) as caught:
            ask_it(error=error)
        assert caught.value.args == (529, "overloaded", "overloaded_error")
    with pytest.raises(Upstream) as caught:
        answer(error={"status": 500})
    assert caught.value.args == (500, "", None)


def test_in_python_an_error_may_be_any_of_ours() -> None:
    """A new one for each call, or they would carry each other's traces."""
    rule = Rule(error=Transport("connection reset"))
    adapter = ScriptedAdapter([rule]).sync
    raised: list[LlmError] = []
    for _ in range(2):
        with pytest.raises(Transport, match="connection reset") as caught:
            adapter.complete(ask("hi"))
        raised.append(caught.value)

    assert raised[0] is not raised[1]
    assert rule.error is not None
    assert rule.error.__traceback__ is None


def test_a_stream_with_an_error_breaks_after_its_pieces() -> None:
    """Its whole counterpart is the error alone."""
    rule = Rule(think="Hm.", say="half an", error={"status": 200, "message": "broken"})
    chunks = ScriptedAdapter([rule]).sync.stream(ask("hi"))

    assert [next(chunks) for _ in range(3)] == [
        StreamChunk("", reasoning="Hm."),
        StreamChunk("half"),
        StreamChunk(" an"),
    ]
    with pytest.raises(Upstream):
        next(chunks)
    with pytest.raises(Upstream):
        ScriptedAdapter([rule]).sync.complete(ask("hi"))


def test_a_delay_is_waited_for() -> None:
    """Before each chunk; a whole answer waits as long."""
    start = time.monotonic()
    streamed(say="one two", delay_ms=10)
    middle = time.monotonic()
    answer(say="one two", delay_ms=10)

    assert middle - start >= 0.03
    assert time.monotonic() - middle >= 0.03


def test_an_answer_that_takes_too_long_times_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream gives what is in time first. Nothing is waited for in vain."""
    rule = Rule(say="one two three", delay_ms=60_000)
    request = ask("hi", timeout_ms=200_000)
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "sleep", lambda seconds: pytest.fail(f"slept for {seconds}"))
        with pytest.raises(Timeout) as caught:
            ScriptedAdapter([rule]).sync.complete(request)
        assert caught.value.timeout_ms == 200_000
        with pytest.raises(Timeout):
            streamed(ask("hi", timeout_ms=59_999), say="hi", delay_ms=60_000)

    chunks = ScriptedAdapter([Rule(say="one two three", delay_ms=2)]).sync.stream(ask("hi", timeout_ms=5))
    assert [next(chunks).delta for _ in range(2)] == ["one", " two"]
    with pytest.raises(Timeout):
        next(chunks)


def test_the_last_chunk_takes_its_time_too() -> None:
    """A budget that is spent to the last millisecond is kept."""
    assert answer(ask("hi", timeout_ms=3), say="one two", delay_ms=1).text == "one two"
    with pytest.raises(Timeout):
        answer(ask("hi", timeout_ms=2), say="one two", delay_ms=1)


def test_without_delays_there_is_nothing_to_time() -> None:
    """Not even with no time at all."""
    assert answer(ask("hi", timeout_ms=0), say="one two").text == "one two"


def test_an_error_that_comes_too_late_is_a_timeout() -> None:
    """What comes first counts."""
    with pytest.raises(Timeout):
        answer(ask("hi", timeout_ms=5), error={"status": 500}, delay_ms=6)


def test_others_run_between_two_chunks() -> None:
    """A stream is never one leap, even without delays."""

    async def run() -> list[str]:
        seen: list[str] = []

        async def read(name: str) -> None:
            async for chunk in ScriptedAdapter([Rule(say="1 2 3")]).stream(ask("hi")):
                word = chunk.delta.strip()
                seen.append(name + word)

        await asyncio.gather(read("a"), read("b"))
        return seen

    assert asyncio.run(run()) == ["a1", "b1", "a2", "b2", "a3", "b3", "a", "b"]


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({}, "say", "nothing is said"),
        ({"when": {"contains": "x"}, "delay_ms": 5}, "say", "nothing is said"),
        ({"answers": []}, "say", "nothing is said"),
        ({"answers": [{}]}, "answers[0].say", "nothing is said"),
        ({"say": 5}, "say", "expected text, not a int"),
        ({"say": "\ud800"}, "say", "half of a surrogate pair"),
        ({"say": "x", "chunks": ["x"]}, "chunks", "stands beside say"),
        ({"chunks": ["x"], "json": {}}, "json", "stands beside chunks"),
        ({"chunks": "abc"}, "chunks", "expected a list"),
        ({"chunks": ["a", 5]}, "chunks[1]", "expected text"),
        ({"json": {"a": {1}}}, "json.a", "expected a JSON value"),
        ({"json": float("nan")}, "json", "must be finite"),
        ({"think": ["x"]}, "think", "expected text"),
        ({"call": "f"}, "call", "expected a list"),
        ({"call": [5]}, "call[0]", "expected a ToolCall or an object"),
        ({"call": [{"arguments": {}}]}, "call[0]", "lacks name"),
        ({"call": {"name": "f", "args": {}}}, "call[0].args", "there is no such field"),
        ({"finish_reason": True}, "finish_reason", "expected text"),
        ({"error": "overloaded"}, "error", "expected an object"),
        ({"error": {"message": "m"}}, "error", "lacks status"),
        ({"error": {"status": "500"}}, "error.status", "expected a whole number"),
        ({"error": {"status": 1000}}, "error.status", "at most 999"),
        ({"error": {"status": 500, "kind": "x"}}, "error.kind", "there is no such field"),
        ({"say": "x", "delay_ms": 1.5}, "delay_ms", "expected a whole number"),
        ({"say": "x", "delay_ms": -1}, "delay_ms", "must not be negative"),
        ({"say": "x", "usage": 5}, "usage", "expected an object"),
        ({"say": "x", "usage": {"prompt_tokens": 1}}, "usage", "lacks completion_tokens"),
        ({"answers": "abc"}, "answers", "expected a list"),
        ({"answers": [5]}, "answers[0]", "expected an object"),
        ({"answers": ["a", {"say": 5}]}, "answers[1].say", "expected text"),
        ({"answers": [{"say": "x", "when": {}}]}, "answers[0].when", "there is no such field"),
        ({"answers": [Rule(say="x")]}, "answers[0]", "expected an object"),
        ({"answers": ["a"], "say": "x"}, "say", "stands beside answers"),
        ({"answers": ["a"], "delay_ms": 5}, "delay_ms", "stands beside answers"),
        ({"say": "x", "exhaust": True}, "exhaust", "only answers can be exhausted"),
        ({"answers": ["a"], "exhaust": 1}, "exhaust", "expected true or false"),
        ({"say": "x", "when": "hi"}, "when", "expected an object"),
        ({"say": "x", "when": {"contain": "x"}}, "when.contain", "there is no such field"),
        ({"say": "x", "when": {"contains": ["x"]}}, "when.contains", "expected text"),
        ({"say": "x", "when": {"matches": "("}}, "when.matches", "is not a regular expression: missing )"),
        ({"say": "x", "when": {"matches": "(?P<model>x)"}}, "when.matches", "cannot be named model"),
        ({"say": "x", "when": {"after_tool": 1}}, "when.after_tool", "expected true, false or the name"),
        ({"say": "x", "when": {"json_schema": {}}}, "when.json_schema", "expected true or false"),
        ({"say": "x", "when": {"turn": 0}}, "when.turn", "is counted from 1"),
        ({"say": "x", "when": {"turn": True}}, "when.turn", "expected a whole number"),
    ],
)
def test_a_bad_rule_is_refused_by_its_field(fields: dict[str, Any], field: str, reason: str) -> None:
    """When it is made, not when it is met."""
    with pytest.raises(InvalidRequest) as caught:
        Rule(**fields)

    assert (caught.value.field, reason in caught.value.reason) == (field, True), caught.value


def test_a_rule_takes_values_as_well_as_plain_ones() -> None:
    """They are the same rule."""
    usage = TokenUsage(1, 2)
    made = Rule(when=When(contains="x", turn=2), answers=[Reply(say="a", usage=usage), Reply(say="b")])

    assert made == Rule(
        when={"contains": "x", "turn": 2},
        answers=[{"say": "a", "usage": {"prompt_tokens": 1, "completion_tokens": 2}}, "b"],
    )


def test_a_reply_must_say_something() -> None:
    """As a rule must."""
    with pytest.raises(InvalidRequest, match="nothing is said"):
        Reply(delay_ms=5)
