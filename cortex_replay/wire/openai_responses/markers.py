"""OpenAI's breakpoints in the items of Responses."""

from __future__ import annotations

from collections.abc import Collection

from cortex_replay.types import LlmRequest
from cortex_replay.wire.body import Block
from cortex_replay.wire.plans import mark_block

__all__ = ["ResponsesMarks", "mark_content"]


class ResponsesMarks:
    """Where the breakpoints of a request stand; markers of other providers are not for here."""

    def __init__(self, request: LlmRequest) -> None:
        self._request = request
        marks = () if request.cache is None else request.cache.marks
        self._marks = [mark for mark in marks if mark.ttl == "30m"]
        self.of_system = {mark.index for mark in self._marks if mark.place == "system"}

    def of_message(self, index: int) -> set[int | None]:
        """Behind which blocks of a message they stand; ``None`` is the last."""
        return {mark.part for mark in self._marks if (mark.place, mark.index) == ("message", index)}

    def system(self) -> list[Block]:
        """The system text in blocks."""
        from cortex_replay.prompt.markers import system_blocks  # noqa: PLC0415 - few have breakpoints

        texts: list[Block] = [
            {"type": "input_text", "text": text} for text, _ in system_blocks(self._request)
        ]
        return mark_content(texts, self.of_system)


def mark_content(content: list[Block], marked: Collection[int | None]) -> list[Block]:
    """The blocks of a message with breakpoints behind some."""
    last = len(content) - 1
    return [
        mark_block(block, "30m") if i in marked or (i == last and None in marked) else block
        for i, block in enumerate(content)
    ]
