"""Scripts as rules, functions and files, and what an adapter counts."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import (
    InvalidRequest,
    LlmRequest,
    LlmResponse,
    StreamChunk,
    Timeout,
    TokenUsage,
    ToolCall,
    Upstream,
)
from cortex_replay.testing import Reply, Rule, ScriptedAdapter, default_rules
from cortex_replay.testing.script import parse_rules
from tests.builder import ask
from tests.growth import grows_linearly

HI = ask("hi")
RESPONSE = LlmResponse("one two", None, "other", None, "hash")


def texts(adapter: ScriptedAdapter, *questions: str) -> list[str]:
    return [adapter.sync.complete(ask(question)).text for question in questions]


async def drained(chunks: AsyncIterator[StreamChunk]) -> LlmResponse:
    last = [chunk async for chunk in chunks][-1]
    assert last.response is not None
    return last.response


def test_its_name_is_a_constant() -> None:
    """Recordings carry it."""
    assert ScriptedAdapter.adapter_id == ScriptedAdapter().adapter_id == "scripted"


def test_several_answers_come_in_turn_and_the_last_one_again() -> None:
    """Counted per rule."""
    adapter = ScriptedAdapter([Rule(when={"contains": "a"}, answers=["1", "2"]), Rule(answers=["x", "y"])])

    assert texts(adapter, *"abababab") == ["1", "x", "2", "y", "2", "y", "2", "y"]


def test_answers_may_be_exhausted() -> None:
    """Then every further call is an error that names the rule."""
    adapter = ScriptedAdapter(
        [Rule(say="first", when={"equals": "?"}), Rule(answers=["1", "2"], exhaust=True)]
    )

    assert texts(adapter, "hi", "?", "hi") == ["1", "first", "2"]
    for _ in range(2):
        with pytest.raises(InvalidRequest, match='rule 2 has given all its 2 answers: "hi"') as caught:
            adapter.sync.complete(HI)
        assert caught.value.field == "messages"


def test_an_error_among_the_answers_takes_its_turn() -> None:
    """Or nobody would ever get past it."""
    adapter = ScriptedAdapter([Rule(answers=[{"error": {"status": 529}}, "fine"])])
    with pytest.raises(Upstream):
        adapter.sync.complete(HI)

    assert texts(adapter, "hi") == ["fine"]


def test_whole_and_streamed_calls_count_together() -> None:
    """Also a stream that is left early, from when it is first read."""
    adapter = ScriptedAdapter([Rule(answers=["1", "2 2", "3", "4"])])

    async def run() -> None:
        assert (await adapter.complete(HI)).text == "1"
        early = adapter.stream(HI)
        later = adapter.stream(HI)
        assert (await anext(early)).delta == "2"
        assert (await adapter.complete(HI)).text == "3"
        assert (await drained(later)).text == "4"

    asyncio.run(run())


def test_each_adapter_counts_for_itself() -> None:
    """Rules are values, which may be shared."""
    rules = [Rule(answers=["1", "2"])]

    assert (
        texts(ScriptedAdapter(rules), "hi", "hi") == texts(ScriptedAdapter(rules), "hi", "hi") == ["1", "2"]
    )


def test_a_rule_for_the_nth_call_fits_only_then() -> None:
    """Calls for which something else does not hold are not counted."""
    adapter = ScriptedAdapter([Rule(when={"contains": "a", "turn": 2}, say="second"), Rule(say="-")])

    assert texts(adapter, *"abaaba") == ["-", "-", "second", "-", "-", "-"]


def test_rules_for_the_first_calls_may_stand_one_after_another() -> None:
    """Each counts all the calls, and not only those that the others leave; the order does not matter."""
    rules = [Rule(when={"turn": turn}, say=str(turn)) for turn in (1, 2, 3)]

    assert texts(ScriptedAdapter([*rules, Rule(say="-")]), *"xxxx") == ["1", "2", "3", "-"]
    assert texts(ScriptedAdapter([*reversed(rules), Rule(say="-")]), *"xxxx") == ["1", "2", "3", "-"]
    assert texts(ScriptedAdapter([Rule(when={"contains": "a"}, say="-"), *rules]), *"axx") == ["-", "2", "3"]


def test_calls_from_tasks_and_threads_each_get_their_own_answer() -> None:
    """None is lost, and none is given twice, neither of several answers nor of several turns."""
    turns = [Rule(when={"contains": "turn", "turn": n}, say=f"t{n}") for n in range(1, 101)]
    answers = Rule(answers=[f"a{n}" for n in range(1, 1001)], exhaust=True)
    adapter = ScriptedAdapter([*turns, Rule(when={"contains": "turn"}, say="late"), answers])
    given: list[str] = []

    async def one(i: int) -> None:
        request = ask("turn" if i % 5 == 0 else "hi")
        answer = adapter.complete(request) if i % 2 else drained(adapter.stream(request))
        given.append((await answer).text)

    async def many() -> None:
        await asyncio.gather(*(one(i) for i in range(125)))

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    expected = [f"t{n}" for n in range(1, 101)] + ["late"] * 100 + [f"a{n}" for n in range(1, 801)]
    assert Counter(given) == Counter(expected)


def test_no_call_makes_the_next_one_slower() -> None:
    """Thousands are answered as quickly as the first."""

    async def ask_often(calls: int) -> None:
        adapter = ScriptedAdapter()
        for _ in range(calls):
            await adapter.complete(HI)

    assert grows_linearly(lambda: asyncio.run(ask_often(1000)), lambda: asyncio.run(ask_often(2000)))


@pytest.mark.parametrize(
    ("request_asked", "words"),
    [
        (HI, ['fits "hi" (model test-model)']),
        (ask("x" * 1000), [f'"{"x" * 57}..."']),
        (ask("two\n\n lines"), ['"two lines"']),
        (LlmRequest("m"), ["fits no user message (model m)"]),
        (ask("hi", tools=[{"name": "f"}, {"name": "g"}], json_schema={}), ["; tools f, g; with a schema)"]),
        (
            LlmRequest(
                "m",
                messages=[
                    {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "name": "f"}]},
                    {"role": "tool", "content": "r", "tool_call_id": "a"},
                ],
            ),
            ["after a result of f"],
        ),
        (LlmRequest("m", messages=[{"role": "tool", "content": "r"}]), ["after a result of some tool"]),
    ],
)
def test_when_no_rule_fits_the_error_says_in_short_what_was_asked(
    request_asked: LlmRequest, words: list[str]
) -> None:
    """So that one sees which rule is missing."""
    adapter = ScriptedAdapter([Rule(when={"equals": "something else"}, say="x")])
    for call in (adapter.sync.complete, lambda request: list(adapter.sync.stream(request))):
        with pytest.raises(InvalidRequest) as caught:
            call(request_asked)
        assert caught.value.field == "messages"
        assert str(caught.value).startswith("invalid request: messages: no rule of the script fits ")
        assert all(word in str(caught.value) for word in words), caught.value


def test_a_script_without_rules_answers_nothing() -> None:
    """For a test in which the model must not be asked."""
    with pytest.raises(InvalidRequest, match="no rule of the script fits"):
        ScriptedAdapter([]).sync.complete(HI)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("script.toml", "expected a list of rules, not a str"),
        ({"say": "x"}, "expected a list of rules, not a dict"),
        (["x"], "rule 1: expected a Rule or an object, not a str"),
        ([Rule(say="x"), {"say": 5}], "rule 2: say: expected text, not a int"),
        ([Rule(say="x"), {"sya": "x"}], "rule 2: sya: there is no such field"),
        ([Reply(say="x")], "rule 1: expected a Rule or an object, not a Reply"),
        ([{5: "x"}], "rule 1: (a field): there is no such field"),
    ],
)
def test_what_is_no_script_is_refused(script: Any, reason: str) -> None:
    """By the number of the rule and the name of the field."""
    with pytest.raises(InvalidRequest) as caught:
        ScriptedAdapter(script)

    assert (caught.value.field, caught.value.reason) == ("script", reason)


# Functions


def test_a_function_gets_the_request_and_says_a_text() -> None:
    """Which is taken as it is."""
    adapter = ScriptedAdapter(lambda request: f"{request.model} {{model}}")

    assert texts(adapter, "hi") == ["test-model {model}"]
    assert adapter.sync.complete(HI).usage == TokenUsage(1, 2)


def test_a_function_may_give_a_reply() -> None:
    """With anything that a rule could answer; places in it are not filled in."""
    reply = Reply(think="hm", chunks=["{mod", "el}"], call={"name": "f", "arguments": {"a": "{model}"}})
    adapter = ScriptedAdapter(lambda _: reply)
    response = adapter.sync.complete(HI)

    assert (response.text, response.reasoning) == ("{model}", "hm")
    assert response.tool_calls == (ToolCall(id="call_1", name="f", arguments={"a": "{model}"}),)
    assert [chunk.delta for chunk in adapter.sync.stream(HI)][1:3] == ["{mod", "el}"]


def test_a_function_may_give_a_whole_response() -> None:
    """Nothing is added but a reason to finish, where it has none."""
    adapter = ScriptedAdapter(lambda _: RESPONSE)

    assert adapter.sync.complete(HI) == dataclasses.replace(RESPONSE, finish_reason="stop")
    chunks = list(adapter.sync.stream(HI))
    assert [chunk.delta for chunk in chunks] == ["one", " two", ""]
    assert chunks[-1].response == adapter.sync.complete(HI)
    given = dataclasses.replace(RESPONSE, finish_reason="length")
    assert ScriptedAdapter(lambda _: given).sync.complete(HI) == given
    calling = dataclasses.replace(RESPONSE, tool_calls=(ToolCall(name="f"),))
    assert ScriptedAdapter(lambda _: calling).sync.complete(HI).finish_reason == "tool_calls"


def test_json_that_a_function_has_parsed_itself_is_kept() -> None:
    """And what it has not parsed is parsed."""
    request = ask("hi", json_schema={"type": "object"})
    parsed = dataclasses.replace(RESPONSE, parsed_json={"a": 1})

    assert ScriptedAdapter(lambda _: parsed).sync.complete(request).parsed_json == {"a": 1}
    raw = dataclasses.replace(RESPONSE, text='{"a": 2}')
    assert ScriptedAdapter(lambda _: raw).sync.complete(request).parsed_json == {"a": 2}


def test_a_function_may_be_async() -> None:
    """It is awaited in the caller's loop."""

    async def answer(request: LlmRequest) -> str:
        await asyncio.sleep(0)
        return request.messages[-1].content.upper()

    adapter = ScriptedAdapter(answer)
    assert texts(adapter, "hi") == ["HI"]
    assert [chunk.delta for chunk in adapter.sync.stream(HI)] == ["HI", ""]


def test_an_async_function_must_be_in_time() -> None:
    """A timeout of its own stays what it is."""

    async def late(_: LlmRequest) -> str:
        await asyncio.sleep(60)
        return "never"

    async def impatient(_: LlmRequest) -> str:
        raise TimeoutError("its own")

    with pytest.raises(Timeout) as caught:
        ScriptedAdapter(late).sync.complete(ask("hi", timeout_ms=10))
    assert caught.value.timeout_ms == 10
    with pytest.raises(TimeoutError, match="its own"):
        ScriptedAdapter(impatient).sync.complete(HI)


def test_what_a_function_raises_is_not_touched() -> None:
    """An assertion in it fails the test that asked."""

    def answer(request: LlmRequest) -> str:
        assert request.temperature == 0.0, "temperature"
        raise Upstream(429)

    adapter = ScriptedAdapter(answer)
    with pytest.raises(AssertionError, match="temperature"):
        adapter.sync.complete(HI)
    with pytest.raises(Upstream):
        adapter.sync.complete(ask("hi", temperature=0.0))


def test_a_function_may_have_no_answer() -> None:
    """Which is told as when no rule fits."""
    with pytest.raises(InvalidRequest, match='messages: the script has no answer to "hi"'):
        ScriptedAdapter(lambda _: None).sync.complete(HI)


@pytest.mark.parametrize(("told", "reason"), [(5, "gave a int, not a text, a Reply"), (b"x", "gave a bytes")])
def test_a_function_that_gives_something_else_is_told_so(told: Any, reason: str) -> None:
    """With what it gave, and what it may give."""
    with pytest.raises(InvalidRequest, match=f"script: the function {reason}"):
        ScriptedAdapter(lambda _: told).sync.complete(HI)


def test_a_text_that_no_answer_can_hold_is_refused() -> None:
    """As everywhere."""
    with pytest.raises(InvalidRequest, match="surrogate"):
        ScriptedAdapter(lambda _: "\ud800").sync.complete(HI)


# Files

EVERYTHING = r"""
[[rule]]
think = "t {b}"
say = "s {b}"
call = [{ name = "f", arguments = { x = 1, y = [true, 2.5], z = "{b}" } }, { name = "g", id = "mine" }]
finish_reason = "length"
delay_ms = 1
usage = { prompt_tokens = 1, completion_tokens = 2 }
[rule.when]
contains = "a"
equals = "abc"
matches = '(?P<b>b)'
model = "test-*"
system_contains = ""
tool = "f"
after_tool = false
json_schema = false
turn = 1

[[rule]]
exhaust = true
[[rule.answers]]
chunks = ["a", "b"]
[[rule.answers]]
json = { k = "{last_user}" }
[[rule.answers]]
error = { status = 529, message = "overloaded", type = "overloaded_error" }
"""


def test_a_file_says_everything_that_a_rule_can(tmp_path: Path) -> None:
    """With the same names."""
    path = tmp_path / "script.toml"
    path.write_text(EVERYTHING)
    adapter = ScriptedAdapter.from_file(path)
    request = ask("abc", tools=[{"name": "f"}])

    assert adapter.sync.complete(request) == LlmResponse(
        text="s b",
        parsed_json=None,
        model="test-model",
        usage=TokenUsage(1, 2),
        raw_hash=ScriptedAdapter([Rule(say="s b")]).sync.complete(HI).raw_hash,
        finish_reason="length",
        tool_calls=(
            ToolCall(id="call_1", name="f", arguments={"x": 1, "y": [True, 2.5], "z": "b"}),
            ToolCall(id="mine", name="g", arguments={}),
        ),
        reasoning="t b",
    )
    assert [chunk.delta for chunk in adapter.sync.stream(request)] == ["a", "b", ""]
    assert adapter.sync.complete(request).text == '{"k":"abc"}'
    with pytest.raises(Upstream, match="529 overloaded_error: overloaded"):
        adapter.sync.complete(request)
    with pytest.raises(InvalidRequest, match="rule 2 has given all its 3 answers"):
        adapter.sync.complete(request)


def test_a_file_gives_the_rules_that_its_fields_would() -> None:
    """Nothing is read in another way."""
    rules = parse_rules(b'[[rule]]\nsay = "x"\n[[rule]]\nwhen.turn = 2\nanswers = ["a", { say = "b" }]\n')

    assert rules == (Rule(say="x"), Rule(when={"turn": 2}, answers=["a", Reply(say="b")]))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no [[rule]] tables"),
        ("# nothing\n", "has no [[rule]] tables"),
        ("rule = 5", "expected a list of rules, not a int"),
        ('[rule]\nsay = "x"', "expected a list of rules, not a dict"),
        ("rule = [5]", "rule 1: expected a Rule or an object, not a int"),
        ('[[rules]]\nsay = "x"', "there is no such field as 'rules'; rules are [[rule]] tables"),
        (
            'version = 1\n[[rule]]\nsay = "x"',
            "there is no such field as 'version'; rules are [[rule]] tables",
        ),
        ("[[rule]]\nsay = ", "not TOML: Invalid value (at end of document)"),
        ('[[rule]]\nsay = "x"\n[[rule]]\nsay = "y"\nsya = "z"', "rule 2: sya: there is no such field"),
        ('[[rule]]\nsay = "x"\n[[rule]]\n', "rule 2: say: nothing is said: give one of "),
        (
            '[[rule]]\nsay = "x"\nwhen = { turn = "1" }',
            "rule 1: when.turn: expected a whole number, not a str",
        ),
        ('[[rule]]\nsay = "x"\nwhen = { regex = "" }', "rule 1: when.regex: there is no such field"),
        ("[[rule]]\njson = { at = 2024-01-01 }", "rule 1: json.at: expected a JSON value, not a date"),
        ("[[rule]]\njson = [inf]", "rule 1: json[0]: must be finite"),
        ('[[rule]]\ncall = [{ name = "f" }, { nam = "g" }]', "rule 1: call[1].nam: there is no such field"),
        ('[[rule]]\nanswers = ["a", { error = {} }]', "rule 1: answers[1].error: lacks status"),
        pytest.param("x = " + "[" * 10_000, "is nested more than 60 deep", id="deep"),
    ],
)
def test_a_bad_file_is_refused_by_rule_and_field(text: str, reason: str) -> None:
    """Rules are counted from one, as a person does."""
    with pytest.raises(InvalidRequest) as caught:
        parse_rules(text.encode())

    assert caught.value.field == "script"
    assert caught.value.reason.startswith(reason), caught.value


def test_a_file_is_utf_8(tmp_path: Path) -> None:
    """On every machine."""
    path = tmp_path / "script.toml"
    path.write_bytes('[[rule]]\nsay = "Grüße"'.encode())
    assert texts(ScriptedAdapter.from_file(str(path)), "hi") == ["Grüße"]

    path.write_bytes('[[rule]]\nsay = "Grüße"'.encode("latin-1"))
    with pytest.raises(InvalidRequest, match="script: not UTF-8 at byte 18"):
        ScriptedAdapter.from_file(path)


@pytest.mark.parametrize("name", ["missing.toml", ".", "a\0b"])
def test_a_file_that_cannot_be_read_is_an_error_of_ours(tmp_path: Path, name: str) -> None:
    """With its name and the system's words."""
    with pytest.raises(InvalidRequest) as caught:
        ScriptedAdapter.from_file(f"{tmp_path}/{name}")

    assert caught.value.field == "script"
    assert caught.value.reason.startswith(f"{tmp_path}/{name}: ")


# The default script

WEATHER = {"name": "get_weather"}
CALCULATE = {"name": "calculate"}


def after(question: str, tool: str, result: str) -> LlmRequest:
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "name": tool}]},
        {"role": "tool", "content": result, "tool_call_id": "call_1"},
    ]
    return LlmRequest("m", messages=turns, tools=[WEATHER, CALCULATE])


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Hello there", "Hello! I am test-model, played from a script. What can I do for you?"),
        ("good morning", "Hello! I am test-model, played from a script. What can I do for you?"),
        ("Thanks!", "You are welcome."),
        ("Why?", "I answer from a script, and it has nothing better to say to this: Why?"),
        (
            "What is the weather in Paris?",  # there is no tool for it
            "I answer from a script, and it has nothing better to say to this: What is the weather in Paris?",
        ),
    ],
)
def test_the_default_script_has_an_answer(question: str, text: str) -> None:
    """To a greeting, and to anything else."""
    assert texts(ScriptedAdapter(), question) == [text]


def test_the_default_script_answers_even_silence() -> None:
    """It never says that no rule fits."""
    assert ScriptedAdapter().sync.complete(LlmRequest("m")).finish_reason == "stop"


@pytest.mark.parametrize(
    ("question", "tool", "arguments"),
    [
        ("What is the weather in Paris?", "get_weather", {"city": "Paris"}),
        ("weather for New York today, please", "get_weather", {"city": "New York"}),
        ("How is the Weather at Rio de Janeiro?", "get_weather", {"city": "Rio de Janeiro"}),
        ("Weather in Århus and 2 + 2?", "get_weather", {"city": "Århus"}),
        ("How much is 17 * 23?", "calculate", {"expression": "17 * 23"}),
        ("(2+3)*-4.5", "calculate", {"expression": "(2+3)*-4.5"}),
        ("What is 7-2, if anything?", "calculate", {"expression": "7-2"}),
    ],
)
def test_the_default_script_calls_tools(question: str, tool: str, arguments: dict[str, Any]) -> None:
    """Those that are offered, with what the question says, and after a thought."""
    response = ScriptedAdapter().sync.complete(ask(question, tools=[WEATHER, CALCULATE]))

    assert response.tool_calls == (ToolCall(id="call_1", name=tool, arguments=arguments),)
    assert response.finish_reason == "tool_calls"
    assert response.reasoning


def test_the_default_script_asks_for_a_city() -> None:
    """Where none is named."""
    response = ScriptedAdapter().sync.complete(ask("And the weather?", tools=[WEATHER]))

    assert response.text.startswith("For which city?")


@pytest.mark.parametrize(
    ("request_after", "text"),
    [
        (after("The weather in Paris?", "get_weather", "sunny"), "The weather: sunny."),
        (after("2 + 2?", "calculate", "4"), "The result is 4."),
        (after("Tell a joke.", "tell_joke", "Ha."), "The tool says: Ha."),
    ],
)
def test_the_default_script_tells_what_a_tool_said(request_after: LlmRequest, text: str) -> None:
    """And calls none again."""
    response = ScriptedAdapter().sync.complete(request_after)

    assert (response.text, response.tool_calls) == (text, ())


def test_the_default_script_takes_two_steps_where_two_tools_are_needed() -> None:
    """Text and a call in one answer, with an id that is new."""
    response = ScriptedAdapter().sync.complete(after("Weather in Oslo, and 2 + 3?", "get_weather", "snow"))

    assert response.text == "The weather: snow. Now for the numbers. "
    assert response.tool_calls == (
        ToolCall(id="call_2", name="calculate", arguments={"expression": "2 + 3"}),
    )


def test_the_default_script_answers_a_schema() -> None:
    """With JSON."""
    schema = {"type": "object", "required": ["answer", "ok"]}

    assert ScriptedAdapter().sync.complete(ask("x", json_schema=schema)).parsed_json == {
        "answer": 42,
        "ok": True,
    }


def test_rules_of_your_own_stand_before_the_default_ones() -> None:
    """Those are a tuple of rules like any other."""
    adapter = ScriptedAdapter([Rule(when={"equals": "hi"}, say="mine"), *default_rules()])

    assert texts(adapter, "hi", "Hello")[0] == "mine"
    assert texts(adapter, "Hello")[0].startswith("Hello! ")


@pytest.mark.parametrize("piece", ["1", "(", "(1", "weather in ", "1+", "1 ", "-", "A "])
def test_the_default_script_is_quick_with_any_text(piece: str) -> None:
    """Its expressions do not try everything twice."""

    def answer_all(size: int) -> None:
        for text in (piece * size, "weather in " + piece * size, f"1 + {piece * size}"):
            ScriptedAdapter().sync.complete(ask(text, tools=[WEATHER, CALCULATE]))

    assert grows_linearly(lambda: answer_all(10_000), lambda: answer_all(20_000))
