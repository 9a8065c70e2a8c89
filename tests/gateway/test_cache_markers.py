"""What a client tells a provider's cache is in the recording, on the road that the client took."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from click.testing import CliRunner

import cortex_replay
from cortex_replay import Store
from cortex_replay.cli.main import main
from cortex_replay.prompt import PromptBlock, blocks_for_wire
from cortex_replay.prompt.breakpoint_notes import restore_breakpoints
from cortex_replay.wire import WIRES
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import FakeProvider, serving_in_thread, whole
from tests.gateway.conftest import Opened
from tests.gateway.upstream import REAL_KEY

SHORT: Any = {"type": "ephemeral"}
LONG: Any = {"type": "ephemeral", "ttl": "1h"}
BLOCKS = [
    PromptBlock.cached_long("policy", "Be kind.\n\nBe brief."),
    PromptBlock.plain("täglich, heute", "Monday."),
]
TOOL: Any = {"name": "look", "input_schema": {"type": "object"}, "cache_control": LONG}
ASKED: Any = {
    "model": "claude-m",
    "max_tokens": 9,
    "tools": [TOOL],
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Where?", "cache_control": SHORT}]}],
}
NOTES: Any = {
    "markers": [
        {"at": "tool", "number": 1, "ttl": "1h"},
        {"at": "system", "number": 1, "ttl": "1h"},
        {"at": "message", "number": 1, "ttl": "5m"},
    ],
    "blocks": [{"end": 19, "label": "policy"}, {"end": 28, "label": "täglich, heute"}],
}
UNLABELLED: Any = NOTES | {"blocks": [{"end": 19}, {"end": 28}]}


def ask_claude(base_url: str | None = None) -> None:
    """Three markers: with the labels of the blocks as a stream, without them whole."""
    prompt = blocks_for_wire(BLOCKS, "anthropic-messages")
    system: Any = prompt.anthropic_system()
    options: Any = {} if base_url is None else {"base_url": base_url, "api_key": "unused"}
    with anthropic.Anthropic(max_retries=0, **options) as client:
        with client.messages.stream(**ASKED, system=system, extra_headers=prompt.label_headers()) as answer:
            answer.until_done()
        client.messages.create(**ASKED | {"max_tokens": 10}, system=system)


def notes_in(root: Path) -> list[Any]:
    store = Store.open(root)
    fixtures = [store.get(stored.model, stored.prompt_hash) for stored in store.list()]
    fixtures.sort(key=lambda fixture: str((fixture.meta or {})["asked_at"]))
    assert len({(fixture.meta or {})["run"] for fixture in fixtures}) == 1
    assert all(isinstance((fixture.meta or {})["answered_ms"], int) for fixture in fixtures)
    return [(fixture.meta or {}).get("cache") for fixture in fixtures]


def test_a_gateway_notes_them_and_passes_them_on(
    opened: Opened, provider: FakeProvider, tmp_path: Path
) -> None:
    with opened("record", provider.url) as gateway:
        ask_claude(f"{gateway.url()}/anthropic")

    assert notes_in(tmp_path / "store") == [NOTES, UNLABELLED]
    sent = [json.dumps(received.json) for received in provider.received]
    assert [one.count('"cache_control"') for one in sent] == [3, 3]
    assert not any("policy" in f"{received.headers}{received.body!r}" for received in provider.received)

    store = Store.open(tmp_path / "store")
    found = [store.get(stored.model, stored.prompt_hash) for stored in store.list()]
    again = [
        WIRES["anthropic-messages"].encode_request(restore_breakpoints(one.request, one.meta))
        for one in found
        if one.request is not None
    ]
    asked = [{name: value for name, value in r.json.items() if name != "stream"} for r in provider.received]
    assert sorted(again, key=str) == sorted(asked, key=str)

    asked_for = ["explain", found[0].key.prompt_hash, "--store", str(tmp_path / "store")]
    shown = CliRunner().invoke(main, asked_for)
    assert shown.exit_code == 0
    assert shown.output.count(" 1h") == 2
    assert "no breakpoint was recorded" not in shown.output


def test_interception_notes_them_too(
    monkeypatch: pytest.MonkeyPatch, provider: FakeProvider, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", REAL_KEY)

    with cortex_replay.intercept(tmp_path / "store", mode="record"):
        ask_claude()

    assert notes_in(tmp_path / "store") == [NOTES, UNLABELLED]
    assert not any("policy" in f"{received.headers}{received.body!r}" for received in provider.received)


def test_openai_s_cache_key_is_noted_as_a_hash(
    opened: Opened, provider: FakeProvider, tmp_path: Path
) -> None:
    with (
        opened("record", provider.url) as gateway,
        openai.OpenAI(base_url=f"{gateway.url()}/openai/v1", api_key="unused", max_retries=0) as client,
    ):
        for key in ("tenant-of-ada", "tenant-of-bob"):
            client.responses.create(
                model="gpt-m", input=key, prompt_cache_key="tenant-of-ada", prompt_cache_retention="24h"
            )

    first, second = notes_in(tmp_path / "store")
    assert first == second
    assert first["retention"] == "24h"
    assert len(first["key"]) == 16
    assert "tenant" not in str(first)


def test_a_hostile_label_is_short_and_harmless(
    opened: Opened, provider: FakeProvider, tmp_path: Path
) -> None:
    labels = [f"\x1b[2J{REAL_KEY}", "x" * 30_000]
    header = {
        "x-cortex-replay-labels": ",".join("".join(f"%{ord(c):02x}" for c in label) for label in labels)
    }
    body = {**ASKED, "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}

    with opened("record", provider.url) as gateway:
        httpx.post(f"{gateway.url()}/anthropic/v1/messages", json=body, headers=header, timeout=60)

    ((first, second),) = [note["blocks"] for note in notes_in(tmp_path / "store")]
    assert "\x1b" not in first["label"]
    assert REAL_KEY not in str(first)
    assert second["label"] == "x" * 79 + "…"


def test_the_provider_s_own_reason_for_a_miss_is_noted(opened: Opened, tmp_path: Path) -> None:
    reason = {"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 900}}
    answer = DIALECTS[0].answer("Hi") | {"diagnostics": reason}
    body = {**ASKED, "diagnostics": {"previous_message_id": "msg_1"}}

    with serving_in_thread(whole(answer)) as provider, opened("record", provider.url) as gateway:
        httpx.post(f"{gateway.url()}/anthropic/v1/messages", json=body, timeout=60)

    (note,) = notes_in(tmp_path / "store")
    assert note["reason"] == "tools_changed"
