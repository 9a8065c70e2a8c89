"""What a client hears where nothing is recorded."""

from __future__ import annotations

from typing import Final, NamedTuple

from cortex_replay.engine.exchange_lookup import ExchangeLookUp
from cortex_replay.engine.exchanges import nothing
from cortex_replay.engine.mcp.handshakes import has_handshake
from cortex_replay.engine.scope import Scope
from cortex_replay.mcp.messages import DISCOVER, METHOD_NOT_FOUND, NO_FIXTURE
from cortex_replay.mcp.questions import name_call, server_in
from cortex_replay.misses.tool_calls import explain_tool_exhaustion, explain_tool_miss

__all__ = ["Refusal", "refuse_call"]

_PROBES: Final = frozenset(
    ["prompts/list", "resources/list", "resources/templates/list", "logging/setLevel", "completion/complete"]
)
"""What clients ask to see whether a server can do it, and live without."""


class Refusal(NamedTuple):
    """The error that answers a call."""

    code: int
    text: str


def refuse_call(scope: Scope, look: ExchangeLookUp, *, is_exhausted: bool) -> Refusal:
    """Count a miss, and say why it is one.

    A client of the newer protocol asks which versions there are, and shakes hands in the old way where that
    question is not known. So where a handshake is recorded, and the question is not, it is no miss.
    """
    request = look.asked
    server = server_in(request) or ""
    if request["path"] == DISCOVER and not is_exhausted and has_handshake(scope.store, scope.owner, server):
        return Refusal(
            METHOD_NOT_FOUND, "cortex-replay: this server was recorded with a handshake: send initialize"
        )
    if is_exhausted:
        explanation = explain_tool_exhaustion(request, look.key, scope.how_to_record)
    else:
        redactor = scope.run.redactor
        explanation = explain_tool_miss(
            scope.store, look.request, look.key, scope.how_to_record, redactor, scope.owner
        )
    explained = scope.clean(explanation)
    scope.count_miss(name_call(request), explained, nothing, is_probe=request["path"] in _PROBES)
    scope.run.ledger.count_call(server, "missed")
    return Refusal(NO_FIXTURE, explained)
