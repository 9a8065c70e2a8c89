"""Faults in process: an adapter that fails on demand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Self

from cortex_replay.adapters import LlmAdapter, WrapperAdapter, closing_stream
from cortex_replay.errors import InvalidRequest, LlmError, ResponseParse, Timeout, Transport, Upstream
from cortex_replay.faults.fault import Fault, answers_alone, error_type
from cortex_replay.faults.schedule import Faults
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk, ToolCall, ToolCallDelta

__all__ = ["FaultAdapter"]


class FaultAdapter(WrapperAdapter):
    """Forwards calls to another adapter, but for those that a fault hits.

    A call that fails never reaches the other adapter, so that its recording goes on with the next one.
    What would take a client's whole patience, a timeout or a stall, fails at once.

    Args:
        inner: Who answers.
        faults: Faults, or their spelling: ``"429@2"``, ``"cut:1@always"``, ``"500@0.2/7"``.
    """

    def __init__(self, inner: LlmAdapter, *faults: Fault | str) -> None:
        super().__init__(inner)
        parsed = [fault if isinstance(fault, Fault) else Fault.parse(fault) for fault in faults]
        for fault in parsed:
            if fault.is_of_tools:
                raise InvalidRequest("fault", f"{fault} hits calls of tools, and this adapter asks a model")
        self.faults = Faults(parsed, per_scope=False)

    @classmethod
    def with_faults(cls, inner: LlmAdapter, faults: Faults) -> Self:
        """An adapter whose faults, and whose count of calls, are shared with others."""
        adapter = cls(inner)
        adapter.faults = faults
        return adapter

    async def complete(self, request: LlmRequest) -> LlmResponse:
        fault = self.faults.next()
        if fault is None or fault.is_chunking:
            return await self.inner.complete(request)
        if fault.kind == "malformed-tool":
            return self._break_calls(fault, await self.inner.complete(request))
        self.faults.note(fault)
        raise _error(fault, request)

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        fault = self.faults.next()
        if fault is not None and answers_alone(fault):
            self.faults.note(fault)
            raise _error(fault, request)
        async with closing_stream(self.inner.stream(request)) as chunks:
            if fault is None or fault.is_chunking or fault.kind == "malformed-tool":
                async for chunk in chunks:
                    for piece in [chunk] if fault is None else self._change(fault, chunk):
                        yield piece
                return
            self.faults.note(fault)
            given = 0
            async for chunk in chunks:
                if chunk.response is not None or given >= fault.events:
                    break
                yield chunk
                given += 1
                if given >= fault.events:  # before the next one is taken: it may end the other's turn
                    break
            raise _error(fault, request)

    def _change(self, fault: Fault, chunk: StreamChunk) -> list[StreamChunk]:
        if fault.is_chunking:
            self.faults.note(fault)
            if fault.detail != "byte" or len(chunk.delta) < 2:
                return [chunk]
            return [*map(StreamChunk, chunk.delta[:-1]), replace(chunk, delta=chunk.delta[-1])]
        calls = tuple(
            replace(piece, arguments="{" * bool(piece.arguments) + piece.arguments)
            for piece in chunk.tool_calls
        )
        response = chunk.response and self._break_calls(fault, chunk.response)
        return [replace(chunk, tool_calls=calls, response=response)]

    def _break_calls(self, fault: Fault, response: LlmResponse) -> LlmResponse:
        if not response.tool_calls:
            return response
        self.faults.note(fault)
        calls = tuple(
            ToolCall(id=call.id, name=call.name, arguments="{" + ToolCallDelta.whole(0, call).arguments)
            for call in response.tool_calls
        )
        return replace(response, tool_calls=calls)


def _error(fault: Fault, request: LlmRequest) -> LlmError:
    """The error that a live adapter raises when this happens."""
    if fault.status is not None:
        return Upstream(fault.status, "on demand", error_type(fault.status))
    if fault.kind == "error-event":
        return Upstream(200, "on demand", "overloaded_error")
    if fault.kind in ("timeout", "stall"):
        return Timeout(request.timeout_ms)
    if fault.kind == "malformed-json":
        return ResponseParse("the answer is not JSON (on demand)")
    return Transport("the connection was reset (on demand)")
