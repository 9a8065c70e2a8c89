"""Stores to look at, and what reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cortex_replay import Answer, Fixture, LlmRequest, Store
from cortex_replay.engine.http.opaque import opaque_key
from cortex_replay.mcp.questions import question_of
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import FixtureKey
from cortex_replay.types import TokenUsage, ToolCall
from cortex_replay.view.library import Library, Shelf
from cortex_replay.view.recordings import LookedAt, Surroundings

MODEL = "claude-haiku-5-5"
RUN = "20261116T063024Z-3f2a"
SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
TEST = "tests/test_agent.py::test_weather"


def fixture_of(question: str, *answers: Answer, system: str = "Be kind.", **meta: Any) -> Fixture:
    request = LlmRequest(MODEL, system, [{"role": "user", "content": question}])
    said = answers or (Answer(f"{question} Yes.", usage=TokenUsage(10, 2), finish_reason="stop"),)
    when = {"recorded_at": "2026-11-16T06:30:24Z", "run": RUN}
    return Fixture.of(request, *said, meta=when | meta)


def make_store(root: Path) -> Path:
    """A store with a recording of every kind."""
    store = Store.create(root)
    calling = Answer("", tool_calls=(ToolCall(id="t1", name="get_weather", arguments={"city": "Oslo"}),))
    store.add(fixture_of("What is the weather in Oslo?", calling, scope=TEST))
    store.add(fixture_of("Count.", Answer("One."), Answer("Two.")))
    store.add(fixture_of(f"My key is {SECRET}, keep it."))
    embedding = {"upstream": "openai", "method": "POST", "path": "/v1/embeddings", "query": []}
    _add_exchange(store, {**embedding, "body": {"input": "fjord"}}, {"status": 200, "body": '{"data": []}'})
    tool = question_of("files", "tools/call", {"name": "read_file", "arguments": {"path": "a.txt"}})
    read = {"content": [{"type": "text", "text": "the words of a file"}]}
    _add_exchange(store, tool, {"messages": [{"at_ms": 7, "result": read}]})
    key = FixtureKey(MODEL, fixture_of("Count.").key.prompt_hash)
    store.add_exchange(Exchange.failure(key, 2, {"status": 429, "body": "slow down"}))
    store.commit()
    return root


def _add_exchange(store: Store, request: dict[str, Any], wire: dict[str, Any]) -> None:
    store.add_exchange(Exchange(wire, key=opaque_key(request), request=request))


def library_of(
    root: Path, *runs: str, looked_at: LookedAt | None = None, shelf: Shelf | None = None, **around: Any
) -> Library:
    surroundings = Surroundings(Redactor([SECRET]), **around)
    return Library(root, surroundings, looked_at or LookedAt(runs), shelf)
