"""Recorded runs to report on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cortex_replay.canonical import JsonValue
from cortex_replay.modes import Mode
from cortex_replay.store import Answer, Fixture, Store
from cortex_replay.types import LlmRequest, TokenUsage
from tests.engine.mcp.harness import Client, FakeServer, run_at

MODEL = "claude-haiku-5-5"
RUN = "20261116T063024Z-3f2a"
_START = datetime(2026, 11, 16, 6, 30, 24, tzinfo=UTC)


@dataclass(frozen=True)
class Recording:
    """One call as a gateway records it: system blocks by label, turns, markers behind both."""

    at: float
    system: dict[str, str] = field(default_factory=dict)
    turns: Sequence[str] = ("Where is it?",)
    usage: TokenUsage | None = None
    markers: Sequence[tuple[str, int]] = ()
    """Where they stand, and behind which tool, block or message, from 1."""
    ttl: str = "5m"
    model: str = MODEL
    run: str | None = RUN
    meta: dict[str, Any] = field(default_factory=dict)
    answer: Answer | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    """Of the request."""

    def fixture(self, number: int) -> Fixture:
        system = "\n\n".join(self.system.values())
        blocks: list[JsonValue] = []
        end = 0
        for label, text in self.system.items():
            end += len(text)
            blocks.append({"end": end, "label": label})
            end += 2
        markers: list[JsonValue] = [{"at": at, "number": n, "ttl": self.ttl} for at, n in self.markers]
        roles = ["user", "assistant"]
        turns = [{"role": roles[i % 2], "content": text} for i, text in enumerate(self.turns)]
        request = LlmRequest(self.model, system, turns, **self.fields)
        meta = {
            "adapter": "gateway",
            "wire": "anthropic-messages",
            "provider": "anthropic",
            "asked_at": (_START + timedelta(seconds=self.at)).isoformat(timespec="milliseconds"),
            "call": number,
            **({} if self.run is None else {"run": self.run}),
            **self.meta,
        }
        notes = {"markers": markers, "blocks": blocks, **self.meta.get("cache", {})}
        meta["cache"] = {name: value for name, value in notes.items() if value}
        return Fixture.of(request, self.answer or Answer("Yes.", usage=self.usage), meta=meta)


def record(root: Path, *recordings: Recording) -> Store:
    """A store with these recordings, in this order."""
    store = Store.create(root)
    for number, recording in enumerate(recordings, start=1):
        store.add(recording.fixture(number))
    store.commit()
    return Store.open(root, verify="on-read")


def record_list(root: Path, *tools: dict[str, Any], server: str = "files") -> None:
    """Record what an MCP server lists."""

    async def whole() -> None:
        run = run_at(root, Mode.RECORD)
        answer = {"tools": [*tools]}
        client = Client(run, FakeServer(lambda said: [{"id": said["id"], "result": answer}]), server)
        await client.ask("tools/list", {}, id=1)
        await client.session.close()
        run.commit()

    asyncio.run(whole())
