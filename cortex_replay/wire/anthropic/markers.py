"""Cache markers: where a request's plan puts them into a body."""

from __future__ import annotations

from typing import Any, Final

from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmMessage, LlmRequest
from cortex_replay.wire.anthropic.lift import THINKING
from cortex_replay.wire.body import Block, content_and_parts, text_block

__all__ = ["Markers", "shortened"]


def shortened(blocks: list[Block]) -> str | list[Block]:
    """A single plain text as a string."""
    text, parts = content_and_parts(blocks)
    return list(parts) or text


class Markers:
    """Places the cache markers of a request's plan, at most as many as the provider takes."""

    MOST: Final = 4

    def __init__(self, request: LlmRequest) -> None:
        plan = request.cache
        self._marker: Block | None = None
        self._marks_tools = self._marks_system = False
        self._messages: set[int] = set()
        if plan is None:
            return
        self._marker = {"type": "ephemeral"} | ({} if plan.ttl is None else {"ttl": plan.ttl})
        known = [message.id for message in request.messages if message.id is not None]
        for name in plan.breakpoint_message_ids:
            if name not in known:
                raise InvalidRequest("cache.breakpoint_message_ids", f"no message has the id {name!r}")
        # A marker caches everything before it, so the last ones cache the most.
        wanted: list[str | int] = ["tools"] * (plan.cache_tools and bool(request.tools))
        wanted += ["system"] * (plan.cache_system and bool(request.system))
        named = [message for message in request.messages if message.id is not None]
        wanted += [id(message) for message in named if message.id in plan.breakpoint_message_ids]
        kept = wanted[-self.MOST :]
        self._marks_tools, self._marks_system = "tools" in kept, "system" in kept
        self._messages = {message for message in kept if isinstance(message, int)}

    def system(self, text: str) -> str | list[Block]:
        return [self._marked(text_block(text))] if self._marks_system else text

    def tools(self, tools: list[Any]) -> list[Any]:
        if self._marks_tools and isinstance(tools[-1], dict):
            tools[-1] = self._marked(tools[-1])
        return tools

    def on_block(self, message: LlmMessage, block: Block) -> Block:
        return self._marked(block) if id(message) in self._messages else block

    def on_content(self, message: LlmMessage, blocks: list[Block]) -> str | list[Block]:
        # A marker on a block of thinking is an error to the provider.
        if blocks and id(message) in self._messages and blocks[-1].get("type") not in THINKING:
            return [*blocks[:-1], self._marked(blocks[-1])]
        return shortened(blocks)

    def _marked(self, block: Block) -> Block:
        return block | {"cache_control": self._marker}
