"""What a recording notes of a prompt's cache may be written by anybody, and read by anybody."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cortex_replay import LlmRequest, Store
from cortex_replay.bindings import Surroundings
from cortex_replay.cli.main import main
from cortex_replay.engine.adapter import ScopeAdapter
from cortex_replay.engine.core import RunCore
from cortex_replay.history import replay
from cortex_replay.history.calls import read_calls
from cortex_replay.history.replay import replay_calls
from cortex_replay.printable import UNPRINTABLE
from cortex_replay.prompt import PromptBlock, to_request
from cortex_replay.prompt.breakpoint_notes import note_cache, restore_plan
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Answer, Fixture
from cortex_replay.testing import EchoAdapter
from cortex_replay.types import CacheMark, PromptCachePlan, TokenUsage
from tests.history.recordings import Recording, record

SECRET = "q9Zr" * 30
STEERING = "\x1b[31m\u202e##[error]\r\n::set-output name=a::b"


def test_no_more_is_read_than_would_be_written() -> None:
    marker: Any = {"at": "prompt", "ttl": "5m"}
    last: Any = {"at": "message", "number": 1, "ttl": "1h"}
    plan = restore_plan(LlmRequest("m", "s"), {"cache": {"markers": [*[marker] * 10_000, last]}})
    assert plan is not None
    assert len(plan.marks) == 64
    assert plan.marks[-1] == CacheMark("message", 0, "1h")

    text = "\n\n".join("x" * 1025)
    blocks: Any = [{"end": 3 * i + 1, "label": "a"} for i in range(1025)]
    assert restore_plan(LlmRequest("m", text), {"cache": {"blocks": blocks}}) is None
    plan = restore_plan(LlmRequest("m", text[: 3 * 1024 - 2]), {"cache": {"blocks": blocks[:1024]}})
    assert plan is not None
    assert len(plan.labels) == 1024

    plan = restore_plan(LlmRequest("m", "x"), {"cache": {"blocks": [{"end": 1, "label": "a" * 1_000_000}]}})
    assert plan is not None
    assert len(plan.labels[0]) == 80


def test_a_label_from_a_store_steers_nobody_s_terminal(tmp_path: Path) -> None:
    usage = TokenUsage(5000, 9, 0, 4000)
    label = f"{STEERING}{'x' * 9_000}"
    record(
        tmp_path / "store",
        *(
            Recording(
                at, {label: f"It is {at}.", "rules": "Be kind. " * 900}, usage=usage, markers=[("system", 2)]
            )
            for at in (1, 2)
        ),
    )

    said = CliRunner().invoke(main, ["cache", "--store", str(tmp_path / "store")])
    assert said.exit_code == 0
    assert "block '" in said.output
    assert "##[" not in said.output
    assert not UNPRINTABLE.search(said.output.replace("\n", ""))
    assert not [line for line in said.output.splitlines() if line.lstrip().startswith("::")]
    assert "x" * 100 not in said.output


def test_equal_notes_of_two_texts_are_read_for_each(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store")
    notes: Any = {
        "markers": [{"at": "system", "number": 2, "ttl": "5m"}],
        "blocks": [{"end": 3, "label": "a"}, {"end": 8, "label": "b"}],
    }
    for call, system in enumerate(("one\n\ntwo", "another text")):
        store.add(Fixture.of(LlmRequest("m", system), "Yes.", meta={"call": call, "cache": notes}))
    store.commit()

    one, other = (call.request.cache for call in read_calls(Store.open(tmp_path / "store")).calls)
    assert one is not None
    assert other is not None
    assert (one.labels, one.marks[0].index) == (("a", "b"), 1)
    assert (other.labels, other.marks[0].index) == ((), 0)


@pytest.mark.parametrize("before", ["", "the key of today is "])
def test_no_part_of_a_secret_in_a_label_is_stored(tmp_path: Path, before: str) -> None:
    store = Store.create(tmp_path / "store")
    redactor = Redactor()
    redactor.learn(SECRET)
    run = RunCore(store, "record", lambda: redactor, surroundings=Surroundings.of({}, str(tmp_path)))
    request = to_request(
        [PromptBlock.cached_short(f"{before}{SECRET}", "Be kind."), PromptBlock.plain("b", "Be brief.")],
        wire="anthropic-messages",
        model="claude-m",
        messages="Where?",
    )

    async def ask() -> None:
        async with ScopeAdapter(run.open_scope(), EchoAdapter()) as adapter:
            await adapter.complete(request)

    asyncio.run(ask())
    run.commit()

    written = "".join(path.read_text() for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert '"label": "b"' in written
    assert SECRET[:8] not in written


def test_only_words_are_noted_of_what_a_client_asks_of_a_cache() -> None:
    def noted(word: str) -> dict[str, Any]:
        return note_cache(LlmRequest("m", cache=PromptCachePlan(retention=word, mode=word)), None)

    assert noted("in-memory") == {"retention": "in-memory", "mode": "in-memory"}
    assert not noted(SECRET)
    assert not noted(STEERING)


def test_a_small_file_with_many_answers_to_a_long_prompt_takes_no_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of each are a megabyte, and millions of blocks to replay."""
    answers = [Answer(f"{i}", usage=TokenUsage(3000, 1)) for i in range(11)]
    request = LlmRequest("claude-m", messages=[{"role": "user", "content": "q"}] * 10)
    store = Store.create(tmp_path / "store")
    store.add(Fixture.of(request, *answers))
    store.commit()

    calls = read_calls(Store.open(tmp_path / "store")).calls
    first, *others = (row.prompt.blocks for row in replay_calls(calls).calls)
    assert all(blocks is first for blocks in others), "the same prompt again takes no more memory"

    monkeypatch.setattr(replay, "_MOST_BLOCKS", 110)
    assert len(replay_calls(calls).calls) == 11
    monkeypatch.setattr(replay, "_MOST_BLOCKS", 109)
    said = CliRunner().invoke(main, ["cache", "--store", str(tmp_path / "store")])
    assert said.exit_code == 2
    assert "the prompts of these 11 calls have more than 109 blocks" in said.output
    assert "name one run, or one test" in said.output
