"""Keeps the scripts of a session in the store."""

from __future__ import annotations

import asyncio
from typing import Final

from cortex_replay.engine.mcp.calls import Call
from cortex_replay.engine.mcp.list_watch import ListWatch
from cortex_replay.engine.scope import Scope
from cortex_replay.errors import LlmError
from cortex_replay.mcp.messages import LISTEN

__all__ = ["Keeper"]

_PAUSE_S: Final = 0.05
"""How long a server is quiet before what it said last is kept."""
_MUCH: Final = 64 * 1024


class Keeper:
    """Stages a script when its call ends, and again when more came behind that: when the client speaks, when
    the server pauses, and when there is twice as much as before. So a flood costs no more than it is long,
    and little is lost when the process is killed.

    Args:
        scope: Whose calls these are.
        server: The name of the server.
    """

    def __init__(self, scope: Scope, server: str) -> None:
        self._scope = scope
        self._server = server
        self._changed: dict[Call, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0
        self._lists = ListWatch(scope, server)

    def keep(self, call: Call) -> None:
        """A call has ended, or goes on without an end.

        Raises:
            LlmError: The store cannot take it.
            OSError: The disk cannot.
        """
        if call.turn is None:
            return
        self._changed.pop(call, None)
        what = call.name(self._server)
        if call.script.is_too_large:
            if not call.is_kept:
                self._scope.run.ledger.refuse(f"{what}: the answer is too large")
        elif call.is_kept:
            call.turn.amend(call.script.wire(), what)
        else:
            self.link_cause(call)  # a client may call a tool before it has all of the model's answer
            if call.turn.keep(call.script.wire(), what, ""):
                self._scope.run.ledger.count_call(self._server, "recorded")
                self._lists.take(call.method, call.turn)
        call.is_kept, call.kept_bytes = True, call.script.size

    def link_cause(self, call: Call) -> None:
        """Note which tool call of a model a call comes from, if it comes from one."""
        if self._scope.mode.writes:
            self._scope.causes.link(call.script.meta, self._server, call.message)

    def try_to_keep(self, call: Call) -> None:
        """The same for what the client has got already: if it cannot be kept, the summary says so."""
        try:
            self.keep(call)
        except (LlmError, OSError) as error:
            self._scope.run.ledger.refuse(f"{self._server} {call.method}: {error}")

    def note(self, call: Call) -> None:
        """Something was added to a script."""
        is_late = call.is_kept or call.id is None or call.method == LISTEN
        if call.turn is None or not is_late or call.is_cut:
            return
        if call.script.is_cut:
            call.is_cut = True
            what = call.name(self._server)
            self._scope.run.ledger.refuse(f"{what}: the server said too much behind it; the end of that")
        self._changed[call] = None
        if call.script.size > 2 * call.kept_bytes + _MUCH:
            self.try_to_keep(call)
            return
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(_PAUSE_S, self._look, loop)

    def follow(self, call: Call | None) -> None:
        """The client speaks again: what came so far belongs to what it said before."""
        self.flush()
        is_silent = call is not None and call.id is None and not call.is_kept
        if call is not None and is_silent and call.turn is not None and call.turn.has_kept_others:
            self.try_to_keep(call)  # that nothing came this time is what comes in replay

    def flush(self) -> None:
        """Stage all that is not."""
        for call in list(self._changed):
            self.try_to_keep(call)
        self.drop()

    def drop(self) -> None:
        """Forget what is not staged."""
        self._changed.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        rest = self._last + _PAUSE_S - loop.time()
        if rest > 0:
            self._timer = loop.call_later(rest, self._look, loop)
        else:
            self.flush()
