"""Two answers, and the tier of what differs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from cortex_replay import Answer, LlmRequest
from cortex_replay.behaviour.compare import compare_answers
from cortex_replay.behaviour.differences import Tier, highest
from cortex_replay.types import ToolCall
from tests.growth import grows_linearly

TOOLS = [
    {
        "name": "search",
        "input_schema": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
            "required": ["query"],
        },
    },
    {"name": "fetch"},
]
ASKED = LlmRequest("gpt-6-luna", messages="What is new?", tools=TOOLS)
SCHEMA = {
    "type": "object",
    "properties": {
        "total": {"type": "integer"},
        "items": {"type": "array", "items": {"type": "object", "required": ["price"]}},
    },
    "required": ["total"],
}
STRUCTURED = LlmRequest("gpt-6-luna", messages="How much?", json_schema=SCHEMA)


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


def calls(*made: ToolCall) -> Answer:
    return Answer("", finish_reason="tool_calls", tool_calls=made)


def says(text: str, finish_reason: str | None = "stop") -> Answer:
    return Answer(text, finish_reason=finish_reason)


def told(before: Any, after: Any, request: LlmRequest | None = ASKED) -> list[tuple[str, str, str]]:
    return [(one.tier.word, one.kind, one.place) for one in compare_answers(before, after, request)]


def test_an_inserted_call_shifts_no_other() -> None:
    before = calls(call("search", query="a"), call("search", query="b"))
    after = calls(call("search", query="x"), call("search", query="a"), call("search", query="b"))

    assert told(before, after) == [("behaviour", "call", "search #3")]


def test_a_changed_call_is_found_beside_an_inserted_one() -> None:
    """The most alike are one call."""
    before = calls(call("search", query="a", limit=1), call("search", query="b", limit=2))
    after = calls(
        call("search", query="new", limit=9),
        call("search", query="a", limit=5),
        call("search", query="b", limit=7),
    )

    assert told(before, after) == [
        ("behaviour", "argument", "search #1 limit"),
        ("behaviour", "argument", "search #2 limit"),
        ("behaviour", "call", "search #3"),
    ]


def test_equal_calls_in_another_order_differ_in_their_order_alone() -> None:
    one, other = call("search", query="a"), call("search", query="b")

    assert told(calls(one, other), calls(other, one)) == [("behaviour", "order", "")]


def test_a_new_call_shows_its_arguments() -> None:
    before, after = (
        calls(call("search", query="a")),
        calls(call("search", query="a"), call("search", query="b")),
    )

    (one,) = compare_answers(before, after, ASKED)

    assert (one.before, one.after) == (None, {"query": "b"})
    assert one.text == 'search #2 is one more call, with {"query":"b"}'


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"limit": 3}, {("contract", "invalid argument", "search #1 query")}),
        ({"query": 3, "limit": 3}, {("contract", "invalid argument", "search #1 query")}),
        ({"query": "a", "limit": 4}, {("behaviour", "argument", "search #1 limit")}),
        ({"query": "a"}, {("behaviour", "argument", "search #1 limit")}),
        ({"query": "a", "limit": 3.0}, set()),
        ({"limit": 3, "query": "a"}, set()),
    ],
)
def test_arguments(arguments: dict[str, Any], expected: set[tuple[str, str, str]]) -> None:
    """What a schema refuses is told once, and only there."""
    assert (
        set(told(calls(call("search", query="a", limit=3)), calls(call("search", **arguments)))) == expected
    )


def test_what_was_wrong_and_is_right_breaks_nothing() -> None:
    (one,) = compare_answers(calls(call("search")), calls(call("search", query="a")), ASKED)

    assert one.tier is Tier.BEHAVIOUR


def test_what_is_wrong_with_a_further_call_breaks_a_contract() -> None:
    """And if such a call is gone, only that is told."""
    one, more = calls(call("search", query="a")), calls(call("search", query="a"), call("search", limit=1))

    assert told(one, more) == [
        ("contract", "invalid argument", "search #2 query"),
        ("behaviour", "call", "search #2"),
    ]
    assert told(more, one) == [("behaviour", "call", "search #2")]


def test_a_tool_that_is_not_offered_any_more() -> None:
    """The model calls it all the same."""
    one = calls(call("fetch"))
    found = compare_answers(one, one, LlmRequest("m", messages="x", tools=TOOLS[:1]), ASKED)

    assert [(found_one.tier.word, found_one.kind) for found_one in found] == [("contract", "unknown tool")]


def test_what_a_schema_refuses_is_shown_with_the_value() -> None:
    (one,) = compare_answers(says('{"total": 1}'), says('{"total": "one"}'), STRUCTURED)

    assert one.text == 'the output breaks its schema: total: "one" is not of type "integer"'
    assert (one.before, one.after) == (1, "one")
    (one,) = compare_answers(says('{"total": 1}'), says("{}"), STRUCTURED)
    assert one.text == "the output breaks its schema: total: it is required, and missing"
    assert (one.before, one.after) == (1, None)


def test_true_is_not_one() -> None:
    assert told(calls(call("fetch", deep=True)), calls(call("fetch", deep=1))) == [
        ("behaviour", "argument", "fetch #1 deep")
    ]


def test_arguments_that_are_no_json_break_their_schema() -> None:
    broken = calls(ToolCall(name="search", arguments='{"query": "a'))

    assert told(calls(call("search", query="a")), broken) == [("contract", "invalid argument", "search #1")]


def test_a_tool_that_was_not_offered() -> None:
    """Of a request that is not known, nothing can be told; and a provider has tools of its own."""
    before, after = calls(call("search", query="a")), calls(call("search", query="a"), call("rm"))
    open_request = LlmRequest("m", messages="x", tools=[*TOOLS, {"googleSearch": {}}])

    assert told(before, after) == [("contract", "unknown tool", "rm")]
    assert told(before, after, None) == [("contract", "tool", "rm")]
    assert told(before, after, open_request) == [("contract", "tool", "rm")]


def test_an_answer_instead_of_a_call() -> None:
    """That the finish reason changes with it goes without saying."""
    assert told(calls(call("fetch")), says("Here you are.")) == [
        ("contract", "tool", "fetch"),
        ("words", "text", ""),
    ]


def test_a_finish_reason_that_nothing_explains() -> None:
    one = calls(call("fetch"))

    assert told(one, Answer("", finish_reason="stop", tool_calls=one.tool_calls)) == [
        ("contract", "finish reason", "")
    ]
    assert told(says("a"), says("a", "length")) == [("contract", "finish reason", "")]
    assert told(says("a", None), says("a", "stop")) == []


@pytest.mark.parametrize(
    ("before", "after", "is_explained"),
    [
        ("tool_calls", "stop", True),
        ("tool_calls", "tool_calls", False),
        ("stop", "stop", True),
        ("stop", "tool_calls", False),
        ("tool_calls", "length", False),
        ("length", "stop", False),
    ],
)
def test_only_the_reason_that_fits_is_explained_by_a_call(
    before: str, after: str, is_explained: bool
) -> None:
    """Of an answer that calls a tool and one that does not: each may end as such an answer ends."""
    called = Answer("", finish_reason=before, tool_calls=(call("fetch"),))
    has_reason = ("contract", "finish reason", "") in told(called, says("Here you are.", after))
    backwards = ("contract", "finish reason", "") in told(says("Here you are.", after), called)

    assert (has_reason, backwards) == (not is_explained, not is_explained)


@pytest.mark.parametrize(
    "reason", ["refusal", "content_filter", "PROHIBITED_CONTENT", "guardrail_intervened"]
)
def test_a_refusal_is_told_once(reason: str) -> None:
    """And not as a missing output, a missing call or another reason."""
    for before, request in ((calls(call("fetch")), ASKED), (says('{"total": 1}'), STRUCTURED)):
        assert told(before, says("I cannot do that.", reason), request) == [("contract", "refusal", "")]
        assert told(says("I cannot do that.", reason), before, request) == [("contract", "refusal", "")]


def test_words_that_sound_like_a_refusal_are_words() -> None:
    assert told(says("Sure."), says("I'm sorry, I can't help with that.")) == [("words", "text", "")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"items": [{"price": 1}], "total": 1}', [("words", "format", "")]),
        ('{"total": 2, "items": [{"price": 1}]}', [("behaviour", "output", "total")]),
        ('{"total": 1, "items": [{"price": 3}]}', [("behaviour", "output", "items[0].price")]),
        ('{"total": 1, "items": []}', [("behaviour", "output", "items")]),
        ('{"total": "1", "items": [{"price": 1}]}', [("contract", "schema", "total")]),
        ('{"total": 1, "items": [{}]}', [("contract", "schema", "items[].price")]),
        ("One.", [("contract", "schema", ""), ("words", "text", "")]),
    ],
)
def test_structured_output(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert told(says('{"total": 1, "items": [{"price": 1}]}'), says(text), STRUCTURED) == expected


@pytest.mark.parametrize(
    "settings",
    [
        {"json_schema": SCHEMA},
        {"extra": {"response_format": {"type": "json_object"}}},
        {"extra": {"text": {"format": {"type": "json_object"}}}},
        {"extra": {"format": "json"}},
        {"extra": {"generationConfig": {"responseMimeType": "application/json"}}},
        {"extra": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA, "new": 1}}}},
    ],
)
def test_json_is_asked_for_in_many_ways(settings: dict[str, Any]) -> None:
    request = LlmRequest("m", messages="x", **settings)

    assert told(says('{"total": 1}'), says('{"total": 2}'), request) == [("behaviour", "output", "total")]
    assert told(says('{"total": 1}'), says('{"total": 2}'), None) == [("words", "text", "")]
    one, other = (Answer(f'{{"total": {n}}}', {"total": n}) for n in (1, 2))
    assert told(one, other, None) == [("behaviour", "output", "total")]


def test_a_schema_that_is_none_refuses_nothing() -> None:
    for schema in ({"type": 7}, {"$ref": "https://example.org/s"}, {"$ref": "#"}):
        request = LlmRequest("m", messages="x", json_schema=schema)
        assert told(says("1"), says("1 "), request) == [("words", "format", "")]


def test_errors() -> None:
    error: dict[str, Any] = {"status": 429, "headers": {}, "body": "{}"}

    assert told(says("Fine."), error) == [("contract", "error", "")]
    assert told(error, says("Fine.")) == [("contract", "error", "")]
    assert told(error, {**error, "status": 500}) == [("contract", "error", "")]
    assert told(error, {**error, "body": "Slow down."}) == []


def script(**end: Any) -> dict[str, Any]:
    return {"messages": [{"at_ms": 1, "notification": {"method": "x"}}, {"at_ms": 5, **end}]}


def test_what_a_server_gave_back() -> None:
    text = {"content": [{"type": "text", "text": "20 degrees"}]}
    other = {"content": [{"type": "text", "text": "21 degrees"}]}

    assert told(script(result=text), {"messages": [{"at_ms": 9, "result": text}]}) == []
    assert told(script(result=text), script(result=other)) == [("behaviour", "result", "content[0].text")]
    assert told(script(result=text), script(result=text | {"isError": True})) == [("contract", "error", "")]
    assert told(script(result=text), script(error={"code": -32602})) == [("contract", "error", "")]
    assert told(script(result={"_meta": 1}), script(result={"_meta": 2})) == []


def test_a_call_that_asks_no_model() -> None:
    def counts(tokens: int, made: str) -> dict[str, Any]:
        return {"status": 200, "headers": {}, "body": f'{{"id": "{made}", "tokens": {tokens}}}'}

    assert told(counts(1, "a"), counts(1, "b")) == []
    assert told(counts(1, "a"), counts(2, "a")) == [("behaviour", "result", "tokens")]


def test_what_a_server_asks_meanwhile() -> None:
    """A sampling request, say: a client answers it, so another one is another behaviour."""

    def ask_back(text: str) -> dict[str, Any]:
        return {"messages": [{"at_ms": 1, "request": {"method": text}}, {"at_ms": 5, "result": {}}]}

    assert told(ask_back("a"), ask_back("a")) == []
    assert told(ask_back("a"), ask_back("b")) == [("behaviour", "result", "requests of the server[0].method")]


def test_a_session_over_a_socket() -> None:
    """What is said counts, and when it is said does not."""

    def session(at_ms: int, text: str) -> dict[str, Any]:
        return {"frames": [{"from": "server", "at_ms": at_ms, "text": text}], "close": {"code": 1000}}

    assert told(session(1, "a"), session(9, "a")) == []
    assert told(session(1, "a"), session(1, "b")) == [("behaviour", "result", "frames[0].text")]


def test_items_of_a_list_have_places_and_an_embedding_is_one_value() -> None:
    def search(size: int, last: str) -> Answer:
        return calls(call("fetch", tags=[*map(str, range(size - 1)), last]))

    assert told(search(32, "a"), search(32, "b")) == [("behaviour", "argument", "fetch #1 tags[31]")]
    assert told(search(33, "a"), search(33, "b")) == [("behaviour", "argument", "fetch #1 tags")]


def test_a_difference_shows_where_a_long_text_changed() -> None:
    before = says("so " * 4000 + "it was" + " on" * 4000)
    after = says("so " * 4000 + "it is" + " on" * 4000)

    (one,) = compare_answers(before, after, ASKED)

    assert isinstance(one.after, str)
    assert "it is" in one.after
    assert len(one.after) < 1100


def test_of_very_many_differences_the_rest_is_counted() -> None:
    found = compare_answers(*many_calls(1000), ASKED)

    assert len(found) == 201
    assert (found[-1].kind, found[-1].tier, found[-1].text) == ("more", Tier.BEHAVIOUR, "and 800 more")


def test_a_small_schema_takes_no_hours() -> None:
    names = [f"a{at}" for at in range(40)]
    twice = {new: {"allOf": [{"$ref": f"#/$defs/{old}"}] * 2} for old, new in pairwise(names)}
    for start in ("#/$defs/a39", "#far"):
        schema = {"$defs": {"a0": {"type": "string"}, **twice}, "$ref": start, "$anchor": "far"}
        request = LlmRequest("m", messages="x", json_schema=schema)
        assert told(says("1"), says("2"), request) == [("behaviour", "output", "output")]


def long_texts(size: int) -> tuple[Answer, Answer]:
    return says("word " * size * 50), says("word " * (size * 50 - 1) + "end")


def many_calls(size: int) -> tuple[Answer, Answer]:
    before, after = (calls(*(call("fetch", url=f"{side}{at}") for at in range(size))) for side in "ab")
    return before, after


def many_tools(size: int) -> tuple[Answer, Answer]:
    before, after = (calls(*(call(f"{side}{at}") for at in range(size))) for side in "ab")
    return before, after


def wide_json(size: int) -> tuple[Answer, Answer]:
    texts = ('{"x": [' + ",".join(f'{{"y": {at}}}' for at in range(size)) + "], " for _ in "ab")
    before, after = (says(f'{text}"total": {at}}}') for at, text in enumerate(texts))
    return before, after


def deep_json(size: int) -> tuple[Answer, Answer]:
    nested = '{"a": ' * 100 + "1" + "}" * 100
    items = ", ".join([nested] * (size // 100))
    return says(f'{{"total": 1, "x": [{items}]}}'), says(f'{{"total": 2, "x": [{items}]}}')


@pytest.mark.parametrize("make", [long_texts, many_calls, many_tools, wide_json, deep_json])
def test_hostile_sizes_take_linear_time(make: Callable[[int], tuple[Answer, Answer]]) -> None:
    """A text of megabytes; thousands of calls, all of them changed; deep and wide JSON."""
    once, twice = make(1000), make(2000)

    assert grows_linearly(
        lambda: compare_answers(*once, STRUCTURED), lambda: compare_answers(*twice, STRUCTURED)
    )


def test_a_long_text_is_words() -> None:
    assert highest(compare_answers(*long_texts(20_000), ASKED)) is Tier.WORDS
