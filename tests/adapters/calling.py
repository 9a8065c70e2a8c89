"""One call against a provider that follows a script."""

from __future__ import annotations

import asyncio
import pickle
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cortex_replay import (
    LlmError,
    LlmRequest,
    LlmResponse,
    StreamChunk,
)
from cortex_replay.adapters.live import LiveAdapter
from tests.adapters.dialects import CANARY, DIALECTS, Dialect, ask
from tests.adapters.fake_provider import (
    FakeProvider,
    Script,
    serving,
)

dialects = pytest.mark.parametrize("dialect", DIALECTS, ids=str)
Call = Callable[[LiveAdapter, LlmRequest], Coroutine[Any, Any, object]]


async def complete(adapter: LiveAdapter, request: LlmRequest) -> LlmResponse:
    return await adapter.complete(request)


async def read_stream(adapter: LiveAdapter, request: LlmRequest) -> list[StreamChunk]:
    return [chunk async for chunk in adapter.stream(request)]


calls = pytest.mark.parametrize("call", [complete, read_stream])


def run(
    dialect: Dialect, call: Call, *scripts: Script, request: LlmRequest | None = None, **options: Any
) -> tuple[Any, FakeProvider]:
    """Make one call against a provider that follows the scripts; gives the outcome, be it an error."""

    async def main() -> tuple[Any, FakeProvider]:
        async with (
            serving(*scripts) as provider,
            dialect.adapter(provider.url, **({"max_retries": 0} | options)) as adapter,
        ):
            try:
                return await call(adapter, request or ask()), provider
            except LlmError as error:
                return error, provider

    return asyncio.run(main())


def failed_with(outcome: object, kind: type[LlmError]) -> LlmError:
    assert type(outcome) is kind, outcome
    assert outcome.__context__ is None, "what httpx raised holds the request, and that the key"
    assert outcome.__cause__ is None
    assert CANARY not in "".join(traceback.format_exception(outcome)) + repr(outcome)
    pickle.loads(pickle.dumps(outcome))
    return outcome
