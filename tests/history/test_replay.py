"""Recorded calls, replayed through simulated caches."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.history.calls import read_calls
from cortex_replay.history.replay import CacheReplay, replay_calls
from cortex_replay.store import Answer, TimedChunk
from cortex_replay.types import StreamChunk, TokenUsage
from tests.history.recordings import Recording, record

TEXT = "Umbrella, 12 EUR. " * 400


def replay(root: Path, *recordings: Recording) -> CacheReplay:
    return replay_calls(read_calls(record(root, *recordings)).calls)


def call(at: float, *turns: str, **more: object) -> Recording:
    given = {"usage": TokenUsage(2010, 5, 0, 2000), "markers": [("system", 1)], **more}
    return Recording(at, {"catalogue": TEXT}, turns or ["x"], **given)  # type: ignore[arg-type]


def reads(found: CacheReplay) -> list[int]:
    return [row.outcome.read for row in found.calls if row.outcome]


def test_order_and_times_are_those_of_the_recording(tmp_path: Path) -> None:
    found = replay(tmp_path, call(700, "c"), call(0, "a"), call(299, "b"))

    assert [row.seconds for row in found.calls] == [0, 299, 700]
    assert reads(found) == [0, 2000, 0]  # five minutes from the second on


def test_an_hour_is_an_hour(tmp_path: Path) -> None:
    assert reads(replay(tmp_path, call(0, "a", ttl="1h"), call(3599, "b", ttl="1h"))) == [0, 2000]


def test_parallel_calls_find_nothing(tmp_path: Path) -> None:
    """What one writes is there when its answer begins."""
    stream = (TimedChunk(2000, StreamChunk("Y")), TimedChunk(9000, StreamChunk("es.", "stop")))
    streamed = Answer("Yes.", usage=TokenUsage(2010, 5), finish_reason="stop", stream=stream)
    found = replay(tmp_path, call(0, "a", answer=streamed), call(1.9, "b"), call(2.1, "c"))

    assert reads(found) == [0, 0, 2000]


def test_another_provider_s_calls_are_left_alone(tmp_path: Path) -> None:
    found = replay(tmp_path, call(0, "a", model="some-model", meta={"provider": "groq"}), call(1, "b"))

    assert [row.provider for row in found.calls] == [None, "anthropic"]
    assert found.calls[0].outcome is None
    assert found.calls[0].tokens == 2010


def test_a_setting_that_changed_splits_the_cache(tmp_path: Path) -> None:
    two = [("system", 1), ("message", 1)]
    first, second = (
        call(at, "a", markers=two, usage=TokenUsage(2010, 5), fields={"tool_choice": choice})
        for at, choice in ((0, None), (9, "none"))
    )

    found = replay(tmp_path, first, second)
    assert reads(found)[1] < 2010
    assert [reason.why for row in found.calls[1:] if row.outcome for reason in row.outcome.reasons] == [
        "settings"
    ]


@pytest.mark.parametrize(("keys", "read"), [(("a", "a"), 1920), (("a", "b"), 0)])
def test_openai_s_cache_key_counts(tmp_path: Path, keys: tuple[str, str], read: int) -> None:
    usage = TokenUsage(2010, 5, 0)
    origin = {"provider": "openai", "wire": "openai-chat"}
    calls = [
        Recording(
            9 * i, {"rules": TEXT}, [str(i)], usage, model="gpt-4o", meta={**origin, "cache": {"key": key}}
        )
        for i, key in enumerate(keys)
    ]

    assert reads(replay(tmp_path, *calls)) == [0, read]


def test_blocks_have_the_labels_of_the_recording(tmp_path: Path) -> None:
    found = replay(tmp_path, call(0, "a"))

    assert [block.name for block in found.calls[0].prompt.blocks] == ["block 'catalogue'", "turn 1 (user)"]
    assert found.text_of(found.calls[0].prompt.blocks[1].digest) == "a"


def test_nothing_is_nothing() -> None:
    assert replay_calls([]).calls == ()


def test_what_gemini_was_told_to_keep_is_read_from_the_first_call_on(tmp_path: Path) -> None:
    """The system text and the first turn are kept; the second turn is not."""
    meta = {"wire": "gemini-generate", "provider": "gemini", "cache": {"kept": 1}}
    turns = "The rules of the house. " * 100, "Understood.", "And pets?"
    fields = {"markers": [], "model": "gemini-2.5-flash", "usage": TokenUsage(3000, 5), "meta": meta}
    found = replay(tmp_path, call(0, *turns, **fields))

    blocks = found.calls[0].prompt.blocks
    assert reads(found) == [sum(block.tokens for block in blocks[:2])]
    assert 2900 < reads(found)[0] < 3000


@pytest.mark.parametrize(
    ("counted", "read"), [(2500, 2500), (2999, 2999), (3000, 3000), (0, None), (3001, None)]
)
def test_what_is_kept_is_as_large_as_was_read(tmp_path: Path, counted: int, read: int | None) -> None:
    """The provider counts it; a count that cannot be is not believed, and its size is an estimate then."""
    meta = {"wire": "gemini-generate", "provider": "gemini", "cache": {"kept": 1}}
    turns = "The rules of the house. " * 100, "Understood.", "And pets?"
    usage = TokenUsage(3000, 5, counted)
    found = replay(tmp_path, call(0, *turns, markers=[], model="gemini-2.5-flash", usage=usage, meta=meta))

    estimate = sum(block.tokens for block in found.calls[0].prompt.blocks[:2])
    assert reads(found) == [estimate if read is None else read]
    assert found.calls[0].call is not None
    assert found.calls[0].call.tokens == 3000


def test_openai_adds_a_breakpoint_unless_it_is_told_not_to(tmp_path: Path) -> None:
    origin = {"wire": "openai-chat", "provider": "openai"}
    fields = {"markers": [], "model": "gpt-5.6-luna", "usage": TokenUsage(2000, 5)}
    found = [
        replay(tmp_path / str(len(cache)), call(0, meta={**origin, "cache": cache}, **fields))
        .calls[0]
        .outcome
        for cache in ({}, {"mode": "explicit"})
    ]

    assert [outcome.write_5m for outcome in found if outcome] == [2000, 0]


def test_llama_cpp_reads_its_own_answer(tmp_path: Path) -> None:
    """A client that sends it back as it came has it read, too: all but the new question."""
    fields = {"markers": [], "model": "llama3", "meta": {"wire": "ollama-chat", "provider": "ollama"}}
    said = Answer("Two days, as a rule. " * 20, usage=TokenUsage(2000, 100))
    found = replay(
        tmp_path,
        call(0, "How long?", answer=said, **fields),
        call(9, "How long?", said.text, "Thanks.", usage=TokenUsage(2110, 5), **fields),
        call(19, "How long?", "Ages.", "Thanks.", usage=TokenUsage(2020, 5), **fields),
    )

    assert [row.provider for row in found.calls] == ["llamacpp"] * 3
    _, again, other = reads(found)
    assert again == 2110 - found.calls[1].prompt.blocks[-1].tokens
    assert other == sum(block.tokens for block in found.calls[2].prompt.blocks[:2])
