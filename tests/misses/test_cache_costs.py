"""A miss says which block was edited, and what that costs where the prompt was cached."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import (
    LlmMessage,
    LlmRequest,
    NoFixture,
    PromptCachePlan,
    RecordingAdapter,
    ReplayAdapter,
    TokenUsage,
    blake3_hex,
)
from cortex_replay.prompt import PromptBlock, to_request
from cortex_replay.store.fixture import Answer
from cortex_replay.testing import EchoAdapter
from cortex_replay.wire import WIRES
from tests.builder import StoreBuilder, fixture_of
from tests.engine.http.harness import PATHS, ask, run_over

MODEL = "claude-sonnet-4-5"
ANTHROPIC = "anthropic-messages"


def prompt(policy: str = "be kind", facts: str = "f") -> LlmRequest:
    blocks = [
        PromptBlock.cached_long("policy", f"{'p ' * 4000}{policy}"),
        PromptBlock.cached_short("facts", f"{'f ' * 2000}{facts}"),
        PromptBlock.plain("tone", "Be brief."),
    ]
    return to_request(blocks, wire=ANTHROPIC, model=MODEL, messages="Where is it?", max_tokens=9)


def record(root: Path, request: LlmRequest) -> None:
    async def go() -> None:
        async with RecordingAdapter(EchoAdapter(), root, mode="record") as adapter:
            await adapter.complete(request)

    asyncio.run(go())


def miss(root: Path, request: LlmRequest) -> list[str]:
    with pytest.raises(NoFixture) as caught:
        ReplayAdapter(root).sync.complete(request)
    return str(caught.value.explanation).splitlines()


def test_a_miss_names_the_block_and_what_its_edit_costs(tmp_path: Path) -> None:
    record(tmp_path, prompt())
    lines = miss(tmp_path, prompt("be very kind"))

    assert lines[2].startswith("  system, block 'policy': … ")
    assert lines[3].startswith("After this edit of block 'policy', ")
    assert " cached tokens are paid again. If every call has such an edit, that costs " in lines[3]
    assert lines[3].endswith(" input tokens per thousand calls.")
    assert sum("paid again" in line for line in lines) == 1


def test_two_blocks_are_named_by_the_first(tmp_path: Path) -> None:
    record(tmp_path, prompt())
    lines = miss(tmp_path, prompt("be very kind", "other facts"))

    assert lines[2].startswith("  system, from block 'policy' on: ")


def test_configured_prices_make_it_money(tmp_path: Path) -> None:
    record(tmp_path, prompt())
    (tmp_path / "cortex-replay.toml").write_text(
        f'currency = "USD"\n[prices."{MODEL}"]\ninput = 3\noutput = 15\n'
    )
    line = miss(tmp_path, prompt(facts="other facts"))[3]

    assert line.startswith("After this edit of block 'facts', ")
    assert " USD per call, " in line
    assert line.endswith(" USD per thousand calls.")


def test_an_edit_behind_what_is_cached_costs_nothing(tmp_path: Path) -> None:
    record(tmp_path, prompt())
    asked = to_request(
        [
            PromptBlock.cached_long("policy", f"{'p ' * 4000}be kind"),
            PromptBlock.cached_short("facts", f"{'f ' * 2000}f"),
            PromptBlock.plain("tone", "Be very brief."),
        ],
        wire=ANTHROPIC,
        model=MODEL,
        messages="Where is it?",
        max_tokens=9,
    )
    lines = miss(tmp_path, asked)

    assert lines[2].startswith("  system, block 'tone': ")
    assert not any("paid again" in line for line in lines)


@pytest.mark.parametrize(
    ("usage", "is_said"), [(None, False), (TokenUsage(5000, 1), False), (TokenUsage(5000, 1, 4096), True)]
)
def test_without_breakpoints_it_is_said_where_the_provider_read_from_its_cache(
    tmp_path: Path, usage: TokenUsage | None, is_said: bool
) -> None:
    """OpenAI caches by itself."""
    system = "You answer for the shop. " * 800
    recorded = LlmRequest("gpt-4o", system, "Where is it?")
    builder = StoreBuilder(tmp_path)
    builder.add_fixture(fixture_of(recorded, Answer("There.", usage=usage), meta={"provider": "openai"}))
    builder.write()
    lines = miss(tmp_path, LlmRequest("gpt-4o", f"You are new. {system}", "Where is it?"))

    said = [line for line in lines if "paid again" in line]
    assert [line.startswith("After this edit of system text, 4,992 ") for line in said] == [True] * is_said


def test_a_cache_key_is_known_again_by_its_hash(tmp_path: Path) -> None:
    """Of which a recording has no more: the prompt is found in its cache, but for the question."""
    system = "You answer for the shop. " * 800
    recorded = LlmRequest("gpt-4o", system, "Where is it?")
    meta: dict[str, object] = {"provider": "openai", "cache": {"key": blake3_hex(b"shop")[:16]}}
    builder = StoreBuilder(tmp_path)
    builder.add_fixture(fixture_of(recorded, Answer("There.", usage=TokenUsage(5000, 1, 4992)), meta=meta))
    builder.write()
    asked = LlmRequest("gpt-4o", system, "Where is she?", cache=PromptCachePlan(key="shop"))

    assert not any("paid again" in line for line in miss(tmp_path, asked))


def test_a_miss_over_http_says_it_too(tmp_path: Path) -> None:
    """With the markers that the client sent, which stand nowhere in the key."""

    def body(policy: str) -> dict[str, Any]:
        marker = {"cache_control": {"type": "ephemeral"}}
        text = {"type": "text", "text": f"{'p ' * 4000}{policy}", **marker}
        question = {"role": "user", "content": "Where is it?"}
        return {"model": MODEL, "max_tokens": 9, "system": [text], "messages": [question]}

    record(tmp_path, WIRES[ANTHROPIC].lift(body("be kind")))
    with run_over(tmp_path) as run:
        got = ask(run, "POST", PATHS[ANTHROPIC], body("be very kind"))

    assert got.status == 424
    assert "After this edit of system text, " in got.json["error"]["message"]


def test_a_secret_that_was_cut_out_is_no_edit(tmp_path: Path) -> None:
    """The recording has a placeholder there; what was edited is what was said later."""
    key = "sk-ant-api03-" + "Ab1" * 30

    def asked(said: str) -> LlmRequest:
        messages = [
            LlmMessage("user", f"The key is {key}."),
            LlmMessage("assistant", "a " * 4000),
            LlmMessage("user", said, id="last"),
        ]
        plan = PromptCachePlan(breakpoint_message_ids=("last",))
        return LlmRequest(MODEL, "", messages, cache=plan)

    record(tmp_path, asked("Where is it, and who has it?"))
    text = "\n".join(miss(tmp_path, asked("Where is it, and who had it?")))

    assert key not in text
    assert "After this edit of turn 3 (user" in text
