"""The recorder around an adapter, in this process: as a library user has it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from random import Random
from typing import ClassVar

from cortex_replay import (
    InvalidRequest,
    LlmAdapter,
    LlmError,
    LlmRequest,
    LlmResponse,
    RecordingAdapter,
    RecordingRefused,
    Store,
    StreamChunk,
    TokenUsage,
    ToolCall,
    ToolCallDelta,
    Upstream,
)
from cortex_replay.redact.redactor import Redactor
from tests.security.campaign.plant import Planted, Planter
from tests.security.campaign.sandbox import Sandbox
from tests.security.campaign.tally import Outcome
from tests.security.campaign.upstream import cuts

__all__ = ["judge_adapter"]


class _Saying(LlmAdapter):
    """Says one thing, in one way."""

    adapter_id: ClassVar[str] = "saying"

    def __init__(self, one: Planted, way: str) -> None:
        self._one = one
        self._way = way
        self._random = Random(one.tag)

    async def complete(self, request: LlmRequest) -> LlmResponse:
        chunks = [chunk async for chunk in self.stream(request)]
        assert chunks[-1].response is not None
        return chunks[-1].response

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        one, way = self._one, self._way
        if way == "failure":
            raise Upstream(400, f"wrong key: {one.text}", one.written)
        text = one.text if way in ("answer", "stream") else f"Fine, {one.tag}."
        reasoning = one.text if way == "reasoning" else None
        calls: tuple[ToolCall, ...] = ()
        for piece in cuts(self._random, text):
            yield StreamChunk(piece)
        for piece in cuts(self._random, reasoning or ""):
            yield StreamChunk("", reasoning=piece)
        if way == "tool call":
            calls = (ToolCall(id="call_1", name="run", arguments={"note": one.text, "all": [one.written]}),)
        elif way == "name in a tool call":
            calls = (ToolCall(id="call_1", name="run", arguments={one.written: one.tag}),)
        for i, call in enumerate(calls):
            yield StreamChunk("", tool_calls=(ToolCallDelta.whole(i, call),))
        reason = "tool_calls" if calls else "stop"
        response = LlmResponse(text, None, "real", TokenUsage(3, 4), "", reason, calls, reasoning=reasoning)
        yield StreamChunk("", reason, response=response)


_WAYS = (
    "prompt",
    "answer",
    "stream",
    "reasoning",
    "tool call",
    "name in a tool call",
    "failure",
    "meta",
    "name in meta",
)


def judge_adapter(root: Path, planter: Planter) -> Outcome:
    """Every way, whole and streamed; the exception that a caller gets is judged, too, where it is ours."""
    sandbox = Sandbox(root, planter)
    planted = [(way, one) for way in _WAYS for one in planter.plant(f"recorder: {way}")]
    redactor = Redactor(planter.known.values())
    handler = logging.FileHandler(sandbox.written / "debug.log")
    logger = logging.getLogger()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        asyncio.run(_record(sandbox, planted, redactor))
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()
    return sandbox.judged()


async def _record(sandbox: Sandbox, planted: Iterable[tuple[str, Planted]], redactor: Redactor) -> None:
    store = Store.create(sandbox.project / "llm")
    for way, one in planted:
        metas = {"meta": {"tests": [one.text], "note": one.tag}, "name in meta": {one.written: one.tag}}
        text = one.text if way == "prompt" else f"Say {one.tag}."
        request = LlmRequest(model="m", system="", messages=text, max_tokens=9)
        recorder = RecordingAdapter(
            _Saying(one, way),
            store,
            redactor=redactor,
            record_failures=True,
            commit_on_close=False,
            meta=metas.get(way),  # type: ignore[arg-type]
        )
        try:
            async with recorder:
                if way == "stream" or int(one.tag[-1]) % 2:
                    async for _ in recorder.stream(request):
                        pass
                else:
                    await recorder.complete(request)
        except (RecordingRefused, InvalidRequest) as error:
            sandbox.say("the recorder's exception", str(error).encode())
        except LlmError:  # the provider's own, for the caller alone
            pass
    store.commit()
