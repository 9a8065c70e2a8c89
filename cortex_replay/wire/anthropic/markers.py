"""Cache markers: where a request's plan puts them into a body."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cortex_replay.canonical import JsonValue
from cortex_replay.redact.logs import logger_of
from cortex_replay.types import LlmRequest, PromptCachePlan
from cortex_replay.wire.body import Block, content_and_parts, text_block
from cortex_replay.wire.plans import MARKER, make_marker

__all__ = ["Markers", "simplest_content"]

logger = logger_of(__name__)


def simplest_content(blocks: list[Block]) -> str | list[Block]:
    """A single plain text as a string."""
    text, parts = content_and_parts(blocks)
    return list(parts) or text


class Markers:
    """Places the cache markers of a request's plan.

    Those that a client put somewhere itself are sent as they were; of the others, as many as the provider
    takes beside them.
    """

    def __init__(self, request: LlmRequest) -> None:
        self._texts = [request.system]
        self._behind: dict[tuple[str, int, int | None], Block] = {}
        self.of_prompt: Block | None = None
        """The marker on the prompt as a whole."""
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
        places = {"TOOLS": "tool", "SYSTEM": "system", "MESSAGES": "message"}
        for kept in placement.kept:
            if (marker := kept.cache.cache_control) is not None:
                index = len(request.tools) - 1 if kept.place.name == "TOOLS" else kept.index
                self._behind[places[kept.place.name], index, None] = marker
        for mark in plan.marks:
            if mark.place == "prompt":
                self.of_prompt = make_marker(mark.ttl)
            else:
                self._behind[mark.place, mark.index, mark.part] = make_marker(mark.ttl)

    def system(self) -> str | list[Block]:
        blocks = self._mark_system([text_block(text) for text in self._texts])
        is_plain = len(blocks) == 1 and MARKER not in blocks[0]
        return self._texts[0] if is_plain else blocks

    def odd_system(self, blocks: JsonValue) -> JsonValue:
        """A system prompt whose blocks are more than text."""
        if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
            return blocks
        return self._mark_system(blocks)

    def _mark_system(self, blocks: Iterable[Any]) -> list[Any]:
        marked, count = [], 0
        for block in blocks:
            # What has no text is no block of the system text, and is not counted.
            marked.append(self._mark("system", count, block) if block.get("text") else block)
            count += bool(block.get("text"))
        return marked

    def tools(self, tools: list[Any]) -> list[Any]:
        return [
            self._mark("tool", i, tool) if isinstance(tool, dict) else tool for i, tool in enumerate(tools)
        ]

    def on_result(self, index: int, result: Block) -> Block:
        """The one block of a message that is a tool's result."""
        return self._mark("message", index, result)

    def on_blocks(self, index: int, blocks: list[Block]) -> list[Block]:
        """The blocks of a message."""
        marked = self.within_result(index, blocks)
        return [*marked[:-1], self._mark("message", index, marked[-1])] if marked else marked

    def within_result(self, index: int, blocks: Sequence[Block]) -> list[Block]:
        """The blocks of a tool's result."""
        return [self._mark("message", index, block, part) for part, block in enumerate(blocks)]

    def _mark(self, place: str, index: int, block: Block, part: int | None = None) -> Block:
        marker = self._behind.get((place, index, part))
        return block if marker is None else block | {MARKER: marker}
