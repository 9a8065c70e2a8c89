"""What one caller may spend while a server runs."""

from __future__ import annotations

from cortex_replay.admin.callers import Caller
from cortex_replay.admin.errors import AdminError, Code
from cortex_replay.engine.budget import Budget

__all__ = ["allowance_of"]


def allowance_of(caller: Caller) -> Budget:
    """The budget of a caller. Every call counts, replayed ones too: a limit must not behave one way in tests
    and another in life."""
    return Budget(caller.max_calls, caller.max_tokens, refusal=_refusal)


def _refusal(what: str, most: int) -> AdminError:
    hint = "; a smaller max_tokens may fit" if what == "tokens" else ""
    message = f"rate_limited: another call might cross the {most} {what} of this caller{hint}"
    return AdminError(Code.RATE_LIMITED, message, {"limit": what})
