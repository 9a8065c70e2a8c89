"""Answers to intercepted calls, for whatever library made them."""

from __future__ import annotations

from typing import NamedTuple

from cortex_replay.engine.http.call import Call, Headers, HttpReply
from cortex_replay.engine.http.other_calls import is_other
from cortex_replay.engine.http.question import Question
from cortex_replay.faults import Fault
from cortex_replay.interception.interception import Interception
from cortex_replay.interception.pump import AsyncAnswer, SyncAnswer, call_aside

__all__ = ["AsyncReply", "SyncReply", "headers_of"]

_WITHOUT_LENGTH = (204, 304)


class SyncReply(NamedTuple):
    """An answer for a caller without a loop."""

    reply: HttpReply
    """A status of 0 is a fault before the answer: ``ending`` says which."""
    live: SyncAnswer | None = None
    """Where the pieces come from, if they are still to come."""

    @classmethod
    def to(cls, interception: Interception, call: Call) -> SyncReply:
        fault, question, reply = _begin(interception, call)
        if reply is None:
            live = SyncAnswer(interception.engine, interception.scope, call, question)
            reply = live.reply
            if reply.live is not None:
                return cls(reply, live)
        return cls(_with_fault(interception, fault, call, reply))


class AsyncReply(NamedTuple):
    """An answer for a caller in a loop of its own."""

    reply: HttpReply
    """A status of 0 is a fault before the answer: ``ending`` says which."""
    live: AsyncAnswer | None = None
    """Where the pieces come from, if they are still to come."""

    @classmethod
    async def to(cls, interception: Interception, call: Call) -> AsyncReply:
        fault, question, reply = await call_aside(lambda: _begin(interception, call))
        if reply is None:
            live = AsyncAnswer(interception.engine, interception.scope, call, question)
            reply = await live.head()
            if reply.live is not None:
                return cls(reply, live)
        return cls(_with_fault(interception, fault, call, reply))


def headers_of(reply: HttpReply) -> Headers:
    """The headers of an answer, with its length where all of it is there."""
    is_whole = reply.live is None and not reply.events and reply.status not in _WITHOUT_LENGTH
    if not is_whole or any(name == "content-length" for name, _ in reply.headers):
        return reply.headers
    return [*reply.headers, ("content-length", str(len(reply.body)))]


def _begin(interception: Interception, call: Call) -> tuple[Fault | None, Question | None, HttpReply | None]:
    """The fault that the answer to a call is to have, what it asks, and its answer where nothing has to be
    waited for."""
    interception.calls += 1
    can_fail = interception.faults.are_any and not is_other(call.route.upstream)  # faults are of models
    fault = interception.faults.next() if can_fail else None
    if fault is None:
        return fault, *interception.engine.begin(interception.scope, call)
    from cortex_replay.faults.replies import answers_alone, refusal  # noqa: PLC0415 - few tests have faults

    if not answers_alone(fault):
        return fault, *interception.engine.begin(interception.scope, call)
    interception.faults.note(fault)
    return None, None, refusal(fault, call.route.protocol)


def _with_fault(interception: Interception, fault: Fault | None, call: Call, reply: HttpReply) -> HttpReply:
    if fault is None:
        return reply
    from cortex_replay.faults.replies import faulty_reply  # noqa: PLC0415 - as above

    faulty = faulty_reply(fault, reply, call.route.protocol)
    if faulty is None:
        return reply
    interception.faults.note(fault)
    return faulty
