"""``cortex-replay export``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cortex_replay import Answer, Fixture, LlmMessage, LlmRequest, Store, ToolCall
from cortex_replay.engine.http.opaque import opaque_key
from cortex_replay.store.exchange import Exchange
from tests.builder import StoreBuilder
from tests.cli.commands import (
    key_of,
    run,
)


def test_export(builder: StoreBuilder, tmp_path: Path) -> None:
    """A flat store with the same answers; never into a folder that has something in it."""
    builder.add("Roll a die.", "one", "two")
    builder.write()
    target = tmp_path / "out/crtx"
    result = run("export", "--crtx", target, "--store", builder.root)

    assert result.exit_code == 0
    assert "  further answers: 1 (it gives the first one to every call)\n" in result.stderr
    exported = Store.open(target)
    assert exported.layout == "flat"
    assert {item[:2] for item in exported.list()} == {item[:2] for item in builder.open().list()}
    assert exported.get(*key_of("What is one?")) == builder.open().get(*key_of("What is one?"))
    assert "model = " not in (target / "INDEX.toml").read_text()
    assert run("export", "--crtx", target, "--store", builder.root).exit_code == 1
    assert run("export", "--crtx", builder.root / "fixtures/out", "--store", builder.root).exit_code == 1
    assert builder.findings() == []
    empty = tmp_path / "empty"
    empty.mkdir()
    counts = json.loads(run("export", "--crtx", empty, "--json", "--store", builder.root).stdout)
    assert (counts["fixtures"], counts["with_more_answers"]) == (3, 1)


def request_of(*messages: LlmMessage, **settings: Any) -> LlmRequest:
    return LlmRequest("m", "", messages, settings.pop("temperature", 0.0), 16, **settings)


def test_what_the_other_program_will_not_see_is_counted_by_kind(tmp_path: Path) -> None:
    user = LlmMessage("user", "Hello.")
    call = ToolCall(id="call_1", name="look", arguments={})
    rich = Answer("a", finish_reason="length", tool_calls=(call,), reasoning="Hm.")
    recorded = [
        Fixture.of(request_of(user), "plain"),
        Fixture.of(request_of(user, json_schema={"type": "object"}), Answer("{}", {})),
        Fixture.of(request_of(LlmMessage("tool", "x")), rich, "second", "third"),
        Fixture.of(request_of(user, temperature=None), "a"),
        Fixture.of(request_of(user, top_p=0.5), "a"),
        Fixture.of(request_of(user, LlmMessage("system", "x")), "a"),
        Fixture.of(request_of(LlmMessage("user", "", parts=[{"type": "image", "data": "AA=="}])), "a"),
        Fixture.of(request_of(LlmMessage("assistant", "", tool_calls=[call])), "a"),
        Fixture.of(request_of(LlmMessage("user", "At <time>.")), "a", meta={"normalisers": ["time"]}),
        Fixture.of(request_of(LlmMessage("user", "In ⟦cwd⟧.")), "a", meta={"bindings": ["cwd"]}),
    ]
    store = Store.create(tmp_path / "store")
    for fixture in recorded:
        store.add(fixture)
    store.add_exchange(Exchange.failure(recorded[0].key, 2, {"status": 500, "body": "no"}))
    asked: Any = {"upstream": "openai", "method": "GET", "path": "/v1/models", "query": [], "body": None}
    store.add_exchange(Exchange({"status": 200, "body": "[]"}, key=opaque_key(asked), request=asked))
    store.commit()
    result = run("export", "--crtx", tmp_path / "out", "--store", tmp_path / "store", "--json")
    report = json.loads(result.stdout)

    assert report["fixtures"] == len(recorded)
    assert {one["kind"]: one["count"] for one in report["left_out"]} == {
        "failure": 1,
        "exchange": 1,
        "answer": 2,
        "request": 5,
        "normalised": 1,
        "bound": 1,
        "tool_calls": 1,
        "reasoning": 1,
        "finish_reason": 1,
    }
    assert all(one["what"] and one["why"] for one in report["left_out"])


def test_a_plain_store_is_seen_whole(builder: StoreBuilder, tmp_path: Path) -> None:
    plain = StoreBuilder(tmp_path / "plain")
    plain.add_fixture(Fixture.of(request_of(LlmMessage("user", "Hello.")), "Hello."))
    result = run("export", "--crtx", tmp_path / "out", "--store", plain.write())

    assert (result.exit_code, result.stderr) == (0, f"wrote 1 fixture to {tmp_path / 'out'}\n")


def test_wrong_usage(builder: StoreBuilder) -> None:
    assert run("export", "--store", builder.root).exit_code == 2
