"""Everything at once: conversations, scopes, other calls and a bucket, recorded here and replayed elsewhere.

Tests with the real OpenAI SDK record against a scripted model, through the plugin. The files leave the work
tree, the repository is cloned with another home, and all commands that read or change a store run there.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.remote.team import Machine
from integration.remote.upstream import MODEL, Upstream, start_upstream
from tests.servers.s3 import S3Server

TURNS: Final = 6
SUITE: Final = f"""\
import openai
import pytest

SYSTEM = "You are an agent with a long and careful prompt. " * 80


def converse(name):
    client = openai.OpenAI()
    messages = [{{"role": "system", "content": SYSTEM}}]
    for turn in range({TURNS}):
        messages.append({{"role": "user", "content": f"{{name}}: question {{turn}}?"}})
        answer = client.chat.completions.create(model="{MODEL}", messages=messages, max_tokens=64)
        text = answer.choices[0].message.content
        assert "question" in text
        messages.append({{"role": "assistant", "content": text}})


@pytest.mark.llm_replay
@pytest.mark.parametrize("name", ["one", "two"])
def test_conversation(llm_gateway, name):
    converse(name)


@pytest.mark.llm_replay
def test_the_same_question_in_another_test(llm_gateway):
    converse("one")
"""


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with start_upstream() as started:
        yield started


@pytest.fixture
def author(minio: S3Server, upstream: Upstream, tmp_path: Path) -> Machine:
    """Who has recorded the suite."""
    machine = Machine(tmp_path / "author", f"s3://{minio.new_bucket()}/agents", minio.variables, keep="git")
    (machine.project / "cortex-replay.toml").write_text(f'store = "llm"\n\n[remote]\nurl = "{machine.url}"\n')
    (machine.project / "test_team.py").write_text(SUITE)
    machine.git("init", "-q", "-b", "main")
    machine.variables = machine.variables | {"OPENAI_API_KEY": "recorder", "OPENAI_BASE_URL": upstream.url}
    recorded = machine.cortex("record", "--", "pytest", "-q", "-p", "no:cacheprovider")
    assert recorded.code == 0, recorded.said
    return machine


def test_a_suite_that_is_kept_in_a_bucket(author: Machine, upstream: Upstream, tmp_path: Path) -> None:
    """Recorded, moved out, cloned, replayed, verified, pruned, moved back; and no model is asked again."""
    asked = len(upstream.calls)
    for command in (
        ["repack", "--index", "sharded"],
        ["verify", "--strict"],
        ["keep", "remote"],
        ["verify"],
        ["verify", "--remote"],
    ):
        done = author.cortex(*command)
        assert done.code == 0, (command, done.said)
    assert list((author.store / "fixtures").rglob("*.json")) == []
    author.git("add", "-A")
    staged = author.cortex("verify", "--staged")
    assert staged.code == 0, staged.said
    author.git("commit", "-qm", "Record")

    other = _clone(author, tmp_path / "other")
    for command in (
        ["verify", "--strict"],
        ["prune"],
        ["rekey"],
        ["gc", "--remote"],
        ["keep", "git"],
        ["verify", "--strict"],
        ["repack", "--whole"],
        ["repack", "--index", "single"],
        ["verify", "--strict"],
    ):
        replayed = other.test()
        assert replayed.code == 0, (command, replayed.said)
        done = other.cortex(*command)
        assert done.code == 0, (command, done.said)
    replayed = other.test()
    assert replayed.code == 0, replayed.said
    assert len(upstream.calls) == asked


def test_after_a_pull_no_bucket_is_needed(author: Machine, tmp_path: Path) -> None:
    """Not even one that is there."""
    assert author.cortex("keep", "remote").code == 0
    author.git("add", "-A")
    author.git("commit", "-qm", "Record")
    other = _clone(author, tmp_path / "other")
    pulled = other.cortex("pull")
    assert pulled.code == 0, pulled.said
    other.variables = other.variables | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    for done in (other.test(), other.cortex("verify", "--strict")):
        assert done.code == 0, done.said


def _clone(author: Machine, home: Path) -> Machine:
    """The repository on a machine that has nothing else of the author's."""
    variables = {name: value for name, value in author.variables.items() if not name.startswith("OPENAI_")}
    other = Machine(home, author.url, variables)
    shutil.rmtree(other.project)
    subprocess.run(["git", "clone", "-q", author.project, other.project], env=other.environment, check=True)
    return other
