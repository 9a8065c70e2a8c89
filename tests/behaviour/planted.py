"""Changes whose tier is known, and rewordings; and answers as each wire carries them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from cortex_replay import Answer, LlmRequest
from cortex_replay.types import LlmResponse, StreamChunk, TokenUsage, ToolCall, ToolCallDelta
from cortex_replay.wire import WIRES, Wire

__all__ = ["CHANGES", "REWORDINGS", "Planted", "on_wires"]

_CHATS: Final = [name for name in WIRES if name not in ("openai-completions", "ollama-generate")]
"""Those that carry tools."""
_PIECE: Final = 7
_WAYS: Final = ((False, False), (True, True), (False, True), (True, False))
"""Whether each of two answers is a stream."""

SEARCH: Final = {
    "name": "search",
    "description": "Finds pages.",
    "input_schema": {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1},
            "sort": {"type": "string", "enum": ["new", "best"]},
            "filter": {
                "type": "object",
                "properties": {"language": {"type": "string"}, "sites": {"type": "array"}},
                "required": ["language"],
            },
            "deep": {"type": "boolean"},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
}
FETCH: Final = {"name": "fetch", "description": "Gets a page.", "input_schema": {"type": "object"}}
TOOLS: Final = LlmRequest("m", messages="What is new?", max_tokens=100, tools=[SEARCH, FETCH])
SCHEMA: Final = {
    "type": "object",
    "properties": {
        "total": {"type": "integer"},
        "currency": {"type": "string", "enum": ["EUR", "USD"]},
        "is_paid": {"type": "boolean"},
        "note": {"type": "string"},
        "buyer": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "city": {"type": "string"}},
            "required": ["name"],
        },
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "price": {"type": "number"}},
                "required": ["sku"],
            },
        },
    },
    "required": ["total", "currency"],
    "additionalProperties": False,
}
ORDER: Final = LlmRequest("m", messages="What did they buy?", max_tokens=100, json_schema=SCHEMA)
PLAIN: Final = LlmRequest("m", messages="How are you?", max_tokens=100)
OUTPUT: Final[dict[str, Any]] = {
    "total": 30,
    "currency": "EUR",
    "is_paid": True,
    "note": "gift",
    "buyer": {"name": "Ada", "city": "Rome"},
    "items": [{"sku": "a", "price": 10}, {"sku": "b", "price": 20}],
}
ARGUMENTS: Final[dict[str, Any]] = {
    "query": "rain in Rome",
    "limit": 5,
    "sort": "new",
    "filter": {"language": "en", "sites": ["a.example", "b.example"]},
    "deep": True,
}


@dataclass(frozen=True)
class Planted:
    """Two answers, and what is to be said of them."""

    name: str
    request: LlmRequest
    before: Answer
    after: Answer
    tier: str
    kind: str


def search(**changes: Any) -> ToolCall:
    """A call with some arguments changed; ``...`` takes one out."""
    return ToolCall(id="c", name="search", arguments=changed(ARGUMENTS, **changes))


def changed(value: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {name: inner for name, inner in {**value, **changes}.items() if inner is not ...}


def calling(*calls: ToolCall, text: str = "") -> Answer:
    return Answer(text, finish_reason="tool_calls", tool_calls=calls)


def saying(text: str, finish_reason: str = "stop") -> Answer:
    return Answer(text, finish_reason=finish_reason)


def output(**changes: Any) -> Answer:
    return saying(json.dumps(changed(OUTPUT, **changes)))


def _arguments() -> Iterator[Planted]:
    wrong: dict[str, dict[str, Any]] = {
        "required argument gone": {"query": ...},
        "required argument a number": {"query": 3},
        "required argument a list": {"query": ["rain"]},
        "argument a text": {"limit": "5"},
        "argument below its minimum": {"limit": 0},
        "argument not in its enum": {"sort": "worst"},
        "nested argument gone": {"filter": {"sites": ["a.example", "b.example"]}},
        "nested argument a number": {"filter": {"language": 1, "sites": ["a.example", "b.example"]}},
        "argument unknown": {"page": 2},
        "flag a text": {"deep": "yes"},
    }
    other: dict[str, dict[str, Any]] = {
        "free text": {"query": "weather in Rome"},
        "one letter": {"query": "rain in rome"},
        "number": {"limit": 6},
        "choice": {"sort": "best"},
        "flag": {"deep": False},
        "nested": {"filter": {"language": "de", "sites": ["a.example", "b.example"]}},
        "item": {"filter": {"language": "en", "sites": ["a.example", "c.example"]}},
        "one more item": {"filter": {"language": "en", "sites": ["a.example", "b.example", "c.example"]}},
        "items swapped": {"filter": {"language": "en", "sites": ["b.example", "a.example"]}},
        "no item": {"filter": {"language": "en", "sites": []}},
        "optional one gone": {"limit": ...},
        "nested optional one gone": {"filter": {"language": "en"}},
    }
    for name, changes in wrong.items():
        after = calling(search(**changes))
        yield Planted(name, TOOLS, calling(search()), after, "contract", "invalid argument")
    for name, changes in other.items():
        after = calling(search(**changes))
        yield Planted(f"argument: {name}", TOOLS, calling(search()), after, "behaviour", "argument")


def _outputs() -> Iterator[Planted]:
    wrong: dict[str, dict[str, Any]] = {
        "field gone": {"total": ...},
        "field a text": {"total": "30"},
        "field a fraction": {"total": 30.5},
        "field null": {"currency": None},
        "field not in its enum": {"currency": "GBP"},
        "field unknown": {"tax": 3},
        "nested field gone": {"buyer": {"city": "Rome"}},
        "field of an item gone": {"items": [{"sku": "a", "price": 10}, {"price": 20}]},
        "list an object": {"items": {}},
    }
    other: dict[str, dict[str, Any]] = {
        "number": {"total": 31},
        "text": {"note": "a gift"},
        "choice": {"currency": "USD"},
        "flag": {"is_paid": False},
        "nested": {"buyer": {"name": "Bob", "city": "Rome"}},
        "of an item": {"items": [{"sku": "a", "price": 11}, {"sku": "b", "price": 20}]},
        "one more item": {"items": [*OUTPUT["items"], {"sku": "c"}]},
        "items swapped": {"items": OUTPUT["items"][::-1]},
        "optional one gone": {"note": ...},
        "nested optional one gone": {"buyer": {"name": "Ada"}},
    }
    for name, changes in wrong.items():
        yield Planted(name, ORDER, output(), output(**changes), "contract", "schema")
    for name, changes in other.items():
        yield Planted(f"output: {name}", ORDER, output(), output(**changes), "behaviour", "output")
    fenced = saying(f"```json\n{json.dumps(OUTPUT)}\n```")
    yield Planted("output in a fence", ORDER, output(), fenced, "contract", "schema")
    yield Planted("output in words", ORDER, output(), saying("Thirty euros."), "contract", "schema")
    yield Planted("output is empty", ORDER, output(), saying(""), "contract", "schema")


def _calls() -> Iterator[Planted]:
    fetch = ToolCall(id="f", name="fetch", arguments={"url": "https://a.example"})
    other = ToolCall(id="g", name="fetch", arguments={"url": "https://b.example"})
    delete = ToolCall(id="d", name="delete", arguments={})
    one, both = calling(search()), calling(search(), fetch)
    yield Planted("another tool", TOOLS, one, calling(fetch), "contract", "tool")
    yield Planted("a further tool", TOOLS, one, both, "contract", "tool")
    yield Planted("a tool fewer", TOOLS, both, one, "contract", "tool")
    yield Planted("words instead of a tool", TOOLS, one, saying("It rains."), "contract", "tool")
    yield Planted("a tool instead of words", TOOLS, saying("It rains."), one, "contract", "tool")
    yield Planted("not offered", TOOLS, one, calling(search(), delete), "contract", "unknown tool")
    yield Planted(
        "tools, and none offered", PLAIN, saying("Hi."), calling(delete), "contract", "unknown tool"
    )
    yield Planted("swapped", TOOLS, both, calling(fetch, search()), "behaviour", "order")
    yield Planted(
        "swapped, of one tool", TOOLS, calling(fetch, other), calling(other, fetch), "behaviour", "order"
    )
    yield Planted("one more call", TOOLS, calling(fetch), calling(fetch, other), "behaviour", "call")
    yield Planted("one more call before", TOOLS, calling(fetch), calling(other, fetch), "behaviour", "call")
    yield Planted("one call fewer", TOOLS, calling(fetch, other), calling(fetch), "behaviour", "call")
    yield Planted("the same call twice", TOOLS, calling(fetch), calling(fetch, fetch), "behaviour", "call")


def _ends() -> Iterator[Planted]:
    for name, request, answer in (
        ("words", PLAIN, saying("Well.")),
        ("output", ORDER, output()),
        ("call", TOOLS, calling(search())),
    ):
        yield Planted(f"{name}: refused", request, answer, saying("No.", "refusal"), "contract", "refusal")
        yield Planted(
            f"{name}: not refused", request, saying("No.", "refusal"), answer, "contract", "refusal"
        )
    cut = saying("Well.", "length")
    yield Planted("cut off", PLAIN, saying("Well."), cut, "contract", "finish reason")
    yield Planted("no longer cut off", PLAIN, cut, saying("Well."), "contract", "finish reason")


CHANGES: Final = [*_arguments(), *_outputs(), *_calls(), *_ends()]

_SAYINGS: Final = [
    ("It is raining.", "It rains."),
    ("Yes.", "Yes, of course!"),
    ("I found 3 pages.", "There are three pages."),
    ("Sure, here you are:", "I'm sorry, I can't help with that."),
    ("Use `search`.", "search(query='rain')"),
    ("a\nb", "a\n\nb"),
    ("Straße", "Strasse"),
    ("12", "13"),
    ('{"a": 1}', '{"a": 2}'),
    ("- one\n- two", "1. one\n2. two"),
]


def _rewordings() -> Iterator[Planted]:
    for number, (one, other) in enumerate(_SAYINGS):
        for name, before, after in (("", one, other), (" back", other, one)):
            said = saying(before), saying(after)
            yield Planted(f"text {number}{name}", PLAIN, *said, "words", "text")
            called = calling(search(), text=before), calling(search(), text=after)
            yield Planted(f"text beside a call {number}{name}", TOOLS, *called, "words", "text")
    text = json.dumps(OUTPUT)
    forms = {
        "no spaces": json.dumps(OUTPUT, separators=(",", ":")),
        "indented": json.dumps(OUTPUT, indent=2),
        "tabs": json.dumps(OUTPUT, indent="\t"),
        "sorted": json.dumps(OUTPUT, sort_keys=True),
        "reversed": json.dumps(dict(reversed(OUTPUT.items()))),
        "nested keys in another order": json.dumps({**OUTPUT, "buyer": {"city": "Rome", "name": "Ada"}}),
        "a line end": f"{text}\n",
        "spaces around": f"  {text}  ",
        "another number": text.replace("10", "10.0"),
        "escapes": text.replace("Rome", "\\u0052ome"),
    }
    for name, form in forms.items():
        yield Planted(f"format: {name}", ORDER, saying(text), saying(form), "words", "format")
        yield Planted(f"format: {name}, back", ORDER, saying(form), saying(text), "words", "format")


REWORDINGS: Final = list(_rewordings())


def on_wires(planted: Planted) -> Iterator[tuple[str, LlmRequest, Answer, Answer]]:
    """A change as each wire carries it: both answers whole, both streamed, or one of each, in turns."""
    for number, name in enumerate(_CHATS, start=len(planted.name)):
        wire = WIRES[name]
        request = wire.lift(wire.lower(planted.request))
        first, second = _WAYS[number % len(_WAYS)]
        before = _carried(wire, planted.before, "1", stream=first)
        after = _carried(wire, planted.after, "22", stream=second)
        yield f"{name}, streams {first} {second}", request, before, after


def _carried(wire: Wire, answer: Answer, seed: str, *, stream: bool) -> Answer:
    """An answer as a client of a wire would read it, with ids and counts of its own."""
    calls = tuple(
        ToolCall(id=f"call-{seed}-{at}", name=call.name, arguments=call.arguments)
        for at, call in enumerate(answer.tool_calls)
    )
    usage = TokenUsage(10, 5 + len(seed))
    response = LlmResponse(answer.text, None, "m", usage, "", answer.finish_reason, calls)
    read = _streamed(wire, response, seed) if stream else _whole(wire, response, seed)
    return Answer(
        read.text, None, read.model, read.usage, read.finish_reason, read.tool_calls, read.reasoning
    )


def _whole(wire: Wire, response: LlmResponse, seed: str) -> LlmResponse:
    return wire.decode_answer(orjson.dumps(wire.encode_answer(response, seed)), "m")


def _streamed(wire: Wire, response: LlmResponse, seed: str) -> LlmResponse:
    encoder, decoder = wire.stream_encoder("m", seed), wire.stream_decoder("m")
    raw = encoder.start()
    for start in range(0, len(response.text), _PIECE):
        raw += encoder.chunk(StreamChunk(response.text[start : start + _PIECE]))
    for at, call in enumerate(response.tool_calls):
        raw += encoder.chunk(StreamChunk("", tool_calls=(ToolCallDelta.whole(at, call),)))
    raw += encoder.chunk(StreamChunk("", response.finish_reason, response=response))
    last = [*decoder.feed(raw), *decoder.finish()][-1].response
    assert last is not None
    return last
