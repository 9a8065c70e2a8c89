"""A provider that lacks its key, in a test that may not need it."""

from __future__ import annotations

from typing import ClassVar

from cortex_replay.adapters import LlmAdapter
from cortex_replay.errors import ConfigError
from cortex_replay.types import LlmRequest, LlmResponse

__all__ = ["KeylessAdapter"]


class KeylessAdapter(LlmAdapter):
    """Says what is missing once it is asked; what is recorded is never asked.

    Args:
        error: Why there is no other adapter.
    """

    adapter_id: ClassVar[str] = "keyless"

    def __init__(self, error: ConfigError) -> None:
        self._error = error

    async def complete(self, request: LlmRequest) -> LlmResponse:  # noqa: ARG002 - nobody is asked
        raise self._error
