"""[cache-report]: ``cortex-replay cache`` over an agent's recordings, against ``verify`` of the same store.

Both read, hash and parse every file; the report also lays every prompt out in blocks and simulates the run
with several placements of markers. The conversations grow to 80 blocks, 47 on average, as an agent's do.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.data import MODEL, Texts, write_store
from benchmarks.measure import cpu_of_child, say, smallest
from benchmarks.table import Goal, Row
from cortex_replay import LlmRequest, TokenUsage
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey

__all__ = ["run"]

_COUNT = 10_000
_ROUNDS = 3
_TURNS = 23
_START = datetime(2026, 11, 16, 6, 30, 24, tzinfo=UTC)
_LIMIT_S = 5.0


def run(folder: Path, _: Collection[str]) -> list[Row]:
    say(f"writing {_COUNT:,} calls of an agent")
    root = folder / "store"
    write_store(root, agent_calls(_COUNT))
    say("measuring what a report on them takes")
    program = [sys.executable, "-m", "cortex_replay"]
    # The model has a name of ours; Claude's rules are the ones with markers.
    report = [*program, "cache", "--as", "anthropic"]
    taken = smallest(
        _ROUNDS,
        {
            "cache": lambda: cpu_of_child(report, root),
            "verify": lambda: cpu_of_child([*program, "verify"], root),
        },
    )
    what = f"a report on {_COUNT:,} calls, the whole command"
    return [
        Row("cache-report", what, taken["cache"], goal=Goal("seconds", _LIMIT_S)),
        Row("cache-report", what, taken["cache"], "verify", taken["verify"], Goal("slower", 2)),
    ]


def agent_calls(count: int) -> Iterator[Fixture]:
    """An agent's conversations, one after the other, each call with markers and what the provider counted."""
    texts = Texts(seed=7)
    tools = [_tool(i, texts) for i in range(10)]
    blocks = [texts.between(1500, 2000).replace("\n", " ") for _ in range(3)]
    system = "\n\n".join(blocks)
    fixed = sum(len(str(tool)) for tool in tools) + len(system)
    now, number = _START, 0
    while number < count:
        messages: list[dict[str, Any]] = [{"role": "user", "content": f"{number}: {texts.between(200, 600)}"}]
        cached = 0
        for turn in range(_TURNS):
            size = (fixed + sum(len(str(message)) for message in messages)) // 4
            request = LlmRequest(MODEL, system, messages, 0.0, 1024, tools=tools)
            usage = TokenUsage(size, 80, cached, size - cached)
            answer = Answer(texts.between(100, 300), usage=usage, finish_reason="tool_use")
            key = FixtureKey(MODEL, request.prompt_hash())
            yield Fixture(key, (answer,), request, _meta(now, blocks, len(messages)))
            cached, now, number = size, now + timedelta(seconds=7), number + 1
            if number == count:
                return
            call = {
                "id": f"toolu_{number}",
                "name": f"tool_{turn % 10}",
                "arguments": {"path": texts.between(20, 60)},
            }
            messages = [
                *messages,
                {"role": "assistant", "content": texts.between(80, 200), "tool_calls": [call]},
                {"role": "tool", "content": texts.between(200, 900), "tool_call_id": call["id"]},
            ]


def _tool(number: int, texts: Texts) -> dict[str, Any]:
    properties = {"path": {"type": "string", "description": texts.between(50, 100)}}
    schema = {"type": "object", "properties": properties}
    return {"name": f"tool_{number}", "description": texts.between(200, 400), "input_schema": schema}


def _meta(now: datetime, blocks: list[str], messages: int) -> dict[str, Any]:
    ends = [sum(map(len, blocks[: i + 1])) + 2 * i for i in range(len(blocks))]
    places = (("tool", 10), ("system", len(blocks)), ("message", messages))
    return {
        "recorded_at": (now + timedelta(seconds=3)).isoformat(timespec="seconds"),
        "adapter": "gateway",
        "wire": "anthropic-messages",
        "version": "0.1.0",
        "run": "20261116T063024Z-3f2a",
        "asked_at": now.isoformat(timespec="milliseconds"),
        "cache": {
            "markers": [{"at": at, "number": n, "ttl": "5m"} for at, n in places],
            "blocks": [{"end": end, "label": f"part {i}"} for i, end in enumerate(ends)],
        },
    }
