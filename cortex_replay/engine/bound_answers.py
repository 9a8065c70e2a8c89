"""Binding the values of an answer, and filling them in again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from cortex_replay.bindings.answers import AnswerFinder
from cortex_replay.bindings.binder import Binding
from cortex_replay.bindings.json_strings import document_strings
from cortex_replay.bindings.placeholders import Filling, join_pieces, marks_in
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.bound_texts import Section, Spot, leaves, replace_spots
from cortex_replay.errors import LlmError
from cortex_replay.mcp.texts import change_texts, texts_in
from cortex_replay.store import Answer, TimedChunk
from cortex_replay.types import StreamChunk, ToolCall, ToolCallDelta
from cortex_replay.types.tools import arguments_value
from cortex_replay.wire.recording import decode_recording

__all__ = ["bind_answer", "bind_wire", "fill_answer", "fill_wire"]

Wire = dict[str, JsonValue]
_FORMATS: Final = frozenset(["content-type", "content-encoding", "content-length", "transfer-encoding"])
_Change = Callable[[Sequence[Section]], list[list[str]]]
_Finish = Callable[[str], str]
"""What is done with a text that was put together from pieces."""


def bind_answer(answer: Answer, binding: Binding, asked_model: str) -> Answer:
    """The answer with placeholders; the very same one where nothing is bound.

    What a person reads of it is what its wire says.
    """
    finder = AnswerFinder(binding, is_told=True)
    if answer.wire is None:
        return _change_answer(answer, _binder(finder), join_pieces)
    wire = _change_wire(answer.wire, _binder(finder))
    if wire is not answer.wire and not _is_understood(wire, answer, asked_model):
        wire = _change_wire(answer.wire, _binder(finder, is_finding=False))
    return _with_wire(answer, wire, asked_model, join_pieces)


def _is_understood(wire: Wire, answer: Answer, asked_model: str) -> bool:
    """Whether a bound wire is an answer still: a host may be called like a word of the protocol."""
    try:
        said = decode_recording(wire, asked_model)
    except LlmError:
        return False
    return answer.finish_reason in (None, said.finish_reason) and answer.model in (None, said.model)


def fill_answer(answer: Answer, filling: Filling, names: Collection[str], asked_model: str) -> Answer:
    """The answer with the values of today; the very same one where there is nothing to fill."""
    if not names:
        return answer
    change = _filler(filling, names)
    if answer.wire is None:
        return _change_answer(answer, change, str)
    return _with_wire(answer, _change_wire(answer.wire, change), asked_model, str)


def bind_wire(wire: Wire, binding: Binding) -> Wire:
    """A recorded wire with placeholders; the very same one where nothing is bound."""
    return _change_wire(wire, _binder(AnswerFinder(binding)))


def fill_wire(wire: Wire, filling: Filling, names: Collection[str]) -> Wire:
    """A recorded wire with the values of today; the very same one where there is nothing to fill."""
    return _change_wire(wire, _filler(filling, names)) if names else wire


def _binder(finder: AnswerFinder, *, is_finding: bool = True) -> _Change:
    def bind(sections: Sequence[Section]) -> list[list[str]]:
        finder.look_for_literals(text for section in sections for text in section.texts)
        edits: list[tuple[Spot, str]] = []
        for leaf in leaves(sections):
            places = finder.find(leaf.text) if is_finding and leaf.is_bound else []
            is_json = not places or not leaf.is_read_otherwise(finder.write(leaf.text, places))
            for start, end, token in places:
                spots = leaf.spots(start, end, is_json=is_json) or ()
                edits += [(spot, spot.placeholder(token)) for spot in spots]
        return replace_spots(edits, sections, finder.literal)

    return bind


def _filler(filling: Filling, names: Collection[str]) -> _Change:
    def fill(sections: Sequence[Section]) -> list[list[str]]:
        edits: list[tuple[Spot, str]] = []
        if filling.needs_escapes((text for section in sections for text in section.texts), names):
            for leaf in leaves(sections):
                for start, end, mark in marks_in(leaf.text):
                    spots = leaf.spots(start, end) or ()
                    if len(spots) == 1 and not spots[0].spelling:
                        written = filling.fill(mark, names, leaf.depth, is_json=leaf.is_json)
                        edits.append((spots[0], written))
        return replace_spots(edits, sections, filling.filler(names))

    return fill


def _change_wire(wire: Wire, change: _Change) -> Wire:
    """The wire with its texts changed: its headers, and its body, events, frames or messages."""
    headers = _changeable_headers(wire)
    parts, content = _content(wire)
    sections = [*(Section([text], is_plain=True) for text in headers.values()), *content]
    changed = change(sections)
    if changed == [section.texts for section in sections]:
        return wire
    made = dict(wire)
    if headers:
        new_headers = {name: texts[0] for name, texts in zip(headers, changed, strict=False)}
        made["headers"] = _in_place(wire["headers"], new_headers)
    new = iter([text for texts in changed[len(headers) :] for text in texts])
    if "body" in wire:
        made["body"] = next(new, wire["body"])
    if (messages := parts.pop("messages", None)) is not None:
        made["messages"] = change_texts([*messages], lambda _: next(new))
    for name, listed in parts.items():
        made[name] = [part if _text_of(part) is None else _with_text(part, next(new)) for part in listed]
    return made


def _changeable_headers(wire: Wire) -> dict[str, str]:
    """Headers that hold what a server says; the others say how to read its answer."""
    headers = wire.get("headers")
    return {
        name: value
        for name, value in (headers.items() if isinstance(headers, dict) else ())
        if isinstance(value, str) and name not in _FORMATS
    }


def _content(wire: Wire) -> tuple[dict[str, list[JsonValue]], list[Section]]:
    """The events or frames of a wire, and the texts that are in them, or that are its body.

    Events of text are one text, cut anywhere; a message is one by itself. Of the messages of a script, each
    text is one by itself, so that nothing around it changes.
    """
    match wire:
        case {"body": str(body)}:
            return {}, [Section([body], is_stream=document_strings(body) is None)]
        case {"events": list(parts)}:
            texts = [text for text in map(_text_of, parts) if text is not None]
            is_one = all(isinstance(part, dict) and "text" in part for part in parts)
            sections = [texts] if is_one else [[text] for text in texts]
            return {"events": parts}, [Section(held, is_stream=True) for held in sections]
        case {"frames": list(parts)}:
            texts = [text for text in map(_text_of, parts) if text is not None]
            return {"frames": parts}, [Section([text], is_stream=True) for text in texts]
        case {"messages": list(parts)}:
            return {"messages": parts}, [Section([text], is_plain=True) for text in texts_in([*parts])]
    return {}, []


def _text_of(part: JsonValue) -> str | None:
    match part:
        case {"text": str(text)} if not text.startswith("\0"):  # that is a message, as older stores have it
            return text
        case {"message": {"payload": str(text)}}:
            return text
        case {"message": {"chunk": {"bytes": str(text)}}}:
            return text
    return None


def _with_text(part: JsonValue, text: str) -> JsonValue:
    match part:
        case {"text": _}:
            return _in_place(part, {"text": text})
        case {"message": {"payload": _} as message}:
            return _in_place(part, {"message": _in_place(message, {"payload": text})})
        case {"message": {"chunk": chunk} as message}:
            held = _in_place(chunk, {"bytes": text})
            return _in_place(part, {"message": _in_place(message, {"chunk": held})})
    return part


def _in_place(value: JsonValue, items: Mapping[str, JsonValue]) -> JsonValue:
    return {**value, **items} if isinstance(value, dict) else value


def _with_wire(answer: Answer, wire: Wire, asked_model: str, finish: _Finish) -> Answer:
    """The answer with another wire, and with what that says."""
    if wire is answer.wire:
        return answer
    said = decode_recording(wire, asked_model)
    text = finish(said.text)
    return replace(
        answer,
        wire=wire,
        text=text,
        parsed_json=None if answer.parsed_json is None else arguments_value(text),
        reasoning=None if answer.reasoning is None else finish(said.reasoning or ""),
        tool_calls=_finish_calls(said.tool_calls, finish),
    )


def _change_answer(answer: Answer, change: _Change, finish: _Finish) -> Answer:
    """An answer without a wire, with its texts changed; its stream adds up to it."""
    chunks = [timed.chunk for timed in answer.stream]
    deltas = [piece for chunk in chunks for piece in chunk.tool_calls]
    indexes = sorted({piece.index for piece in deltas})
    values: list[JsonValue] = [answer.parsed_json]
    if chunks:
        spoken = [[chunk.delta for chunk in chunks], [chunk.reasoning or "" for chunk in chunks]]
        spoken += [[piece.arguments for piece in deltas if piece.index == index] for index in indexes]
    else:
        spoken = [[answer.text], [answer.reasoning or ""]]
        values += [call.arguments for call in answer.tool_calls]
    spoken += [[text] for value in values for text in _texts_in(value)]
    changed = change([Section(texts, is_plain=True) for texts in spoken])
    if changed == spoken:
        return answer
    texts, thoughts, *others = changed
    arguments = {index: iter(pieces) for index, pieces in zip(indexes, others, strict=False)}
    rest = iter([text for [text] in others[len(arguments) :]])
    parsed_json, *inputs = [_each_text(value, lambda _: next(rest)) for value in values]
    stream = tuple(
        TimedChunk(timed.at_ms, _chunk(timed.chunk, text, thought, arguments))
        for timed, text, thought in zip(answer.stream, texts, thoughts, strict=bool(chunks))
    )
    if chunks:
        calls = ToolCallDelta.join(piece for timed in stream for piece in timed.chunk.tool_calls)
        texts, thoughts = [finish("".join(texts))], [finish("".join(thoughts))]
        calls = _finish_calls(calls, finish)
    else:
        pairs = zip(answer.tool_calls, inputs, strict=True)
        calls = tuple(replace(call, arguments=given) for call, given in pairs)
    return replace(
        answer,
        text=texts[0],
        parsed_json=parsed_json,
        reasoning=None if answer.reasoning is None else thoughts[0],
        tool_calls=calls,
        stream=stream,
    )


def _chunk(chunk: StreamChunk, text: str, thought: str, arguments: dict[int, Iterator[str]]) -> StreamChunk:
    calls = tuple(replace(piece, arguments=next(arguments[piece.index])) for piece in chunk.tool_calls)
    return replace(chunk, delta=text, reasoning=thought or None, tool_calls=calls)


def _finish_calls(calls: Iterable[ToolCall], finish: _Finish) -> tuple[ToolCall, ...]:
    return tuple(replace(call, arguments=_each_text(call.arguments, finish)) for call in calls)


def _each_text(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    """A value with every text changed, names among them, in the order of :func:`_texts_in`."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_each_text(item, change) for item in value]
    if isinstance(value, dict):
        return {change(name): _each_text(item, change) for name, item in value.items()}
    return value


def _texts_in(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _texts_in(item)
