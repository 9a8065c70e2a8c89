"""What a call of MCP is looked up by in a scope."""

from __future__ import annotations

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.exchange_lookup import ExchangeLookUp
from cortex_replay.engine.exchanges import look_up_call
from cortex_replay.engine.scope import Scope

__all__ = ["look_up_tool"]


def look_up_tool(scope: Scope, question: dict[str, JsonValue]) -> ExchangeLookUp:
    """What finds a call, or what it is recorded under: without the secrets that stand in it.

    Who replays may not know a secret that was known to who recorded, so what is there as it was asked comes
    first.
    """
    look = look_up_call(scope, question)
    if scope.store.exchange_row(look.key, scope.owner) is not None:
        return look
    clean, hits = scope.run.redactor.json(question["body"])
    return look_up_call(scope, {**question, "body": clean}) if hits else look
