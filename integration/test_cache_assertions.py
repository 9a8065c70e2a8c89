"""A test that holds what its prompt costs, with the Anthropic SDK and a real server that counts tokens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BIN = Path(sys.executable).parent
TESTS = """
import anthropic
import pytest

from cortex_replay.prompt import PromptBlock, blocks_for_wire

TIMES = ("09:15:00", "09:15:05", "09:15:10")


def blocks(time):
    policy = PromptBlock.cached_short("policy", "Refunds take five days.")
    rules = PromptBlock.cached_short("rules", "Be kind. " * 150)
    return [policy, rules, PromptBlock.plain("clock", f"It is {time}.")]


@pytest.mark.llm_replay
def test_the_cache_is_read(llm_recording):
    with anthropic.Anthropic(max_retries=0) as client:
        for time in TIMES:
            prompt = blocks_for_wire(blocks(time), "anthropic-messages")
            client.messages.create(
                model="claude-sonnet-4-5", max_tokens=4, system=prompt.anthropic_system(),
                messages=[{"role": "user", "content": "Hi"}], extra_headers=prompt.label_headers(),
            )
    llm_recording.assert_cache(reads_at_least=0.8)
    llm_recording.assert_cache_cost(at_most=0.01)
"""
PRICES = 'currency = "USD"\n[prices]\n"claude-sonnet-4-5" = { input = 3, output = 15 }\n'
Run = tuple[str | None, list[str]]
"""A server, and options."""
EDIT = ('"Refunds take five days."', 'f"It is {time}."')


def run(folder: Path, url: str | None, *options: str) -> subprocess.CompletedProcess[str]:
    """As at a shell, with a key and a server or without both."""
    server = {} if url is None else {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "canary-key-1234567890"}
    return subprocess.run(
        [str(BIN / "pytest"), "-q", *options],
        cwd=folder,
        env={"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder)} | server,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_an_edit_that_makes_a_prompt_dearer_fails_the_test_and_names_its_block(
    llamacpp: str, tmp_path: Path
) -> None:
    """While it is recorded, and in replay without a key; before that, the miss is told as ever."""
    suite = tmp_path / "test_shop.py"
    suite.write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nllm_store = llm\n")
    (tmp_path / "cortex-replay.toml").write_text(PRICES)
    once: Run = (llamacpp, ["--llm-mode", "once", "--llm-keep-failed"])
    replay: Run = (None, [])
    for url, options in (once, replay):
        done = run(tmp_path, url, *options)
        assert done.returncode == 0, done.stdout + done.stderr
    suite.write_text(TESTS.replace(*EDIT))

    missed = run(tmp_path, None)
    assert missed.returncode == 1
    assert "nothing is recorded for claude-sonnet-4-5" in missed.stdout

    for url, options in (once, replay):
        done = run(tmp_path, url, *options)
        assert done.returncode == 1
        assert "CacheMissed: the prompt cache reads 0% of these prompts" in done.stdout
        assert "block 'policy' changed (2 calls)" in done.stdout
        assert "What changed looks like a time." in done.stdout
        assert "; the provider reported " in done.stdout
        assert "Move block 'policy' behind everything that is cached: it changed 2 times." in done.stdout
