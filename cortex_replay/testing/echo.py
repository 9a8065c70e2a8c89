"""An adapter that says what it is told."""

from __future__ import annotations

from typing import ClassVar

from cortex_replay import validation as check
from cortex_replay.errors import InvalidRequest
from cortex_replay.testing.performance import Performance, PerformanceAdapter, respond
from cortex_replay.testing.request_view import RequestView
from cortex_replay.types import LlmRequest

__all__ = ["EchoAdapter"]


class EchoAdapter(PerformanceAdapter):
    """Answers with the last user message, streamed word by word.

    Args:
        prefix: Stands before the message in every answer.
    """

    adapter_id: ClassVar[str] = "echo"

    def __init__(self, prefix: str = "") -> None:
        self._prefix = check.text(prefix, "prefix")

    async def _perform(self, request: LlmRequest) -> Performance:
        message = RequestView(request).last_user
        if message is None:
            raise InvalidRequest("messages", "there is no user message to echo")
        return Performance(response=respond(request, self._prefix + message))
