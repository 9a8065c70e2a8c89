"""``cortex-replay show``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cortex_replay import Answer, TokenUsage
from cortex_replay.store.fixture import TimedChunk
from cortex_replay.types import StreamChunk, ToolCall
from tests.builder import MODEL, StoreBuilder, ask, fixture_of
from tests.cli.commands import (
    ROOT,
    run,
    spoil,
)


@pytest.fixture
def shown(tmp_path: Path) -> StoreBuilder:
    """A fixture with everything that can be shown, in texts that attack a terminal."""
    builder = StoreBuilder(tmp_path)
    request = ask(
        "",
        system="be \x1b]52;c;evil\x07 terse",
        messages=[
            {"role": "user", "content": "weather?", "parts": [{"type": "image"}]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c1", "name": "f", "arguments": {"a": 1}}],
            },
            {"role": "tool", "content": "::add-mask::x\n##[error]y", "tool_call_id": "c1", "is_error": True},
        ],
        seed=7,
    )
    answer = Answer(
        "\x9b31mred\u202eevil\r\nplain",
        usage=TokenUsage(1, 2, 3),
        finish_reason="stop",
        reasoning="hm",
        tool_calls=(ToolCall(name="g", arguments={}),),
        stream=(),
    )
    streamed = Answer("ab", stream=(TimedChunk(0, StreamChunk("a")), TimedChunk(7, StreamChunk("b", "stop"))))
    builder.add_fixture(
        fixture_of(request, answer, streamed, meta={"adapter": "claude", "recorded_at": "2026"})
    )
    builder.write()
    return builder


def test_show(shown: StoreBuilder) -> None:
    """Prompt, answers, usage, where from; nothing that steers a terminal or a CI log."""
    row = shown.fixtures[0]
    assert row.prompt_hash is not None
    result = run("show", row.prompt_hash[:8], "--store", shown.root)

    for part in (
        MODEL,
        row.prompt_hash,
        row.path,
        "claude",
        "terse",
        "weather?",
        "image",
        "call f (c1)",
        "tool (answers c1, an error)",
        "seed = 7",
        "answer 1 of 2",
        "answer 2 of 2",
        "reasoning",
        "call g",
        "cached tokens: 3",
        "2 chunks over 7 ms",
    ):
        assert part in result.stdout
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", result.stdout)
    assert not re.search(r"^\s*::", result.stdout, re.MULTILINE)
    assert "##[" not in result.stdout
    assert "\\x1b]52;c;evil\\x07" in result.stdout
    assert "\x9b31mred" in run("show", row.path, "--raw", "--store", shown.root).stdout


def test_nothing_that_a_fixture_says_can_start_a_line(tmp_path: Path) -> None:
    """Line feeds in names, ids, reasons and meta are spelled out, so that no CI runner takes a command."""
    builder = StoreBuilder(tmp_path)
    evil = "x\n::error::forged"
    request = ask(
        "",
        model=evil,
        messages=[{"role": "user", "content": ""}, {"role": "tool", "content": "", "tool_call_id": evil}],
    )
    builder.add_fixture(fixture_of(request, Answer("", finish_reason=evil), meta={evil: evil}))
    builder.write()
    row = builder.fixtures[0]
    for result in (run("list", "--store", tmp_path), run("show", row.path, "--store", tmp_path)):
        assert result.exit_code == 0
        assert "forged" in result.stdout
        assert not re.search("^::", result.stdout, re.MULTILINE)
    assert "\u202e" not in run("list", "--json", "--store", tmp_path).stdout


def test_show_for_programs_is_the_file_itself(shown: StoreBuilder) -> None:
    """Once it is trusted: the same values, and with --raw the same bytes."""
    row = shown.fixtures[0]
    result = run("show", row.path, "--json", "--store", shown.root)
    raw = run("show", row.path, "--json", "--raw", "--store", shown.root)

    assert json.loads(shown.files[row.path]) == json.loads(result.stdout)
    assert shown.files[row.path] == raw.stdout_bytes


def test_show_of_a_fixture_without_its_request(tmp_path: Path) -> None:
    """As crtx-llm writes it."""
    result = run(
        "show", "acb149", "--model", "other-model", "--store", ROOT / "tests/vectors/replay_fixtures"
    )

    assert result.exit_code == 0
    assert "does not hold its request" in result.stdout


def test_show_needs_exactly_one(builder: StoreBuilder) -> None:
    """None is exit 3, several is exit 2 with the choices."""
    none = run("show", "ffff", "--store", builder.root)
    assert none.exit_code == 3
    assert "no fixture fits ffff" in none.stderr

    several = run("show", "acb149", "--store", ROOT / "tests/vectors/replay_fixtures")
    assert several.exit_code == 2
    assert "other-model" in several.stderr
    assert run("show", "", "--store", builder.root).exit_code == 3


def test_show_refuses_a_spoiled_fixture(builder: StoreBuilder) -> None:
    """Nothing of it is printed."""
    path = spoil(builder)
    result = run("show", path, "--store", builder.root)

    assert result.exit_code == 5
    assert result.stdout == ""
    assert "mismatch" in result.stderr


def test_wrong_usage() -> None:
    assert run("show").exit_code == 2
    assert run("show", "one", "two").exit_code == 2
