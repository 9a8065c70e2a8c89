"""A long conversation with a real SDK, recorded by a command and by workers of pytest: stored once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex_replay import Store
from cortex_replay.store.index.index import parse_index
from tests.adapters.fake_provider import FakeProvider
from tests.gateway.upstream import REAL_KEY, model_server

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
TURNS = 80
TURN = 4_000

TALK = f"""
import openai

client = openai.OpenAI()
messages = [{{"role": "system", "content": "You know a lot. " * 300}}]
for number in range({TURNS}):
    messages.append({{"role": "user", "content": f"question {{number}} ".ljust({TURN // 2}, "q")}})
    reply = client.chat.completions.create(model="m", messages=messages)
    messages.append({{"role": "assistant", "content": reply.choices[0].message.content}})
print(len(messages), messages[-1]["content"][:30])
"""

TESTS = """
import openai
import pytest

def conversation(turns):
    messages = [{"role": "user", "content": "question 0"}]
    for number in range(1, turns):
        messages.append({"role": "assistant", "content": f"You said: question {number - 1}"})
        messages.append({"role": "user", "content": f"question {number}"})
    return messages

@pytest.mark.llm_replay
@pytest.mark.parametrize("turns", range(1, 25))
def test_turn(turns):
    reply = openai.OpenAI().chat.completions.create(model="m", messages=conversation(turns))
    assert reply.choices[0].message.content == f"You said: question {turns - 1}"
"""


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with model_server() as serving:
        yield serving


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=folder,
        env={"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder)} | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def live(provider: FakeProvider) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"{provider.url}/v1", "OPENAI_API_KEY": REAL_KEY}


def continued(root: Path) -> int:
    return sum(row.continues is not None for row in parse_index((root / "INDEX.toml").read_text()).fixtures)


def test_a_command_that_talks_for_80_turns(provider: FakeProvider, tmp_path: Path) -> None:
    """Recorded with a server, replayed without one; three times its text at most, and every rule holds."""
    (tmp_path / "talk.py").write_text(TALK)
    recorded = run(
        tmp_path, "cortex-replay", "record", "--store", "llm", "--", "python", "talk.py", **live(provider)
    )
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    assert len(provider.received) == TURNS
    replayed = run(tmp_path, "cortex-replay", "replay", "--store", "llm", "--", "python", "talk.py")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert replayed.stdout == recorded.stdout
    assert f"{TURNS} hits, 0 misses" in replayed.stderr

    root = tmp_path / "llm"
    size = sum(path.stat().st_size for path in (root / "fixtures").rglob("*.json"))
    assert size <= 3 * TURNS * TURN
    assert continued(root) == TURNS - 1
    assert run(tmp_path, "cortex-replay", "verify", "--strict", "llm").returncode == 0

    first = next(
        row for row in parse_index((root / "INDEX.toml").read_text()).fixtures if row.continues is None
    )
    path = root / first.path
    path.write_bytes(path.read_bytes().replace(b"question 0", b"question 1"))
    assert run(tmp_path, "cortex-replay", "verify", "llm").returncode == 5
    broken = run(tmp_path, "cortex-replay", "replay", "--store", "llm", "--", "python", "talk.py")
    assert broken.returncode != 0
    assert "the store is not what its index says" in broken.stderr


def test_workers_that_record_turns_of_one_conversation(provider: FakeProvider, tmp_path: Path) -> None:
    """Each in its own process and in any order; one commit, in which each turn continues the one before."""
    (tmp_path / "test_talk.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nllm_store = llm\n")
    Store.create(tmp_path / "llm")
    plain = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly")
    recorded = run(tmp_path, "pytest", *plain, "-n", "3", "--llm-mode", "once", **live(provider))
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    assert len(provider.received) == 24
    assert continued(tmp_path / "llm") == 23
    for options in ((), ("-n", "2")):
        replayed = run(tmp_path, "pytest", *plain, *options, OPENAI_API_KEY="none")
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
        assert "24 hits, 0 misses" in replayed.stdout
    assert run(tmp_path, "cortex-replay", "verify", "--strict", "llm").returncode == 0
