"""What answers do, as facts: one row for each place at which they differ, one value of each answer.

Ids of calls, times, usage, headers and how a stream was cut into chunks are no facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cortex_replay.behaviour.alignment import Slot, align_calls, order_of
from cortex_replay.behaviour.contracts import Contract
from cortex_replay.behaviour.kinds import Kind
from cortex_replay.behaviour.replies import Reply, reply_of
from cortex_replay.behaviour.values import Nothing, Value, identity, is_known, place_of, varying
from cortex_replay.canonical import JsonValue
from cortex_replay.mcp.schemas import problems_of
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
    speaking = [reply for reply in replies if reply is not None]
    aligned = iter(align_calls([reply.calls for reply in speaking]))
    slots = [next(aligned) if reply is not None else None for reply in replies]
    names = dict.fromkeys(slot.name for one in slots if one is not None for slot in one)
    foreign = {
        name
        for name in names
        if any(
            contract.is_closed and name not in contract.tools and one is not None and _makes(one, name)
            for one, contract in zip(slots, contracts, strict=True)
        )
    }
    shared = set()
    for name in names:
        makes = [Nothing.UNKNOWN if one is None else _flag(_makes(one, name)) for one in slots]
        if name in foreign:
            yield from _column(Kind.UNKNOWN_TOOL, name, makes)
        else:
            yield from _column(Kind.TOOL, name, makes)
        if Nothing.ABSENT not in makes:
            shared.add(name)
    for slot in dict.fromkeys(slot for one in slots if one is not None for slot in one):
        calls = [None if one is None else one.get(slot) for one in slots]
        if slot.name in shared:
            made = [Nothing.UNKNOWN if one is None else _flag(slot in one) for one in slots]
            shown = [Nothing.ABSENT if call is None else _empty(call.arguments) for call in calls]
            yield from _column(Kind.CALL, slot.place, made, shown=shown)
        yield from _argument_facts(slot, calls, contracts)
    orders = iter(order_of([one for one in slots if one is not None]))
    texts: list[Value] = [
        Nothing.UNKNOWN if one is None else ", ".join(slot.place for slot in next(orders)) for one in slots
    ]
    yield from _column(Kind.ORDER, "", texts)


def _makes(calls: Mapping[Slot, ToolCall], name: str) -> bool:
    return any(slot.name == name for slot in calls)


def _argument_facts(
    slot: Slot, calls: Sequence[ToolCall | None], contracts: Sequence[Contract]
) -> Iterator[Fact]:
    problems = [
        None
        if call is None
        else _problems(call.arguments, contract.tools.get(slot.name), contract, slot.name)
        for call, contract in zip(calls, contracts, strict=True)
    ]
    yield from _problem_facts(Kind.INVALID_ARGUMENT, slot.place, problems)
    arguments: list[Value] = [Nothing.UNKNOWN if call is None else _empty(call.arguments) for call in calls]
    for path, values in varying(arguments):
        place = f"{slot.place} {place_of(path)}".rstrip()
        yield Fact(Kind.ARGUMENT, place, values, (slot.place, place_of(path, numbered=False)))


def _empty(arguments: JsonValue) -> JsonValue:
    """No arguments are written in three ways."""
    return {} if arguments is None or arguments == "" else arguments


def _problems(arguments: JsonValue, schema: JsonValue, contract: Contract, name: str) -> dict[str, str]:
    """What is wrong with arguments, by the place."""
    value = _empty(arguments)
    if name in contract.tools and schema is not None and isinstance(value, str):
        return {"": "its arguments are no JSON"}
    return _by_place(value, schema)


def _by_place(value: JsonValue, schema: JsonValue) -> dict[str, str]:
    found: dict[str, str] = {}
    for problem in problems_of(value, schema):
        found.setdefault(place_of(problem.path, numbered=False), problem.message)
    return found


def _problem_facts(kind: Kind, where: str, problems: Sequence[Mapping[str, str] | None]) -> Iterator[Fact]:
    """One row for each place at which something is wrong in an answer, but not in all."""
    places = dict.fromkeys(place for found in problems if found is not None for place in found)
    for place in places:
        values: list[Value] = [
            Nothing.UNKNOWN if found is None else found.get(place, Nothing.ABSENT) for found in problems
        ]
        yield from _column(kind, f"{where} {place}".strip(), values, (where, place))


def _output_facts(replies: Sequence[Reply | None], contracts: Sequence[Contract]) -> Iterator[Fact]:
    """The text; where JSON is asked for, what that says."""
    texts: list[Value] = [Nothing.UNKNOWN if reply is None else reply.text for reply in replies]
    is_json = any(contract.wants_json for contract in contracts) or any(
        reply is not None and reply.parsed is not None for reply in replies
    )
    if not is_json:
        yield from _column(Kind.TEXT, "", texts)
        return
    outputs: list[Value] = []
    problems: list[dict[str, str] | None] = []
    for reply, contract in zip(replies, contracts, strict=True):
        # A model that calls tools has not answered yet, whatever it says beside.
        if reply is None or reply.calls:
            outputs.append(Nothing.UNKNOWN)
            problems.append(None)
            continue
        value = reply.output
        is_broken = value is Nothing.ABSENT
        outputs.append(Nothing.UNKNOWN if is_broken else value)
        problems.append(
            {"": "it is no JSON"} if isinstance(value, Nothing) else _by_place(value, contract.schema)
        )
    yield from _problem_facts(Kind.SCHEMA, "", problems)
    found = [
        Fact(Kind.OUTPUT, place_of(path), values, ("", place_of(path, numbered=False)))
        for path, values in varying(outputs)
    ]
    yield from found
    if not found:
        is_text = any(output is Nothing.UNKNOWN for output in outputs)
        yield from _column(Kind.TEXT if is_text else Kind.FORMAT, "", texts)
