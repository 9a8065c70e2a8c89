"""The errors of the RPC: their codes, and which one stands for which of ours.

No error quotes what a provider said, where a key is kept, or a traceback: whoever calls is not whoever
runs the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

from cortex_replay.errors import (
    BudgetSpent,
    InvalidRequest,
    LlmError,
    NoFixture,
    ResponseParse,
    Timeout,
    Transport,
    TurnTooLate,
    Upstream,
)
from cortex_replay.redact.logs import logger_of

__all__ = ["AdminError", "Code", "error_for"]

logger = logger_of(__name__)

_PLAIN_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,59}")


class Code(IntEnum):
    """Every code that the server gives; those from -32001 down are its own (`docs/admin.md`)."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    PERMISSION_DENIED = -32001
    RATE_LIMITED = -32002
    NO_FIXTURE = -32003
    UPSTREAM_ERROR = -32010
    TIMEOUT = -32011


class AdminError(LlmError):
    """A call that was answered with an error; ``code`` is one of :class:`Code`, on both sides."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"admin: {self.code} {self.message}"


def error_for(error: Exception) -> AdminError:
    """What a caller is told of an error."""
    match error:
        case AdminError():
            return error
        case InvalidRequest():
            message = f"Invalid params: {error.field}: {error.reason}"
            return AdminError(Code.INVALID_PARAMS, message, {"field": error.field})
        case NoFixture():
            data = {"model": error.model, "prompt_hash": error.prompt_hash, "exhausted": error.exhausted}
            return AdminError(Code.NO_FIXTURE, f"no_fixture: {error}", data)
        case BudgetSpent():
            return AdminError(Code.RATE_LIMITED, f"rate_limited: {error}", {"limit": "run"})
        case Timeout() | Upstream() | Transport() | ResponseParse():
            return _error_of_provider(error)
    logger.error("a call of the admin RPC failed: %s", type(error).__name__)
    # The names of our own errors say what is broken, such as the store; others might say anything.
    known = {"error": type(error).__name__} if isinstance(error, LlmError) else None
    return AdminError(Code.INTERNAL_ERROR, "Internal error", known)


def _error_of_provider(error: Timeout | Upstream | Transport | ResponseParse) -> AdminError:
    data: dict[str, Any] = {"status": None}
    match error:
        case TurnTooLate():
            message = (
                "rate_limited: the provider's requests per minute leave this call no time; nothing was sent"
            )
            data = {"limit": "provider", "retry_after_ms": error.wait_ms}
            return AdminError(Code.RATE_LIMITED, message, data)
        case Timeout():
            return AdminError(Code.TIMEOUT, f"timeout: {error}", {"timeout_ms": error.timeout_ms})
        case Upstream():
            data = {"status": error.status}
            if error.error_type is not None and _PLAIN_WORD.fullmatch(error.error_type):
                data["type"] = error.error_type
            message = f"upstream_error: the provider answered with an error ({error.status})"
        case Transport():
            message = "upstream_error: the provider could not be reached, or the connection broke"
        case ResponseParse():
            message = "upstream_error: the provider's answer is not what it should be"
    return AdminError(Code.UPSTREAM_ERROR, message, data)
