"""Stores in which a conversation is stored once, made by hand from whole ones: no code under test helps."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from cortex_replay import Answer, Fixture, LlmRequest, TokenUsage, ToolCall, blake3_hex
from cortex_replay.store.fixture import FixtureKey, RequestLink
from cortex_replay.store.fixture_json import parse_fixture, render_fixture
from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import FixtureRow, Index, PartRow, Row, ScopedRow, parse_index

MODEL = "talk-model"
SYSTEM = "You are an agent that answers briefly. " * 80
"""Large enough for a part."""
TOOLS = [
    {
        "name": f"tool_{number}",
        "description": "Looks something up in a list, and says what is there. " * 10,
        "input_schema": {"type": "object", "properties": {"name": {"type": "string"}}},
    }
    for number in range(5)
]


def turns(count: int = 4, topic: str = "numbers", **settings: Any) -> list[LlmRequest]:
    """The requests of a conversation, each of which continues the one before."""
    messages: list[dict[str, Any]] = []
    found = []
    for number in range(1, count + 1):
        messages.append({"role": "user", "content": f"Turn {number}, about {topic}: what comes next? ⟦"})
        fields = {"model": MODEL, "system": SYSTEM, "tools": TOOLS, "max_tokens": 64, **settings}
        found.append(LlmRequest.from_dict({**fields, "messages": list(messages)}))
        if number == 2:
            call = ToolCall(id=f"call_{topic}", name="tool_1", arguments={"name": topic})
            messages.append({"role": "assistant", "content": "", "tool_calls": [call.to_dict()]})
            messages.append({"role": "tool", "content": "It is there.", "tool_call_id": call.id})
        else:
            messages.append({"role": "assistant", "content": f"Answer {number} about {topic}."})
    return found


TEST, OTHER = "tests/test_talk.py::test_it", "tests/test_talk.py::test_own"


def talk() -> list[tuple[Fixture, str]]:
    """Two conversations, a fork of one, a single question, and what one scope has, with the scope."""
    started = "2026-11-16T09:00:0"
    found = []
    for number, request in enumerate([*turns(), *turns(3, "letters")]):
        meta: dict[str, Any] = {
            "recorded_at": f"{started}{number}Z",
            "run": "20261116T090000Z-3f2a",
            "asked_at": f"{started}{number}.000Z",
            "scope": TEST,
            "call": number + 1,
        }
        usage = TokenUsage(100 * number + 900, 12)
        answer = Answer(f"Answer {number}.", usage=usage, finish_reason="stop")
        found.append((Fixture.of(request, answer, meta=meta), ""))
    fork, last = turns()[1], turns()[-1]
    longer = (*fork.messages, *LlmRequest(MODEL, messages="And now something else.").messages)
    found.append((Fixture.of(replace(fork, messages=longer), "Otherwise."), ""))
    found.append((Fixture.of(LlmRequest(MODEL, messages="Alone."), "Alone."), ""))
    found.append((Fixture.of(last, "Mine.", meta={"scope": OTHER}), OTHER))
    return found


def plain_talk() -> list[tuple[Fixture, str]]:
    """A conversation that crtx-llm can ask for: its system text is large, and it has no tools."""
    asked = [replace(request, tools=()) for request in turns(2, temperature=0.0)]
    return [(Fixture.of(request, f"Answer {number}."), "") for number, request in enumerate(asked, 1)]


def write_whole(root: Path, fixtures: Iterable[tuple[Fixture, str]] | None = None) -> Path:
    """A store whose files hold their whole requests; beside each fixture stands the scope that it is for."""
    rows: list[Row] = []
    for fixture, scope in talk() if fixtures is None else fixtures:
        data = render_fixture(fixture)
        digest = blake3_hex(data)
        path = f"fixtures/{fixture.key.model}/{fixture.key.prompt_hash[:16]}-{digest[:8]}.json"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
        row = FixtureRow(path, digest, *fixture.key)
        rows.append(ScopedRow(*row[:4], None, None, scope) if scope else row)
    (root / "INDEX.toml").write_text(render_index(Index.of(rows, {"format": 1, "key": 1})))
    return root


def make_short(root: Path, target: Path) -> Path:
    """A copy of a store in which a request that continues another has only what is new."""
    shutil.copytree(root, target, ignore=shutil.ignore_patterns(".cortex-replay"))
    index = parse_index((target / "INDEX.toml").read_text())
    files = {row.path: row for row in index.rows if isinstance(row, FixtureRow | ScopedRow)}
    fixtures = {path: parse_fixture((target / path).read_bytes()) for path in files}
    requests = {fixture.key: fixture.request for fixture in fixtures.values()}
    moved: dict[str, FixtureRow] = {}
    parts: dict[str, PartRow] = {}
    for path, fixture in fixtures.items():
        request = fixture.request
        if request is None:
            continue
        link = _link(request, requests, target, parts)
        if link is not None:
            data = render_fixture(replace(fixture, request=None, link=link))
            digest = blake3_hex(data)
            now = f"{path.removesuffix('.json')[:-8]}{digest[:8]}.json"
            (target / path).unlink()
            (target / now).write_bytes(data)
            moved[path] = FixtureRow(now, digest, *fixture.key, link.continues)
    rows = [_move(row, moved.get(row.path)) for row in index.rows]
    text = render_index(Index.of([*rows, *parts.values()], index.header))
    (target / "INDEX.toml").write_text(text)
    return target


def _link(
    request: LlmRequest,
    requests: dict[FixtureKey, LlmRequest | None],
    root: Path,
    parts: dict[str, PartRow],
) -> RequestLink | None:
    for count in range(len(request.messages) - 1, 0, -1):
        start = replace(request, messages=request.messages[:count])
        if requests.get(FixtureKey(request.model, start.prompt_hash())) == start:
            return RequestLink(start.prompt_hash(), request.messages[count:])
    own = request.to_dict()
    named: dict[str, str] = {}
    for name in ("system", "tools"):
        if name in own and len(orjson.dumps(own[name])) > 2048:
            data = orjson.dumps({name: own.pop(name)}, option=orjson.OPT_INDENT_2) + b"\n"
            named[name] = digest = blake3_hex(data)
            place = root / f"fixtures/parts/{name}-{digest[:16]}.json"
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(data)
            parts[digest] = PartRow(place.relative_to(root).as_posix(), digest)
    return RequestLink(None, (), own, named) if named else None


def _move(row: Row, now: FixtureRow | None) -> Row:
    if now is None or not isinstance(row, FixtureRow | ScopedRow):
        return row
    return row._replace(path=now.path, blake3=now.blake3, continues=now.continues)
