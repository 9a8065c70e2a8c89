"""A team that keeps its recordings in a bucket, at a shell: projects, machines, and what is on them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cortex_replay import Answer, Fixture, FixtureKey, LlmRequest, Store, blake3_hex
from tests.servers.s3 import SECRET_KEY

__all__ = ["MODEL", "Done", "Machine", "request_of"]

MODEL: Final = "team-model"
_BIN: Final = Path(sys.executable).parent
_TEST: Final = """\
import pytest
from cortex_replay import LlmRequest

QUESTIONS = {questions!r}


@pytest.mark.llm_replay
@pytest.mark.parametrize("question", QUESTIONS)
def test_asks(llm, question):
    answer = llm.sync.complete(LlmRequest({model!r}, messages=question, max_tokens=64))
    assert answer.text == f"{{question}} Yes."
"""
_PROGRAM: Final = """\
import json, os, sys, urllib.request

for question in {questions!r}:
    body = {{"model": {model!r}, "messages": [{{"role": "user", "content": question}}], "max_tokens": 64}}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {{"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}},
    )
    try:
        answer = json.load(urllib.request.urlopen(request))
    except urllib.error.HTTPError as error:
        sys.exit(f"HTTP {{error.code}}: {{error.read().decode()}}")
    assert answer["choices"][0]["message"]["content"] == question + " Yes.", answer
print("all answered")
"""


def request_of(question: str) -> LlmRequest:
    return LlmRequest(MODEL, messages=question, max_tokens=64)


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended."""

    code: int
    said: str
    """Standard output, then standard error."""

    @property
    def complaints(self) -> list[str]:
        """The lines that are no talk, each without what differs between two of them."""
        return [line for line in self.said.splitlines() if line.strip()]


@dataclass
class Machine:
    """A home, a project below it, and the way to the bucket."""

    home: Path
    url: str
    variables: dict[str, str]
    keep: str = "remote"
    questions: list[str] = field(default_factory=lambda: [f"What is {number}?" for number in range(12)])

    def __post_init__(self) -> None:
        self.project.mkdir(parents=True, exist_ok=True)

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def cache(self) -> Path:
        return self.home / "cache"

    @property
    def store(self) -> Path:
        return self.project / "llm"

    def begin(self) -> None:
        """Make the project: settings, recordings, a test, a program, and a repository with a commit."""
        (self.project / "cortex-replay.toml").write_text(
            f'store = "llm"\n\n[remote]\nurl = "{self.url}"\nkeep = "{self.keep}"\n'
        )
        (self.project / "test_team.py").write_text(_TEST.format(questions=self.questions, model=MODEL))
        (self.project / "program.py").write_text(_PROGRAM.format(questions=self.questions, model=MODEL))
        store = Store.create(self.store)
        for question in self.questions:
            request = request_of(question)
            key = FixtureKey(MODEL, request.prompt_hash())
            store.add(Fixture(key, (Answer(f"{question} Yes.", finish_reason="stop"),), request))
        store.commit()
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-qm", "Begin")

    def clone(self, home: Path, *, variables: dict[str, str] | None = None) -> Machine:
        """The project on another machine, with the index and none of the files."""
        other = Machine(home, self.url, self.variables if variables is None else variables, self.keep)
        shutil.rmtree(other.project)
        home.mkdir(exist_ok=True)
        shutil.copytree(self.project, other.project)
        shutil.rmtree(other.store / "fixtures", ignore_errors=True)
        shutil.rmtree(other.store / ".cortex-replay", ignore_errors=True)
        return other

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        return (
            kept
            | self.variables
            | {
                "HOME": os.fspath(self.home),
                "PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}",
                "CORTEX_REPLAY_CACHE": os.fspath(self.cache),
                "GIT_CONFIG_NOSYSTEM": "1",
                "PYTHONDONTWRITEBYTECODE": "1",
            }
        )

    def git(self, *arguments: str) -> None:
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *arguments], cwd=self.project, env=self.environment, check=True)

    def do(self, *command: str | Path, before: Iterable[str | Path] = ()) -> Done:
        """Run a command in the project, to its end."""
        done = subprocess.run(
            [*before, *command],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        said = done.stdout + done.stderr
        assert SECRET_KEY not in said
        return Done(done.returncode, said)

    def cortex(self, *arguments: str, before: Iterable[str | Path] = ()) -> Done:
        return self.do("cortex-replay", *arguments, before=before)

    def test(self) -> Done:
        return self.do("pytest", "-q", "-p", "no:cacheprovider", "--no-header")

    def serve(self) -> Done:
        """A program that knows nothing of us, through the gateway."""
        return self.cortex("replay", "--", "python", "program.py")

    def entries(self) -> list[Path]:
        """Everything in the cache that looks like an object, or like a part of one."""
        if not self.cache.exists():
            return []
        return [path for path in self.cache.rglob("*") if path.is_file() and path.stat().st_size]

    def wrong_entries(self) -> list[str]:
        """Files of the cache that are not what their names say, or are half done."""
        return [
            os.fspath(path)
            for path in self.entries()
            if "b3" in path.parts and blake3_hex(path.read_bytes()) != path.name
        ]
