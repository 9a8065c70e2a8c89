"""What an MCP call is looked up by in a scope."""

from __future__ import annotations

from dataclasses import replace

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.exchange_lookup import ExchangeLookUp
from cortex_replay.engine.exchanges import look_up_call
from cortex_replay.engine.mcp.handshakes import recorded_handshake
from cortex_replay.engine.scope import Scope
from cortex_replay.mcp.messages import INITIALIZE
from cortex_replay.modes import Mode
from cortex_replay.redact.process import teach

__all__ = ["look_up_tool"]


def look_up_tool(scope: Scope, question: dict[str, JsonValue]) -> ExchangeLookUp:
    """What finds a call, or what it is recorded under: without the secrets that stand in it.

    Who replays may not know a secret that was known to who recorded. Where a model asks for the call, its
    recorded answer has lost the secret, too. So what is there as it was asked comes first.
    """
    look = look_up_call(scope, question)
    if scope.mode is not Mode.RECORD and scope.store.exchange_row(look.key, scope.owner) is not None:
        return look
    teach(scope.run.redactor)  # a test may have set a key since
    clean, hits = scope.run.redactor.document(question["body"])
    if hits:
        look = look_up_call(scope, {**question, "body": clean})
    is_handshake = question["path"] == INITIALIZE and scope.mode is Mode.REPLAY
    if is_handshake and scope.store.exchange_row(look.key, scope.owner) is None:
        return _take_other_handshake(scope, look)
    return look


def _take_other_handshake(scope: Scope, look: ExchangeLookUp) -> ExchangeLookUp:
    """What finds the recorded handshake of another client, if this one can live with it."""
    found = recorded_handshake(scope.store, scope.owner, look.request)
    if found is None or found.key is None:
        return look
    other = replace(look, key=found.key, request=found.request or {})
    other.fill_with(look.filling)
    return other
