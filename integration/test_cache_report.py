"""``cortex-replay cache`` on what real SDKs recorded of a real server, which says what its cache gave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.llamacpp import is_available, start_llamacpp

BIN = Path(sys.executable).parent
# A conversation that grows, then the same with another first line of the system prompt, each time.
CONVERSATION = """
import openai

RULES = "Refunds take five days. " * 20
with openai.OpenAI(max_retries=0) as client:
    for greeting in ("It is 09:15.", "It is 09:16."):
        talk = [{"role": "system", "content": greeting + " " + RULES}]
        for question in ("Where is it?", "And now?", "When will it come?"):
            talk.append({"role": "user", "content": question})
            answer = client.chat.completions.create(
                model="tiny", messages=talk, max_tokens=6, temperature=0
            )
            talk.append({"role": "assistant", "content": answer.choices[0].message.content})
"""
LABELS = """
import anthropic

from cortex_replay.prompt import PromptBlock, blocks_for_wire

with anthropic.Anthropic(max_retries=0) as client:
    for time in ("09:15", "09:16", "09:17"):
        policy = PromptBlock.cached_short("policy", f"It is {time}.")
        rules = PromptBlock.cached_short("rules", "Be kind. " * 150)
        prompt = blocks_for_wire([policy, rules], "anthropic-messages")
        client.messages.create(
            model="claude-sonnet-4-5", max_tokens=4, system=prompt.anthropic_system(),
            messages=[{"role": "user", "content": "Hi"}], extra_headers=prompt.label_headers(),
        )
"""


def run(folder: Path, url: str, *command: str) -> str:
    environment = {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(folder),
        "OPENAI_BASE_URL": f"{url}/v1",
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_API_KEY": "canary-key-1234567890",
        "ANTHROPIC_API_KEY": "canary-key-1234567890",
    }
    done = subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama.cpp's, with its cache as it starts by itself."""
    if not is_available():
        pytest.skip("xllamacpp has no wheel for this platform")
    options = ["--cache-slots", "4", "--cache-ram", "512", "--unified"]
    with start_llamacpp(tmp_path_factory.mktemp("llamacpp"), options=options) as url:
        yield url


Record = Callable[..., Any]


@pytest.fixture
def record(tmp_path: Path, server: str) -> Record:
    """Records what a program asks, and gives the report."""

    def report(program: str, *options: str) -> Any:
        (tmp_path / "program.py").write_text(program)
        run(tmp_path, server, "cortex-replay", "record", "--", str(BIN / "python"), "program.py")
        return json.loads(run(tmp_path, server, "cortex-replay", "cache", "--json", *options))

    return report


def test_the_simulator_agrees_with_the_server_call_by_call(record: Record) -> None:
    """From the recordings alone: sizes, order and answers are what they say."""
    report = record(CONVERSATION, "--as", "llamacpp")

    calls = report["calls"]
    assert len(calls) == 6
    read = [call["reported"]["read"] for call in calls]
    assert read[:3] == [0, calls[0]["tokens"], calls[1]["tokens"]]  # the server reads what it had
    assert [call["explanations"] for call in calls if call["differs"]] == []


def test_the_block_that_changed_is_named_by_its_label(record: Record) -> None:
    report = record(LABELS, "--as", "anthropic")

    assert len(report["runs"]) == 1
    (loss,) = report["losses"]
    assert (loss["why"], loss["block"], loss["calls"]) == ("changed", "block 'policy'", 2)
    assert loss["looks_like"] == "a time"
    assert report["costs"]["advice"]["block"] == "block 'policy'"
