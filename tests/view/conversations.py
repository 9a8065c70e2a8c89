"""Stores with conversations, and pages of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cortex_replay.canonical import JsonValue
from cortex_replay.store import Answer, Fixture, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import TimedChunk
from cortex_replay.types import LlmMessage, LlmRequest, StreamChunk, ToolCall, ToolCallDelta
from cortex_replay.view.ids import story_id
from cortex_replay.view.page import file_page
from tests.view.stores import MODEL, RUN, library_of

STORY = story_id("run", RUN)
OVERLOADED: Any = {
    "status": 529,
    "headers": {"content-type": "application/json"},
    "body": '{"error": {"message": "Overloaded"}}',
}


def streamed(text: str, reasoning: str = "", calls: Sequence[ToolCall] = (), end: str = "stop") -> Answer:
    """An answer that came word by word, 20 ms apart, after 400 ms."""
    chunks = [StreamChunk("", reasoning=reasoning)] if reasoning else []
    chunks += [StreamChunk(f"{word} ") for word in text.split()]
    for number, call in enumerate(calls):
        written = json.dumps(call.arguments)
        chunks.append(StreamChunk("", tool_calls=(ToolCallDelta(number, call.id, call.name, written),)))
    chunks.append(StreamChunk("", end))
    timed = tuple(TimedChunk(400 + 20 * at, chunk) for at, chunk in enumerate(chunks))
    said = "".join(chunk.delta for chunk in chunks)
    return Answer(said, tool_calls=tuple(calls), reasoning=reasoning or None, finish_reason=end, stream=timed)


def write_store(
    root: Path,
    turns: Iterable[tuple[Sequence[LlmMessage], Answer]],
    *systems: str,
    failed: Sequence[int] = (),
) -> Path:
    """A store with a conversation.

    Args:
        root: Where it is made.
        turns: What is new in each, and the answer.
        systems: The system text of each turn; the last is that of all that follow.
        failed: Turns whose first attempt failed, from 1.
    """
    store = Store.create(root)
    messages: list[LlmMessage] = []
    for number, (new, answer) in enumerate(turns, start=1):
        messages += new
        system = systems[min(number, len(systems)) - 1] if systems else ""
        request = LlmRequest(MODEL, system, list(messages), max_tokens=64)
        seconds = f"{number // 60:02}:{number % 60:02}"
        meta: dict[str, JsonValue] = {"run": RUN, "asked_at": f"2026-11-16T06:{seconds}Z", "call": number}
        fixture = Fixture.of(request, answer, meta=meta)
        store.add(fixture)
        if number in failed:
            store.add_exchange(Exchange.failure(fixture.key, 1, OVERLOADED))
        messages.append(LlmMessage("assistant", answer.text, tool_calls=answer.tool_calls))
    store.commit()
    return root


def documents_of(root: Path) -> dict[str, Any]:
    """All documents of a store."""
    return dict(library_of(root).all())


def write_page(file: Path, documents: dict[str, Any]) -> str:
    """Write a page, and say where it is."""
    file.write_text("".join(file_page("Recordings", documents.items())))
    return file.as_uri()
