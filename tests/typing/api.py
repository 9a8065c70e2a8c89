"""Checked by mypy, never run: what a user's code looks like to a type checker."""

from __future__ import annotations

from collections.abc import AsyncIterator

from cortex_replay import (
    LlmAdapter,
    LlmMessage,
    LlmRequest,
    LlmResponse,
    ReplayAdapter,
    Store,
    StreamChunk,
    WrapperAdapter,
)
from cortex_replay.pytest_plugin import LlmRecording
from cortex_replay.redact import Redactor


async def use(adapter: LlmAdapter) -> str:
    request = LlmRequest(model="m", messages=[{"role": "user", "content": "hi"}], temperature=0, stop="END")
    also = LlmRequest(
        "m", "s", [LlmMessage("user", "hi")], 0.5, 16, {"type": "object"}, tools=[{"name": "f"}]
    )
    response: LlmResponse = await adapter.complete(request)
    async for chunk in adapter.stream(also):
        response = chunk.response or response
    async with ReplayAdapter(Store.open("."), verify="on-read") as replay:
        return (await replay.complete(request)).text + replay.sync.complete(also).text


class Mine(LlmAdapter):
    adapter_id = "mine"

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return LlmResponse("Hi.", None, request.model, None, "")


class Forwarding(WrapperAdapter):
    async def complete(self, request: LlmRequest) -> LlmResponse:
        return await super().complete(request)

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        async for chunk in super().stream(request):
            yield chunk


class Named(WrapperAdapter):
    adapter_id = "mine"

    def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        return super().stream(request)


name: str = Named(Forwarding(Mine())).adapter_id


def test_agent(llm_recording: LlmRecording) -> None:
    text, _ = Redactor(["a-secret"]).text("It is a-secret.")
    assert [request.model for request in llm_recording.requests] == [text]
