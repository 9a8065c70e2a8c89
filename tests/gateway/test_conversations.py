"""A conversation through the gateway: recorded turn by turn, stored once, replayed without a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
from click.testing import CliRunner

from cortex_replay.cli.main import main
from cortex_replay.gateway import Gateway
from cortex_replay.store.index.index import parse_index
from tests.adapters.fake_provider import FakeProvider
from tests.gateway.conftest import Opened

TURNS = 8
TURN = 2000
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"note": "n" * 3000}}}]


def talk(gateway: Gateway, client: httpx.Client, turns: int = TURNS) -> list[str]:
    """What an agent is told: each time it sends all that was said before. It looks at nothing."""
    messages: list[dict[str, Any]] = []
    answers: list[str] = []
    for number in range(turns):
        messages.append({"role": "user", "content": f"{number} ".ljust(TURN // 2, "x")})
        body: dict[str, Any] = {"model": "m", "messages": messages, "tools": TOOLS, "tool_choice": "none"}
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}}
        reply = client.post(f"{gateway.url('openai')}/chat/completions", json=body, timeout=60)
        assert reply.status_code == 200, reply.text
        message = reply.json()["choices"][0]["message"]
        answers.append(message["content"])
        messages.append({"role": "assistant", "content": message["content"]})
    return answers


def sizes(root: Path) -> list[int]:
    return sorted(path.stat().st_size for path in (root / "fixtures/m").glob("*.json"))


def test_a_conversation_is_recorded_once_and_replayed(
    opened: Opened, provider: FakeProvider, tmp_path: Path
) -> None:
    """In two runs: the second goes on where the first one ended. A turn is as large as what is new in it."""
    with httpx.Client() as client:
        with opened("once", provider.url) as gateway:
            begun = talk(gateway, client, TURNS // 2)
        with opened("once", provider.url) as gateway:
            answers = talk(gateway, client)
        with opened() as gateway:
            assert talk(gateway, client) == answers
    assert answers[: TURNS // 2] == begun
    assert len(provider.received) == TURNS

    root = tmp_path / "store"
    index = parse_index((root / "INDEX.toml").read_text())
    assert sum(row.continues is not None for row in index.fixtures) == TURNS - 1
    assert len(index.parts) == 1
    assert sizes(root)[-1] < 2 * sizes(root)[0]
    assert CliRunner().invoke(main, ["verify", "--store", str(root)]).exit_code == 0


def test_a_turn_whose_start_was_changed_is_not_served(
    opened: Opened, provider: FakeProvider, tmp_path: Path
) -> None:
    """Neither by a gateway, which reads on demand, nor by any other reader: it is a matter of integrity."""
    root = tmp_path / "store"
    with httpx.Client() as client:
        with opened("once", provider.url) as gateway:
            talk(gateway, client, 3)
        index = parse_index((root / "INDEX.toml").read_text())
        first = next(row for row in index.fixtures if row.continues is None)
        with opened() as gateway:
            path = root / first.path
            path.write_bytes(path.read_bytes().replace(b"0 xx", b"1 xx", 1))
            asked = provider.received[-1].json
            reply = client.post(f"{gateway.url('openai')}/chat/completions", json=asked, timeout=60)
            assert reply.status_code >= 400
            assert "integrity" in reply.text

    done = CliRunner().invoke(main, ["verify", "--store", str(root), "--json"])
    assert done.exit_code == 5
    assert [finding["code"] for finding in json.loads(done.stdout)["findings"]] == ["mismatch"]
