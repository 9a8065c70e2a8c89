"""Pages with conversations, made of stores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cortex_replay.canonical import JsonValue
from cortex_replay.history.calls import HistoryCall, read_calls
from cortex_replay.history.mcp_calls import McpCall, read_mcp_calls
from cortex_replay.history.story import tell_story
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Answer, Fixture, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import TimedChunk
from cortex_replay.types import LlmMessage, LlmRequest, StreamChunk, TokenUsage, ToolCall, ToolCallDelta
from cortex_replay.view.documents.parts import Cutter, answer_document, request_document
from cortex_replay.view.documents.stories import StoryTeller
from cortex_replay.view.documents.threads import ALONE, threads_of
from cortex_replay.view.page import file_page
from cortex_replay.view.shapes import CallDocument, Spent

MODEL = "claude-haiku-5-5"
RUN = "20261116T063024Z-3f2a"
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


def write_store(root: Path, turns: Iterable[tuple[Sequence[LlmMessage], Answer]], system: str = "") -> Path:
    """A store with a conversation: what is new in each turn, and the answer."""
    store = Store.create(root)
    messages: list[LlmMessage] = []
    for number, (new, answer) in enumerate(turns, start=1):
        messages += new
        request = LlmRequest(MODEL, system, list(messages), max_tokens=64)
        seconds = f"{number // 60:02}:{number % 60:02}"
        meta: dict[str, JsonValue] = {"run": RUN, "asked_at": f"2026-11-16T06:{seconds}Z", "call": number}
        store.add(Fixture.of(request, answer, meta=meta))
        messages.append(LlmMessage("assistant", answer.text, tool_calls=answer.tool_calls))
    store.commit()
    return root


def spent_of(calls: Iterable[tuple[str, TokenUsage | None]]) -> Spent:
    usages = [usage for _, usage in calls if usage is not None]
    return {
        "prompt": sum(usage.prompt_tokens for usage in usages),
        "completion": sum(usage.completion_tokens for usage in usages),
        "cached": sum(usage.cached_tokens or 0 for usage in usages),
        "cache_write": sum(usage.cache_write_tokens or 0 for usage in usages),
    }


def name_of(path: str) -> str:
    return path.rsplit("/", 1)[-1].removesuffix(".json")


def documents_of(root: Path, failures: dict[int, Exchange] | None = None) -> dict[str, Any]:
    """All documents of a page with one story, ``all``."""
    store, cut = Store.open(root), Cutter(Redactor())
    calls, every = read_calls(store).calls, read_mcp_calls(store)
    threads = threads_of(calls)
    teller = StoryTeller(cut, name_of, spent_of, threads, lambda call: failures or {})
    story = teller.tell("all", "everything", tell_story(calls, every))
    found: dict[str, Any] = {
        "page": {
            "title": "Recordings",
            "version": "0",
            "made_at": "",
            "screens": ["conversation"],
            "is_file": True,
        },
        "stories/all": story,
        "store": {"runs": [_row(len(calls), len(every))], "tests": []},
    }
    for call in calls:
        thread = threads.get(call.path, ALONE)
        found[f"calls/{name_of(call.path)}"] = _frame(call) | {
            "continues": thread.continues and name_of(thread.continues),
            "before": thread.before,
            "goes_back": thread.goes_back,
            "system_in": thread.system_in and name_of(thread.system_in),
            "tools_in": thread.tools_in and name_of(thread.tools_in),
            **request_document(call.request, cut, thread),
            "answers": [answer_document(call.said, cut, call.model)] if call.said else [],
        }
    for made in every:
        mcp = {"server": made.server, "method": made.method, "parameters": made.parameters}
        found[f"calls/{name_of(made.path)}"] = _frame(made) | {
            "mcp": {**mcp, "messages": list(made.messages), "then": []}
        }
    for stored in {call.path for call in (*calls, *every)}:
        text = (root / stored).read_text()
        found[f"raw/{name_of(stored)}"] = {"text": text, "bytes": len(text.encode()), "is_redacted": False}
    return found


def _row(calls: int, mcp_calls: int) -> dict[str, Any]:
    spent = spent_of([])
    return {
        "id": "all",
        "name": "everything",
        "calls": calls,
        "mcp_calls": mcp_calls,
        "seconds": None,
        "spent": spent,
    }


def _frame(call: HistoryCall | McpCall) -> dict[str, Any]:
    is_model = isinstance(call, HistoryCall)
    empty: dict[str, Any] = dict.fromkeys(CallDocument.__annotations__)
    return empty | {
        "id": name_of(call.path),
        "kind": "model" if is_model else "mcp",
        "who": call.model if isinstance(call, HistoryCall) else call.server,
        "key": call.prompt_hash if isinstance(call, HistoryCall) else call.key,
        "path": call.path,
        "blake3": "0" * 64,
        "index_line": f'path = "{call.path}"',
        "before": 0,
        "goes_back": False,
        "system": "",
        "messages": [],
        "tools": [],
        "settings": {},
        "answers": [],
        "blocks": [],
        "facts": [("run", call.run)],
        "is_cut": False,
    }


def write_page(file: Path, documents: dict[str, Any]) -> str:
    """Write a page, and say where it is."""
    file.write_text("".join(file_page("Recordings", documents.items())))
    return file.as_uri()
