"""The client of a session: which of its calls are open, and what it gets."""

from __future__ import annotations

from cortex_replay.engine.mcp.calls import Call
from cortex_replay.engine.mcp.counts import CallKind
from cortex_replay.engine.mcp.link import Outgoing, SendToClient
from cortex_replay.engine.mcp.open_calls import OpenCalls
from cortex_replay.engine.scope import Scope
from cortex_replay.mcp.messages import (
    INTERNAL_ERROR,
    NO_FIXTURE,
    Message,
    RequestId,
    error_message,
    render_message,
)
from cortex_replay.redact.logs import logger_of

__all__ = ["ClientSide"]

logger = logger_of(__name__)


class ClientSide:
    """Sends a client what it gets, and knows what it waits for.

    Args:
        scope: Whose calls these are.
        server: The name of the server.
        send: Takes what the client gets.
    """

    def __init__(self, scope: Scope, server: str, send: SendToClient) -> None:
        self._scope = scope
        self._server = server
        self.send = send
        """For a frame that ends no call."""
        self.calls = OpenCalls()
        self.latest: Call | None = None
        """What the client said last: to it belongs what the server says while no call is open."""

    async def deliver(self, out: Outgoing) -> None:
        """Send a frame. A request is forgotten before its answer is sent: the client may use its id anew."""
        call = self.calls.get(out.about) if out.is_end else None
        if call is not None:
            self.calls.remove(call)
            if call.deed is not None and call.deed.state == "open":
                call.deed.state = "answered"
        await self.send(out)

    async def tell(self, message: Message, about: RequestId | None = None, *, is_end: bool = False) -> None:
        """Send a message of our own."""
        await self.deliver(Outgoing(render_message(message), about, is_end))

    async def refuse(self, call: Call, code: int, text: str) -> None:
        """Answer a call with an error; of a notification the log says it."""
        if call.id is None:
            logger.warning("%s", text)
            return
        kind = "no_fixture" if code == NO_FIXTURE else "error"
        await self.tell(error_message(call.id, code, text, {"type": kind}), call.id, is_end=True)

    async def fail(self, call: Call, problem: str) -> None:
        """Say that nothing comes of a call, and why."""
        text = self._scope.clean(f"{self._server}: {problem}")
        if call.id is None:
            logger.warning("%s", text)
        elif call.id in self.calls:
            self.withdraw(call, text)
            await self.refuse(call, INTERNAL_ERROR, f"cortex-replay: {text}")

    def withdraw(self, call: Call, problem: str) -> None:
        """Give back the turn of a call that is not recorded."""
        if call.deed is not None:
            call.deed.state = "failed"
        if call.turn is not None and not call.is_kept:
            call.turn.withdraw()
            self._scope.run.ledger.fail(problem, is_sent=call.is_sent)
            self.count("failed")

    def count(self, kind: CallKind) -> None:
        """Count a call for the summary of the run."""
        self._scope.run.ledger.count_call(self._server, kind)
