"""The one seam: something that answers requests."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from functools import cached_property
from types import TracebackType
from typing import Any, ClassVar, Self

from cortex_replay.adapters.sync import SyncAdapter
from cortex_replay.canonical import JsonValue
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk, ToolCallDelta

__all__ = ["LlmAdapter", "as_one_chunk"]


class LlmAdapter(ABC):
    """Answers requests, whole or as a stream. Everything plugs in here: live, replay, recorder.

    An adapter is an async context manager; leaving it releases what it holds. ``adapter.sync``
    offers the same two verbs to code that is not async.
    """

    adapter_id: ClassVar[str]
    """A constant name, which recordings carry. Every class that can be used has one."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        name = getattr(cls, "adapter_id", None)
        is_name = isinstance(name, property) or (isinstance(name, str) and name != "")
        if not is_name and not inspect.isabstract(cls):
            reason = f"{cls.__name__} needs an adapter_id, the name that recordings carry"
            raise TypeError(f'{reason}: write `adapter_id = "my-adapter"` in its body')

    @property
    def origin(self) -> dict[str, JsonValue]:
        """What a recording says of who answered: the adapter, and whatever else there is to know."""
        return {"adapter": self.adapter_id}

    @abstractmethod
    async def complete(self, request: LlmRequest) -> LlmResponse:
        """The whole answer.

        Raises:
            LlmError: One of the classes of :mod:`cortex_replay.errors`, never another.
        """

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        """The answer piece by piece; the last chunk has a finish reason and the whole response.

        An adapter that cannot stream gives its whole answer as one chunk.
        """
        yield as_one_chunk(await self.complete(request))

    async def aclose(self) -> None:
        """Release connections and the like; an adapter without any has nothing to do."""

    @cached_property
    def sync(self) -> SyncAdapter:
        """This adapter for scripts, notebooks and tests that are not async."""
        return SyncAdapter(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def as_one_chunk(response: LlmResponse) -> StreamChunk:
    """A whole answer in the form of a stream's only chunk."""
    return StreamChunk(
        delta=response.text,
        finish_reason=response.finish_reason or "stop",
        tool_calls=tuple(ToolCallDelta.whole(i, call) for i, call in enumerate(response.tool_calls)),
        reasoning=response.reasoning,
        response=response,
    )
