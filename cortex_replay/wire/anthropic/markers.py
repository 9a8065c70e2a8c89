"""Cache markers: where a request's plan puts them into a body."""

from __future__ import annotations

from typing import Any

from cortex_replay.redact.logs import logger_of
from cortex_replay.types import LlmRequest, PromptCachePlan
from cortex_replay.wire.anthropic.lift import THINKING
from cortex_replay.wire.body import Block, content_and_parts, text_block

__all__ = ["Markers", "simplest_content"]

logger = logger_of(__name__)


def simplest_content(blocks: list[Block]) -> str | list[Block]:
    """A single plain text as a string."""
    text, parts = content_and_parts(blocks)
    return list(parts) or text


class Markers:
    """Places the cache markers of a request's plan, at most as many as the provider takes."""

    def __init__(self, request: LlmRequest) -> None:
        self._texts = [request.system]
        self._behind: dict[tuple[str, int], Block] = {}
        if request.cache is not None:
            self._follow(request, request.cache)

    def _follow(self, request: LlmRequest, plan: PromptCachePlan) -> None:
        from cortex_replay.prompt.markers import breakpoints_of, system_blocks  # noqa: PLC0415 - few need it

        placement = breakpoints_of(request)
        for warning in placement.warnings():
            logger.warning("%s", warning)
        self._texts = [text for text, _ in system_blocks(request)]
        if len(self._texts) < len(plan.system_cuts):
            logger.warning("the cache plan cuts another system text than this; it is sent in one block")
        for kept in placement.kept:
            if (marker := kept.cache.cache_control) is not None:
                self._behind[kept.place.name, kept.index] = marker

    def system(self) -> str | list[Block]:
        blocks = [self._mark("SYSTEM", i, text_block(text)) for i, text in enumerate(self._texts)]
        is_plain = len(blocks) == 1 and "cache_control" not in blocks[0]
        return self._texts[0] if is_plain else blocks

    def tools(self, tools: list[Any]) -> list[Any]:
        if isinstance(tools[-1], dict):
            tools[-1] = self._mark("TOOLS", 0, tools[-1])
        return tools

    def on_block(self, index: int, block: Block) -> Block:
        """The one block of a message that has no content of its own, such as a tool's result."""
        return self._mark("MESSAGES", index, block)

    def on_content(self, index: int, blocks: list[Block]) -> str | list[Block]:
        # A marker on a block of thinking is an error to the provider.
        if blocks and ("MESSAGES", index) in self._behind and blocks[-1].get("type") not in THINKING:
            return [*blocks[:-1], self._mark("MESSAGES", index, blocks[-1])]
        return simplest_content(blocks)

    def _mark(self, place: str, index: int, block: Block) -> Block:
        marker = self._behind.get((place, index))
        return block if marker is None else block | {"cache_control": marker}
