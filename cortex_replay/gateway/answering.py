"""Answers to calls that have to wait for something, with what is to go wrong, whatever carries them."""

from __future__ import annotations

from typing import Protocol

from cortex_replay.engine.http.call import Call, HttpReply
from cortex_replay.engine.http.engine import Engine
from cortex_replay.engine.http.offload import aside
from cortex_replay.engine.http.question import Question
from cortex_replay.engine.http.relay import SendOn
from cortex_replay.engine.http.render import error_reply
from cortex_replay.engine.scope import Scope
from cortex_replay.errors import FixtureIntegrityFailed, InvalidRequest, LlmError
from cortex_replay.faults import Fault, Faults
from cortex_replay.redact.logs import logger_of

__all__ = ["Answering", "Sink"]

logger = logger_of(__name__)


class _Faulty(Exception):
    """Something went wrong, as it was asked to."""


class Sink(Protocol):
    """Where an answer goes."""

    async def send(self, reply: HttpReply) -> None:
        """Send all of a reply."""

    async def end(self, reply: HttpReply) -> None:
        """End as the fault of a reply wants it: by a closed connection, or by none."""


class Answering:
    """Answers calls by the engine.

    Args:
        engine: Who answers.
        faults: What is to go wrong.
    """

    def __init__(self, engine: Engine, faults: Faults) -> None:
        self.faults = faults
        self._engine = engine
        self._faults_of_scopes: dict[str, Faults] = {}

    def set_faults(self, scope: str, faults: Faults | None) -> None:
        """Let a scope have faults of its own, or those of all again."""
        if faults is None:
            self._faults_of_scopes.pop(scope, None)
        else:
            self._faults_of_scopes[scope] = faults

    def next_fault(self, scope: str, own: str) -> Fault | None:
        """What is to go wrong with the next call of a scope, which may ask for it itself.

        Raises:
            InvalidRequest: There is no such fault.
        """
        faults = self._faults_of_scopes.get(scope, self.faults)
        return faults.next(scope, own) if own or faults.are_any else None

    def note_fault(self, scope: str, fault: Fault) -> None:
        """Something went wrong as it was to."""
        self._faults_of_scopes.get(scope, self.faults).note(fault)

    async def answer(
        self, asking: Scope, call: Call, question: Question | None, sink: Sink, send: SendOn | None = None
    ) -> None:
        """Answer a call that has begun.

        Raises:
            LlmError: It went wrong when the client had a part of the answer already.
        """
        has_begun = False
        try:
            async with self._engine.answer(asking, call, question, send) as reply:
                has_begun = True
                await sink.send(reply)
        except LlmError as error:
            if has_begun:
                raise
            await sink.send(self.error_reply_of(error, call.route.protocol))

    async def answer_faultily(
        self, asking: Scope, call: Call, fault: Fault, sink: Sink, send: SendOn | None = None
    ) -> None:
        """Let something go wrong. The turn has then not ended, so that the recording goes on with it."""
        protocol = call.route.protocol
        from cortex_replay.faults.replies import answers_alone, faulty_reply, refusal  # noqa: PLC0415 - few fail

        if answers_alone(fault):
            self.note_fault(asking.name, fault)
            reply = refusal(fault, protocol)
            await sink.send(reply)
            await sink.end(reply)
            return
        faulty: HttpReply | None = None
        has_begun = False
        try:
            question = await aside(len(call.body), self._engine.read, asking, call)
            async with self._engine.answer(asking, call, question, send) as reply:
                has_begun = True
                # What is being recorded is not to be spoiled.
                is_recorded = not asking.mode.asks
                faulty = faulty_reply(fault, reply, protocol) if is_recorded else None
                await sink.send(faulty or reply)
                if faulty is None:  # it has no place in this answer
                    return
                self.note_fault(asking.name, fault)
                if not fault.is_chunking:
                    raise _Faulty
        except _Faulty:
            pass
        except LlmError as error:
            if has_begun:
                raise
            await sink.send(self.error_reply_of(error, protocol))
            return
        if faulty is not None:
            await sink.end(faulty)

    def error_reply_of(self, error: Exception, protocol: str | None) -> HttpReply:
        """What a client is told when the gateway itself cannot go on; never anything that it holds."""
        if isinstance(error, FixtureIntegrityFailed):
            findings = "; ".join(f"{finding.path}: {finding.reason}" for finding in error.issues[:3])
            self._engine.run.ledger.damage(findings)
            reason = f"the store is not what its index says, and nothing is replayed: {findings}"
            return error_reply(protocol, 424, f"cortex-replay: {reason}", "integrity_error")
        if isinstance(error, InvalidRequest):
            return error_reply(protocol, 400, f"cortex-replay: {error}", "invalid_request_error")
        if isinstance(error, LlmError):
            return error_reply(protocol, 424, f"cortex-replay: {error}", "gateway_error")
        logger.error("a call could not be answered: %s", type(error).__name__)
        reason = f"cortex-replay: internal error ({type(error).__name__})"
        return error_reply(protocol, 424, reason, "gateway_error")
