"""Conversations for tests: requests of which each continues the one before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cortex_replay import LlmRequest, Store, blake3_hex
from cortex_replay.store.fixture import Answer, Fixture
from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import FixtureRow, Index, PartRow, parse_index

MODEL = "talker"


def turns(count: int, *, ids: str = "call", **settings: Any) -> list[Fixture]:
    """Fixtures of one conversation, in which a tool is called now and then."""
    messages: list[dict[str, Any]] = []
    made: list[Fixture] = []
    for number in range(count):
        messages.append({"role": "user", "content": f"question {number}"})
        request = LlmRequest.from_dict(
            {"model": MODEL, "messages": list(messages), "max_tokens": 16, "system": "Be brief.", **settings}
        )
        made.append(Fixture.of(request, Answer(f"answer {number}", finish_reason="stop")))
        call = {"id": f"{ids}-{number}", "name": "look", "arguments": {"at": number}}
        messages.append({"role": "assistant", "content": f"answer {number}", "tool_calls": [call]})
        messages.append({"role": "tool", "content": "seen", "tool_call_id": call["id"]})
    return made


def commit(store: Store, *fixtures: Fixture) -> None:
    for fixture in fixtures:
        store.add(fixture)
    store.commit()


def document(store: Store, fixture: Fixture, scope: str = "") -> dict[str, Any]:
    """What the file of a fixture says."""
    read: dict[str, Any] = json.loads((store.root / store.path(*fixture.key, scope)).read_bytes())
    return read


def index_of(root: Path) -> Index:
    return parse_index((root / "INDEX.toml").read_text())


def rewrite(
    root: Path,
    path: str,
    change: Callable[[dict[str, Any]], object],
    row: Callable[[FixtureRow], FixtureRow] = lambda row: row,
) -> None:
    """Change what a file says, and list it with its right hash: what a stranger can do."""
    document = json.loads((root / path).read_bytes())
    change(document)
    data = json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
    (root / path).write_bytes(data)
    index = index_of(root)
    digest = blake3_hex(data)
    fixtures = [
        row(listed._replace(blake3=digest)) if listed.path == path else listed for listed in index.fixtures
    ]
    parts = [part._replace(blake3=digest) if part.path == path else part for part in index.parts]
    put_index(root, Index(fixtures, index.exchanges, index.header, index.scoped, parts))


def put_index(root: Path, index: Index) -> None:
    (root / "INDEX.toml").write_text(render_index(index))


def without_part(index: Index, part: PartRow) -> Index:
    rest = [row for row in index.parts if row != part]
    return Index(index.fixtures, index.exchanges, index.header, index.scoped, rest)
