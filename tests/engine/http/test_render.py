"""Recorded answers as bytes: kept for their wire, their way and their day; what others wrote does no harm."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest

from cortex_replay import Answer, Store, TokenUsage
from cortex_replay.bindings import Binder, BindingRules, Surroundings
from cortex_replay.engine.http import render
from cortex_replay.engine.http.call import HttpReply
from cortex_replay.engine.http.question import Question, Questions
from cortex_replay.engine.http.render import Renderer, error_reply, reply_of_exchange, reply_of_wire
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.lookup import binder_of_nowhere
from cortex_replay.wire import WIRES
from tests.engine.http.harness import PROTOCOLS, body_of, request_for

HELLO = request_for("Say hello.")
ANSWER = Answer("Hello.", None, "real", TokenUsage(3, 4), "stop")
META: dict[str, Any] = {"recorded_at": "2026-11-16T08:00:00Z"}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Question]:
    store = Store.create(tmp_path)
    nowhere = binder_of_nowhere(store)

    def read(protocol: str, stream: bool, usage: bool = False, binder: Binder = nowhere) -> Question:
        body = body_of(protocol, HELLO, stream=stream)
        body |= {"stream_options": {"include_usage": usage}} if "stream_options" in body else {}
        question = Questions().read(store, binder, Route("u", "/", protocol), orjson.dumps(body))
        assert question is not None
        return question

    return read


def test_what_is_kept_of_an_answer_is_of_its_wire_and_its_way(read: Callable[..., Question]) -> None:
    ways = list(product(PROTOCOLS, [False, True], [False, True]))
    fresh = {way: Renderer().reply(ANSWER, read(*way), META) for way in ways}
    assert len({reply.body for reply in fresh.values()}) > 2 * len(PROTOCOLS) - 3, "they all differ"

    for order in (ways, ways[::-1]):
        renderer = Renderer()
        for way in (*order, *order):
            assert renderer.reply(ANSWER, read(*way), META) == fresh[way], way


def test_what_is_bound_is_filled_for_each_who_asks(read: Callable[..., Question]) -> None:
    """A small answer is kept; its values are those of the one who asks now."""
    renderer, bound = Renderer(), Answer("In ⟦home⟧.", None, "real", TokenUsage(3, 4), "stop")
    meta = {**META, "bindings": ["home"]}
    for home in ("/home/ann", "/home/bob", "/home/ann"):
        binder = Binder(BindingRules(), Surroundings.of({"HOME": home}, "/srv/project"))
        reply = renderer.reply(bound, read("openai-chat", stream=False, binder=binder), meta)
        assert WIRES["openai-chat"].decode_answer(reply.body, "m").text == f"In {home}."


def test_what_is_kept_has_an_end(read: Callable[..., Question], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "_MOST_KEPT", 3)
    renderer, question = Renderer(), read("openai-chat", stream=False)
    answers = [Answer(f"Answer {number}.", usage=TokenUsage(1, 1)) for number in range(9)]
    for answer in answers:
        renderer.reply(answer, question, META)

    assert [kept[0] for kept in renderer._kept.values()] == answers[-3:]


@pytest.mark.parametrize("status", [204, 304])
def test_what_has_no_body_by_its_status_has_none(status: int) -> None:
    """What came behind it would be the next answer."""
    contents: list[dict[str, Any]] = [
        {"body": "HTTP/1.1 200 OK"},
        {"body_base64": "YQ=="},
        {"events": [{"at_ms": 0, "text": "x"}]},
    ]
    for content in contents:
        reply = reply_of_wire({"status": status, "headers": {}, **content})
        assert (reply.status, reply.body, reply.events) == (status, b"", ())


@pytest.mark.parametrize(
    "value", ["a\r\nlocation: http://evil.example", "a\nb", "a\0b", "caf\N{SNOWMAN}", "\x7f"]
)
def test_a_header_that_would_be_two_is_left_out(value: str) -> None:
    reply = reply_of_wire({"status": 200, "headers": {"content-type": value, "request-id": "r"}, "body": ""})
    assert reply.headers == (("request-id", "r"),)


@pytest.mark.parametrize(
    ("location", "is_recorded", "is_kept"),
    [
        ("/elsewhere", False, True),
        ("https://a.example/elsewhere", False, True),
        ("https://evil.example/", False, False),
        ("//evil.example/", False, False),
        ("http://a.example/", False, False),
        ("https://evil.example/", True, True),
    ],
)
def test_a_recording_leads_only_where_its_answer_is(location: str, is_recorded: bool, is_kept: bool) -> None:
    """Somebody else may have written it, and the client takes its key along."""
    wire: dict[str, Any] = {"status": 302, "headers": {"location": location}, "body": ""}
    request: dict[str, Any] = {
        "upstream": "https://a.example",
        "method": "GET",
        "path": "/",
        "query": [],
        "body": None,
    }
    for asked, expected in ((request, is_kept), ({**request, "upstream": "openai"}, False)):
        reply: HttpReply = reply_of_exchange(wire, asked, lambda _: is_recorded)
        assert ("location" in dict(reply.headers)) == expected


@pytest.mark.parametrize("protocol", [*WIRES, None])
def test_an_error_says_whether_it_may_be_tried_again(protocol: str | None) -> None:
    """An SDK does so by itself, unless it is told."""
    told, untold = (error_reply(protocol, 424, "no", "x", may_retry=may) for may in (False, True))

    assert dict(told.headers)["x-should-retry"] == "false"
    assert "x-should-retry" not in dict(untold.headers)
    assert told.body == untold.body
