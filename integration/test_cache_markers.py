"""The Anthropic SDK with cache markers against a real server, on the roads that users take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store

BIN = Path(sys.executable).parent
TESTS = """
import anthropic
import pytest

from cortex_replay.prompt import PromptBlock, blocks_for_wire

BLOCKS = [PromptBlock.cached_long("policy", "Be kind.\\n\\nBe brief."), PromptBlock.plain("day", "Monday.")]
SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}
TOOL = {"name": "look", "input_schema": {"type": "object"}, "cache_control": LONG}


@pytest.mark.llm_replay
@pytest.mark.parametrize("way", ["whole", "stream"])
def test_it(way):
    prompt = blocks_for_wire(BLOCKS, "anthropic-messages")
    talk = [{"role": "user", "content": [{"type": "text", "text": f"Say {way}.", "cache_control": SHORT}]}]
    asked = dict(
        model="tiny", max_tokens=8, tools=[TOOL], messages=talk,
        system=prompt.anthropic_system(), extra_headers=prompt.label_headers(),
    )
    with anthropic.Anthropic(max_retries=0) as client:
        if way == "whole":
            client.messages.create(**asked)
            return
        with client.messages.stream(**asked) as stream:
            stream.until_done()
"""
NOTES: Any = {
    "markers": [
        {"at": "tool", "number": 1, "ttl": "1h"},
        {"at": "system", "number": 1, "ttl": "1h"},
        {"at": "message", "number": 1, "ttl": "5m"},
    ],
    "blocks": [{"end": 19, "label": "policy"}, {"end": 28, "label": "day"}],
}
ROADS = {
    "plugin": ["pytest", "-q", "--llm-mode", "once"],
    "workers": ["pytest", "-q", "--llm-mode", "once", "-n", "2"],
    "gateway": ["cortex-replay", "record", "--store", "llm", "--", "pytest", "-q"],
    "gateway and workers": ["cortex-replay", "record", "--store", "llm", "--", "pytest", "-q", "-n", "2"],
}


@pytest.mark.parametrize("road", ROADS)
def test_markers_and_labels_reach_the_recording(road: str, llamacpp: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nllm_store = llm\n")
    environment = {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "ANTHROPIC_BASE_URL": llamacpp,
        "ANTHROPIC_API_KEY": "canary-key-1234567890",
    }

    done = subprocess.run(
        [str(BIN / ROADS[road][0]), *ROADS[road][1:]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    store = Store.open(tmp_path / "llm")
    found = [store.get(stored.model, stored.prompt_hash, stored.scope) for stored in store.list(scoped=True)]
    metas: list[Any] = [fixture.meta for fixture in found]
    assert len(metas) == 2
    assert [meta["cache"] for meta in metas] == [NOTES, NOTES]
    assert len({meta["run"] for meta in metas}) == 1
    assert all(meta["asked_at"][:19] <= meta["recorded_at"][:19] for meta in metas)
