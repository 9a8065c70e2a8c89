"""What answers do, as facts: one row for each place at which they differ, one value of each answer.

Ids of calls, times, usage, headers and how a stream was cut into chunks are no facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cortex_replay.behaviour.alignment import Slot, align_calls, order_of
from cortex_replay.behaviour.breaches import hold
from cortex_replay.behaviour.contracts import Contract
from cortex_replay.behaviour.kinds import Kind
from cortex_replay.behaviour.replies import Reply, reply_of
from cortex_replay.behaviour.values import Nothing, Value, identity, is_known, place_of, varying
from cortex_replay.canonical import JsonValue
from cortex_replay.store.fixture import Answer
from cortex_replay.types import LlmRequest, ToolCall

__all__ = ["Fact", "Said", "facts_of"]

Said = Answer | Mapping[str, JsonValue]
"""What came of a call: an answer, or the ``wire`` of an exchange."""

_ENDS: Final = ("stop", "tool_calls")
"""Finish reasons that say no more than whether tools are called."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that several answers do not agree on."""

    kind: Kind
    place: str
    """Where, for a person; may be empty."""
    values: tuple[Value, ...]
    """One of each answer, in their order."""
    spot: tuple[str, str] = ("", "")
    """The call, and the place in it without numbers of items: where a problem explains a value."""
    shown: tuple[Value, ...] = ()
    """What a reader is shown of each answer instead of the values, where that tells more."""


def facts_of(said: Sequence[Said], requests: Sequence[LlmRequest | None]) -> list[Fact]:
    """The facts in which answers differ.

    Args:
        said: The answers.
        requests: What each of them was asked.
    """
    replies = [reply_of(one) for one in said]
    contracts = [Contract.of(request) for request in requests]
    found = [
        *_column(Kind.ERROR, "", [reply.error for reply in replies]),
        *_column(Kind.REFUSAL, "", [_flag(reply.refuses) for reply in replies]),
        *_column(Kind.FINISH_REASON, "", _finish_reasons(replies)),
    ]
    speaking = [reply if reply.is_answer else None for reply in replies]
    found += _call_facts(speaking, contracts)
    found += _output_facts(speaking, contracts)
    found += _column(Kind.REASONING, "", [reply.reasoning for reply in replies])
    found += [
        Fact(Kind.RESULT, place_of(path) or "result", values) for path, values in varying(_results(replies))
    ]
    return found


def _results(replies: Sequence[Reply]) -> list[Value]:
    """What servers gave back. Beside a result, an error is just that."""
    is_mixed = len({reply.error is Nothing.ABSENT for reply in replies}) > 1
    return [
        Nothing.UNKNOWN if is_mixed and reply.error is not Nothing.ABSENT else reply.result
        for reply in replies
    ]


def _flag(is_so: bool) -> Value:
    return True if is_so else Nothing.ABSENT


def _column(
    kind: Kind,
    place: str,
    values: Sequence[Value],
    spot: tuple[str, str] = ("", ""),
    shown: Sequence[Value] = (),
) -> list[Fact]:
    """A fact, if the values are not all the same."""
    differ = len({identity(value) for value in values if is_known(value)}) > 1
    return [Fact(kind, place, tuple(values), spot, tuple(shown))] if differ else []


def _finish_reasons(replies: Sequence[Reply]) -> list[Value]:
    """Why each answer ended, as far as nothing else says it already: that it refuses, or calls tools."""
    answers = [reply for reply in replies if reply.error is Nothing.ABSENT]
    is_mixed = len({reply.refuses for reply in answers}) > 1
    some_call = len({bool(reply.calls) for reply in answers if reply.is_answer}) > 1
    reasons: list[Value] = []
    for reply in replies:
        reason = reply.finish_reason
        if reason is None or reply.error is not Nothing.ABSENT or (is_mixed and reply.refuses):
            reasons.append(Nothing.UNKNOWN)
        elif some_call and reason == _ENDS[bool(reply.calls)]:
            reasons.append(_ENDS[0])
        else:
            reasons.append(reason)
    return reasons


def _call_facts(replies: Sequence[Reply | None], contracts: Sequence[Contract]) -> Iterator[Fact]:
    """The tools, their calls, the arguments of each and their order."""
    aligned = iter(align_calls([reply.calls for reply in replies if reply is not None]))
    slots = [next(aligned) if reply is not None else None for reply in replies]
    made = [None if one is None else {slot.name for slot in one} for one in slots]
    shared = set()
    for name in dict.fromkeys(slot.name for one in slots if one is not None for slot in one):
        calls = [Nothing.UNKNOWN if names is None else _flag(name in names) for names in made]
        unknown = [
            _flag(value is True and contract.is_closed and name not in contract.tools)
            if is_known(value)
            else value
            for value, contract in zip(calls, contracts, strict=True)
        ]
        yield from _column(Kind.UNKNOWN_TOOL, name, unknown) or _column(Kind.TOOL, name, calls)
        if Nothing.ABSENT not in calls:
            shared.add(name)
    for slot in dict.fromkeys(slot for one in slots if one is not None for slot in one):
        arguments = [_arguments(one, slot) for one in slots]
        if slot.name in shared:
            values = [_flag(value is not Nothing.ABSENT) if is_known(value) else value for value in arguments]
            yield from _column(Kind.CALL, slot.place, values, shown=arguments)
        yield from _argument_facts(slot, arguments, contracts)
    orders = iter(order_of([one for one in slots if one is not None]))
    texts: list[Value] = [
        Nothing.UNKNOWN if one is None else ", ".join(slot.place for slot in next(orders)) for one in slots
    ]
    yield from _column(Kind.ORDER, "", texts)


def _arguments(calls: Mapping[Slot, ToolCall] | None, slot: Slot) -> Value:
    """What a call is made with; ``ABSENT`` where it is not made. No arguments are written in three ways."""
    if calls is None:
        return Nothing.UNKNOWN
    if slot not in calls:
        return Nothing.ABSENT
    arguments = calls[slot].arguments
    return {} if arguments is None or arguments == "" else arguments


def _argument_facts(slot: Slot, arguments: Sequence[Value], contracts: Sequence[Contract]) -> Iterator[Fact]:
    schemas = [contract.tools.get(slot.name) for contract in contracts]
    for held in hold(arguments, schemas, no_json="its arguments are no JSON"):
        place = f"{slot.place} {held.place}".rstrip()
        spot = slot.place, held.place
        yield from _column(Kind.INVALID_ARGUMENT, place, held.messages, spot, held.shown)
    made = [Nothing.UNKNOWN if value is Nothing.ABSENT else value for value in arguments]
    for path, values in varying(made):
        place = f"{slot.place} {place_of(path)}".rstrip()
        yield Fact(Kind.ARGUMENT, place, values, (slot.place, place_of(path, numbered=False)))


def _output_facts(replies: Sequence[Reply | None], contracts: Sequence[Contract]) -> Iterator[Fact]:
    """The text; where JSON is asked for, what that says."""
    texts: list[Value] = [Nothing.UNKNOWN if reply is None else reply.text for reply in replies]
    is_json = any(contract.wants_json for contract in contracts) or any(
        reply is not None and reply.parsed is not None for reply in replies
    )
    if not is_json:
        yield from _column(Kind.TEXT, "", texts)
        return
    # A model that calls tools has not answered yet, whatever it says beside.
    read = [Nothing.UNKNOWN if reply is None or reply.calls else reply.output for reply in replies]
    broken = [
        "it is no JSON" if value is Nothing.ABSENT else Nothing.ABSENT if is_known(value) else value
        for value in read
    ]
    yield from _column(Kind.SCHEMA, "", broken, shown=texts)
    outputs = [Nothing.UNKNOWN if value is Nothing.ABSENT else value for value in read]
    for held in hold(outputs, [contract.schema for contract in contracts], no_json=""):
        yield from _column(Kind.SCHEMA, held.place, held.messages, ("", held.place), held.shown)
    found = [
        Fact(Kind.OUTPUT, place_of(path) or "output", values, ("", place_of(path, numbered=False)))
        for path, values in varying(outputs)
    ]
    yield from found
    if not found:
        is_text = any(not is_known(output) for output in outputs)
        yield from _column(Kind.TEXT if is_text else Kind.FORMAT, "", texts)
