"""The shipped sample store, from which ``fixtures/`` and ``INDEX.toml`` are made.

``python tests/sample_store.py`` writes them anew; a test asserts that this changes nothing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from cortex_replay import LlmRequest, StreamChunk, TokenUsage, ToolCall, ToolCallDelta, blake3_hex
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey, TimedChunk
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import FixtureRow, Index

MODEL = "sample-model-1"
SYSTEM = "You are a terse assistant in a test suite."
META = {"recorded_at": "2026-11-15T00:00:00Z", "adapter": "handwritten", "version": "0.1.0"}
WEATHER_TOOL = {
    "name": "get_weather",
    "description": "The weather in a city, now.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
CALL = ToolCall(id="toolu_01", name="get_weather", arguments={"city": "Paris"})


def _ask(content: str, **settings: object) -> LlmRequest:
    fields = {"system": SYSTEM, "messages": content, "temperature": 0.0, "max_tokens": 256} | settings
    return LlmRequest.from_dict({"model": MODEL, **fields})


def _fixture(request: LlmRequest, *answers: Answer) -> Fixture:
    return Fixture(FixtureKey(request.model, request.prompt_hash()), answers, request, dict(META))


def sample_fixtures() -> list[Fixture]:
    """One of each kind: plain, JSON, tool call and its result, stream, several answers."""
    with_tool = _ask("What is the weather in Paris?", tools=[WEATHER_TOOL])
    after_tool = _ask(
        "",
        tools=[WEATHER_TOOL],
        messages=[
            {"role": "user", "content": "What is the weather in Paris?"},
            {"role": "assistant", "content": "", "tool_calls": [CALL.to_dict()]},
            {"role": "tool", "content": "18 C, sunny", "tool_call_id": CALL.id},
        ],
    )
    schema = {
        "type": "object",
        "properties": {"capital": {"type": "string"}, "population": {"type": "integer"}},
        "required": ["capital", "population"],
    }
    return [
        _fixture(
            _ask("What is the capital of France?"),
            Answer("Paris.", usage=TokenUsage(24, 2), finish_reason="stop"),
        ),
        _fixture(
            _ask("Capital and population of France, as JSON.", json_schema=schema),
            Answer(
                '{"capital": "Paris", "population": 68000000}',
                parsed_json={"capital": "Paris", "population": 68000000},
                usage=TokenUsage(61, 18),
                finish_reason="stop",
            ),
        ),
        _fixture(
            with_tool,
            Answer("", tool_calls=(CALL,), usage=TokenUsage(88, 21), finish_reason="tool_calls"),
        ),
        _fixture(
            after_tool,
            Answer("It is 18 °C and sunny in Paris.", usage=TokenUsage(117, 12), finish_reason="stop"),
        ),
        _fixture(
            _ask("Count to three, in Japanese."),
            Answer(
                "一、二、三 🙂",
                usage=TokenUsage(26, 9),
                finish_reason="stop",
                stream=(
                    TimedChunk(212, StreamChunk("一、")),
                    TimedChunk(240, StreamChunk("二、")),
                    TimedChunk(271, StreamChunk("三 ")),
                    TimedChunk(305, StreamChunk("🙂")),
                    TimedChunk(306, StreamChunk("", "stop")),
                ),
            ),
        ),
        _fixture(
            _ask("What is the weather in Oslo? Stream it.", tools=[WEATHER_TOOL]),
            Answer(
                "One moment.",
                tool_calls=(ToolCall(id="toolu_02", name="get_weather", arguments={"city": "Oslo"}),),
                usage=TokenUsage(92, 25),
                finish_reason="tool_calls",
                stream=(
                    TimedChunk(180, StreamChunk("One moment.")),
                    TimedChunk(220, StreamChunk("", None, (ToolCallDelta(0, "toolu_02", "get_weather"),))),
                    TimedChunk(231, StreamChunk("", None, (ToolCallDelta(0, arguments='{"city":'),))),
                    TimedChunk(243, StreamChunk("", None, (ToolCallDelta(0, arguments=' "Oslo"}'),))),
                    TimedChunk(244, StreamChunk("", "tool_calls")),
                ),
            ),
        ),
        _fixture(
            _ask("Roll a die.", temperature=1.0),
            Answer("Four.", usage=TokenUsage(21, 2), finish_reason="stop"),
            Answer("One.", usage=TokenUsage(21, 2), finish_reason="stop"),
            Answer("Six!", usage=TokenUsage(21, 3), finish_reason="stop"),
        ),
    ]


def sample_files() -> dict[str, bytes]:
    """Every file of the sample store by its path, the index among them."""
    files = {}
    rows = []
    for fixture in sample_fixtures():
        data = render_fixture(fixture)
        digest = blake3_hex(data)
        path = f"fixtures/{MODEL}/{fixture.key.prompt_hash[:16]}-{digest[:8]}.json"
        files[path] = data
        rows.append(FixtureRow(path, digest, *fixture.key))
    return files | {"INDEX.toml": render_index(Index(rows)).encode()}


if __name__ == "__main__":
    root = Path(__file__).parent.parent
    shutil.rmtree(root / "fixtures", ignore_errors=True)
    for path, data in sample_files().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
