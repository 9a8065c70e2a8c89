"""A service without a network, and who may use it."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from cortex_replay.adapters import LlmAdapter
from cortex_replay.admin.callers import Caller
from cortex_replay.admin.rpc import RpcDispatcher
from cortex_replay.admin.service import LlmService
from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.testing import ScriptedAdapter
from cortex_replay.types import LlmRequest, LlmResponse, TokenUsage

GRANTED = Caller("ci", frozenset(["llm_complete"]))
SETTINGS = Settings(
    providers={"mine": ProviderSettings(kind="scripted", models=("m-1", "m-2"))}, timeout_ms=5000
)


def call(**changes: Any) -> dict[str, Any]:
    """Good parameters, with changes; ``...`` leaves one out."""
    params: dict[str, Any] = {
        "provider": "mine",
        "model": "m-1",
        "messages": [{"role": "user", "content": "Hello!"}],
    }
    return {name: value for name, value in (params | changes).items() if value is not ...}


class Noting(LlmAdapter):
    """Answers after a moment, and notes what it was asked and how many asked at once."""

    adapter_id: ClassVar[str] = "noting"

    def __init__(
        self, usage: TokenUsage | None = None, error: Exception | None = None, delay_s: float = 0.0
    ) -> None:
        self.asked: list[LlmRequest] = []
        self.most_at_once = 0
        self.closed = 0
        self._usage = usage
        self._error = error
        self._delay_s = delay_s
        self._now = 0

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.asked.append(request)
        self._now += 1
        self.most_at_once = max(self._now, self.most_at_once)
        try:
            await asyncio.sleep(self._delay_s)
        finally:
            self._now -= 1
        if self._error is not None:
            raise self._error
        return LlmResponse("Hi.", None, f"{request.model}-served", self._usage, "0" * 64)

    async def aclose(self) -> None:
        self.closed += 1


def service_of(adapter: LlmAdapter, settings: Settings = SETTINGS) -> LlmService:
    return LlmService(settings, lambda _: adapter)


def dispatcher_of(adapter: LlmAdapter | None = None, settings: Settings = SETTINGS) -> RpcDispatcher:
    return RpcDispatcher(service_of(adapter or ScriptedAdapter(lambda _: "Hi."), settings).methods)
