"""Cache markers in chat completions: OpenAI's own, and those that OpenRouter and others hand on to providers
that take some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cortex_replay.types import CacheMark, LlmMessage, LlmRequest, LlmRole
from cortex_replay.wire.body import Block, Body, blocks_of, text_block
from cortex_replay.wire.openai_chat.messages import is_field, reasoning_field
from cortex_replay.wire.plans import Time, block_count, make_marker, mark_block, marker_time, marks_in

__all__ = ["ChatMarkers", "marks_on_messages"]


def marks_on_messages(given: Sequence[Block], messages: Sequence[LlmMessage]) -> Iterator[CacheMark]:
    """The markers of a conversation: on the blocks of a message, or on the message for all of it.

    Args:
        given: As they were sent.
        messages: What each became.
    """
    for i, (sent, message) in enumerate(zip(given, messages, strict=True)):
        content = sent.get("content")
        if isinstance(content, list):
            thoughts = message.role is LlmRole.ASSISTANT and reasoning_field(sent) is not None
            yield from marks_in(content, i, block_count(message), before=int(thoughts))
        if (time := marker_time(sent)) is not None:
            yield CacheMark("message", i, time)


class ChatMarkers:
    """Puts the markers that a client placed itself into a body; what else a plan asks for is not for here."""

    def __init__(self, request: LlmRequest) -> None:
        self._request = request
        marks = () if request.cache is None else request.cache.marks
        self._behind: dict[tuple[str, int, int | None], Time] = {
            (mark.place, mark.index, mark.part): mark.ttl for mark in marks
        }
        of_prompt = self._behind.get(("prompt", 0, None))
        self.of_prompt: Block | None = None if of_prompt is None else make_marker(of_prompt)

    def system(self) -> Any:
        """The content of the system message: in blocks only where a marker stands on one."""
        if not any(place == "system" for place, _, _ in self._behind):
            return self._request.system
        from cortex_replay.prompt.markers import system_blocks  # noqa: PLC0415 - few have markers

        texts = [text_block(text) for text, _ in system_blocks(self._request)]
        return [self._mark(block, "system", i) for i, block in enumerate(texts)]

    def tools(self, tools: list[Any]) -> list[Any]:
        return [
            self._mark(tool, "tool", i) if isinstance(tool, dict) else tool for i, tool in enumerate(tools)
        ]

    def message(self, index: int, message: LlmMessage, encoded: Body) -> Body:
        """A message as it is sent, with its markers."""
        parts = {part for place, i, part in self._behind if (place, i) == ("message", index)}
        if not parts:
            return encoded
        blocks, _ = blocks_of(message, f"messages[{index}]")
        # What is a field of the message is no block of its content.
        places = [k for k, block in enumerate(blocks) if not is_field(message, block)]
        content = encoded.get("content")
        said = [text_block(content)] if isinstance(content, str) and content else content
        marked = dict(encoded)
        for part in parts:
            place = block_count(message) - 1 if part is None else part
            if isinstance(said, list) and place in places and len(said) == len(places):
                at = places.index(place)
                said = [*said[:at], self._mark(said[at], "message", index, part), *said[at + 1 :]]
                marked["content"] = said
            elif part is None:
                marked = self._mark(marked, "message", index)
        return marked

    def _mark(self, block: Block, place: str, index: int, part: int | None = None) -> Block:
        time = self._behind.get((place, index, part))
        return block if time is None else mark_block(block, time)
