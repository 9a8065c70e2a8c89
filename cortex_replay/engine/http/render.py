"""Recorded answers as the bytes that a client gets."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.call import Event, HttpReply
from cortex_replay.engine.http.other_calls import is_other, may_be_led, recordable_other_headers
from cortex_replay.engine.http.question import Question
from cortex_replay.engine.http.relay import recordable_headers
from cortex_replay.engine.lookup import LookUp
from cortex_replay.engine.outcomes import chunks_of
from cortex_replay.store import Answer, FixtureKey
from cortex_replay.types import TokenUsage
from cortex_replay.wire import WIRES, Wire
from cortex_replay.wire.event_stream import EVENT_STREAM
from cortex_replay.wire.recording import event_bytes, timed_chunks

__all__ = ["Renderer", "error_reply", "is_same_way", "reply_of_exchange", "reply_of_wire"]

_NO_CHOICES: Final = re.compile(rb'"choices"\s*:\s*\[\s*\]')
_PLAIN_VALUE: Final = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
_WITHOUT_BODY: Final = (204, 304)
_MOST_KEPT: Final = 4096
_MOST_BYTES: Final = 64 * 1024
"""A larger answer is rendered anew each time; so is one with bound values to a question that is not kept."""


class Renderer:
    """Renders answers, and keeps the small ones: a suite asks the same again and again."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int, str, bool, bool], tuple[Answer, LookUp | None, HttpReply]] = {}

    def reply(self, answer: Answer, question: Question, meta: Mapping[str, JsonValue]) -> HttpReply:
        """The answer as its provider sent it, if it was recorded from this protocol in this way; else made
        from what it says, with ids that come from the key, and counts that may stand in its ``meta``.

        What is bound in it gets the values of today.
        """
        protocol, facts = question.protocol, question.facts
        look = question.look if question.look.fills(meta) else None
        place = (id(answer), id(look), protocol, facts.stream, facts.with_usage)
        kept = self._kept.get(place)
        if kept is not None and kept[0] is answer and kept[1] is look:
            return kept[2]
        filled = answer if look is None else look.fill_answer(answer, meta)
        reply = _render(filled, question, meta)
        asks_for_usage = "stream_options" in WIRES[protocol].stream_parameters
        if facts.stream and asks_for_usage and not facts.with_usage:
            reply = _without_usage(reply)
        if len(reply.body) <= _MOST_BYTES and (look is None or question.is_small):
            while len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[place] = (answer, look, reply)
        return reply


def is_same_way(answer: Answer, question: Question) -> bool:
    """Whether an answer was recorded in the protocol and in the way that is asked for."""
    wire, is_stream = answer.wire, question.facts.stream
    return (
        wire is not None
        and wire.get("protocol") == question.protocol
        and (wire.get("stream") is True) == is_stream
    )


def _render(answer: Answer, question: Question, meta: Mapping[str, JsonValue]) -> HttpReply:
    if answer.wire is not None and is_same_way(answer, question):
        return reply_of_wire(answer.wire)
    if answer.usage is None:
        # Providers always count, and clients rely on it; another protocol's recording may not have.
        answer = replace(answer, usage=_usage_in(meta) or TokenUsage(0, 0))
    key, codec = question.look.key, WIRES[question.protocol]
    answer_id = key.prompt_hash[:24]
    if not question.facts.stream:
        body = orjson.dumps(codec.encode_answer(answer.response(key.model), answer_id))
        return HttpReply(200, (("content-type", "application/json"),), body)
    events = tuple(_events(answer, key, codec, answer_id))
    charset = "; charset=utf-8" if codec.stream_media_type != EVENT_STREAM else ""
    headers = (("content-type", f"{codec.stream_media_type}{charset}"),)
    return HttpReply(200, headers, b"".join(data for _, data in events), events)


def _events(answer: Answer, key: FixtureKey, codec: Wire, answer_id: str) -> list[Event]:
    """The answer's chunks at their recorded times; where there are none, all at once."""
    chunks = chunks_of(answer, key.model)
    times = _times_of(answer, key.model)
    if len(times) != len(chunks):
        times = [0.0] * len(chunks)
    encoder = codec.stream_encoder(answer.model or key.model, answer_id)
    events = [(times[0], encoder.start())]
    events += [(at, encoder.chunk(chunk)) for at, chunk in zip(times, chunks, strict=True)]
    return [(at, data) for at, data in events if data]


def _usage_in(meta: Mapping[str, JsonValue]) -> TokenUsage | None:
    match meta.get("usage"):
        case {"prompt_tokens": int(prompt), "completion_tokens": int(completion)}:
            return TokenUsage(prompt, completion)
    return None


def _times_of(answer: Answer, model: str) -> list[float]:
    """When each chunk of an answer came."""
    wire = answer.wire
    if wire is None or wire.get("stream") is not True:
        return [float(timed.at_ms) for timed in answer.stream]
    return [at_ms for at_ms, _ in timed_chunks(wire, model)]


def _without_usage(reply: HttpReply) -> HttpReply:
    """A stream of chat completions for a client that did not ask for usage, and may not expect an event
    without choices."""
    events = []
    for at, data in reply.events:
        kept = b"".join(
            event
            for event in re.split(rb"(?<=\n\n)", data)
            if not (_NO_CHOICES.search(event) and b'"usage"' in event)
        )
        if kept:
            events.append((at, kept))
    return HttpReply(reply.status, reply.headers, b"".join(data for _, data in events), tuple(events))


def reply_of_exchange(
    wire: Mapping[str, JsonValue],
    request: Mapping[str, JsonValue],
    is_recorded: Callable[[dict[str, JsonValue]], bool],
) -> HttpReply:
    """What was recorded of an opaque call.

    Args:
        wire: The answer.
        request: What was asked.
        is_recorded: Whether there is an answer to what a client would ask that is led elsewhere.
    """
    if not is_other(str(request["upstream"])):
        return reply_of_wire(wire)

    def keep(headers: list[tuple[str, str]]) -> dict[str, str]:
        kept = recordable_other_headers(headers, str(request["method"]))
        location = kept.get("location")
        if location is not None and not may_be_led(wire, request, location, is_recorded):
            del kept["location"]
        return kept

    return reply_of_wire(wire, keep)


def reply_of_wire(
    wire: Mapping[str, JsonValue],
    keep: Callable[[list[tuple[str, str]]], dict[str, str]] = recordable_headers,
) -> HttpReply:
    """What was recorded, byte for byte: status, headers, body or events.

    Of headers only those that a recorder keeps. Somebody else may have written the recording, and a client
    believes what it is told: it follows ``location`` to any server with its key, and unpacks what is packed.
    """
    headers = wire.get("headers")
    texts = [(k, v) for k, v in headers.items() if isinstance(v, str)] if isinstance(headers, dict) else []
    shown = tuple((k, v) for k, v in keep(texts).items() if _PLAIN_VALUE.fullmatch(v))
    status = wire.get("status")
    code = status if isinstance(status, int) else 200
    if code in _WITHOUT_BODY:  # what came behind it would be the next answer
        return HttpReply(code, shown, b"")
    match wire:
        case {"events": list(listed)}:
            events = tuple(
                (_number(event.get("at_ms")), event_bytes(event))
                for event in listed
                if isinstance(event, dict)
            )
            return HttpReply(code, shown, b"".join(data for _, data in events), events)
        case {"body_base64": str(encoded)}:
            return HttpReply(code, shown, base64.b64decode(encoded))
        case _:
            return HttpReply(code, shown, str(wire.get("body", "")).encode())


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def error_reply(
    protocol: str | None, status: int, message: str, error_type: str, *, may_retry: bool = False
) -> HttpReply:
    """An error in the shape of the client's own provider; its SDK does not try again unless it may."""
    codec = WIRES.get(protocol or "openai-chat", WIRES["openai-chat"])
    body = orjson.dumps(codec.encode_error(status, message, error_type))
    headers = (("content-type", "application/json"), ("x-should-retry", "false"))
    return HttpReply(status, headers[:1] if may_retry else headers, body)
