"""Where a cell happens: a home with secrets, folders of the user's, the clone of a hostile repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cortex_replay.store.index.index import parse_index
from tests.builder import StoreBuilder
from tests.security.matrix.rows import ASK_RECORDED, PROGRAM, asking
from tests.security.matrix.sinks import Sink, own_address

if TYPE_CHECKING:
    from tests.security.matrix.plants import Plant

__all__ = ["CANARIES", "HOSTILE_FIXTURES", "Sandbox", "Workshop"]

_VARIABLES: Final = (
    "AWS_SECRET_ACCESS_KEY",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GITHUB_TOKEN",
    "DB_PASSWORD",
)
_FILES: Final = (".git-credentials", ".ssh/id_ed25519", ".netrc", ".bashrc")
# Put together here, so that no scanner takes them for real.
CANARIES: Final = {
    name: f"canary{i}Zq" + "7xW" * 4 + f"{i * 7919:06d}" for i, name in enumerate(_VARIABLES + _FILES)
}
"""Secrets by the variable or the file in the home that holds each."""
HOSTILE_FIXTURES: Final = ("fixtures/hostile/f.json", "fixtures/hostile/g.json")
_KEPT: Final = ("PATH", "LANG", "LD_LIBRARY_PATH", "COVERAGE_PROCESS_START")

_TESTS: Final = """\
import os
import httpx, pytest

def ask(text):
    base = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    key = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    return httpx.post(base + "/chat/completions", json=body, headers=key).raise_for_status().json()

@pytest.mark.llm_replay
def test_recorded():
    assert ask("What is recorded?")

@pytest.mark.llm_replay
def test_new():
    assert ask("What is new?")
"""
_REQUESTS: Final = '{"model": "m", "system": "", "messages": "Hi.", "temperature": 0, "max_tokens": 64}\n'
_SCRIPT: Final = '[[rule]]\nanswer = "Hello."\n'


@dataclass
class Sandbox:
    """One cell: ``home``, ``work/clone``, ``work/beside`` and ``tmp`` below ``top``."""

    top: Path
    workshop: Workshop

    @property
    def home(self) -> Path:
        return self.top / "home"

    @property
    def clone(self) -> Path:
        return self.top / "work" / "clone"

    @property
    def beside(self) -> Path:
        return self.top / "work" / "beside"

    @property
    def driver(self) -> str:
        return self.workshop.driver

    @property
    def index_bytes(self) -> bytes:
        return (self.workshop.template / "INDEX.toml").read_bytes()

    def git(self, *arguments: str) -> None:
        run_git(self.clone, *arguments)

    def filled(self, text: str) -> str:
        """An argument with the names of this sandbox in it."""
        if text == "{fixture}":
            hostile = HOSTILE_FIXTURES[0]
            return hostile if os.path.lexists(self.clone / hostile) else self.workshop.fixture
        return text.replace("{own}", self.workshop.own.url).replace("{top}", str(self.top))

    def environment(self) -> dict[str, str]:
        """A shell with secrets in it; whatever asks another machine runs into the thief's proxy."""
        thief = self.workshop.thief.url
        return {
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            **{name: CANARIES[name] for name in _VARIABLES},
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), thief),
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "HOME": str(self.home),
            "TMPDIR": str(self.top / "tmp"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENAI_BASE_URL": f"{self.workshop.own.url}/v1",
        }


class Workshop:
    """What all cells of a process share: the servers, the honest project, and a clone for every plant."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.own = Sink()
        """A model server that the user has chosen."""
        address = own_address()
        self.thief = Sink(address or "127.0.0.1")
        self.thief_url = self.thief.url if address else "http://thief.invalid"
        """How a hostile configuration names the thief; without an address of our own, by the proxy."""
        self.marks = top / "marks"
        self.marks.mkdir()
        self.template = top / "template"
        self._count = 0
        self._clones: dict[str, Path] = {}
        self._make_template()

    def close(self) -> None:
        self.own.__exit__()
        self.thief.__exit__()

    @cached_property
    def driver(self) -> str:
        """How ``init`` tells git to merge an index."""
        return run_git(self.template, "config", "merge.cortex-replay.driver").rstrip("\n")

    def payload(self, name: str) -> str:
        """A program that leaves a mark when it is run."""
        program = self.top / "payloads" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n: > '{self.marks / name}'\ncat > /dev/null\n")
        program.chmod(0o755)
        return str(program)

    def sandbox(self, plant: Plant) -> Sandbox:
        """A fresh sandbox with a clone of what the plant makes of the project."""
        self._count += 1
        sandbox = Sandbox(self.top / f"cell{self._count}", self)
        (sandbox.top / "work").mkdir(parents=True)
        (sandbox.top / "tmp").mkdir()
        self._make_home(sandbox.home)
        self._make_beside(sandbox.beside)
        subprocess.run(["cp", "-a", self._clone(plant), sandbox.clone], check=True)
        for late in plant.late:
            late(sandbox)
        return sandbox

    def _clone(self, plant: Plant) -> Path:
        if plant.name not in self._clones:
            tree = self.top / f"hostile{len(self._clones)}"
            subprocess.run(["cp", "-a", self.template, tree], check=True)
            for make in plant.make:
                make(tree, self)
            run_git(tree, "add", "--all", "--force")
            run_git(tree, "commit", "--quiet", "--allow-empty", "--message", "plant")
            clone = self.top / f"clone{len(self._clones)}"
            run_git(self.top, "clone", "--quiet", "--no-local", "--template=", str(tree), str(clone))
            shutil.rmtree(tree)
            self._clones[plant.name] = clone
        return self._clones[plant.name]

    def _make_template(self) -> None:
        """A sound project: a store, a test, and a branch whose index differs."""
        tree = self.template
        builder = StoreBuilder(tree)
        self.fixture = builder.add("What is one?", "One.")
        builder.add("a" * 64 + "!", "Many.")
        builder.write()
        (tree / "README.md").write_text("A project.\n")
        (tree / ".gitignore").write_text(".cortex-replay/\n")
        (tree / ".gitattributes").write_text("INDEX.toml -text merge=cortex-replay\nfixtures/** -text\n")
        for folder in ("tests", "cassettes"):
            (tree / folder).mkdir()
        (tree / "tests" / "test_llm.py").write_text(_TESTS)
        cassette = Path(__file__).parents[2] / "adapters" / "cassettes" / "chat.yaml"
        text = cassette.read_text().replace("http://127.0.0.1:1/v1", "https://api.openai.com/v1")
        (tree / "cassettes" / "chat.yaml").write_text(text)
        (tree / "requests.jsonl").write_text(_REQUESTS)
        (tree / "script.toml").write_text(_SCRIPT)
        (tree / "unused.json").write_text('{"used": [], "unused": []}')
        run_git(tree, "init", "--quiet", "--template=", "--initial-branch", "main")
        self._tell(tree, "record", "--upstream", f"openai={self.own.url}/v1", *asking(ASK_RECORDED))
        self._tell(tree, "init", "--driver-only")
        shutil.rmtree(tree / ".cortex-replay")
        for branch, question in (("theirs", "What is theirs?"), ("main", "What is ours?")):
            if branch == "theirs":
                run_git(tree, "add", "--all")
                run_git(tree, "commit", "--quiet", "--message", "start")
                run_git(tree, "branch", branch)
            run_git(tree, "checkout", "--quiet", branch)
            self._tell(tree, "record", "--provider", "echo", "--model", "m", "--prompt", question)
            shutil.rmtree(tree / ".cortex-replay")
            run_git(tree, "add", "--all")
            run_git(tree, "commit", "--quiet", "--message", branch)
        index = parse_index((tree / "INDEX.toml").read_text())
        self.store_files = ("INDEX.toml", *(row.path for row in index.rows))
        """What belongs to the store of the honest project."""

    def _tell(self, tree: Path, *arguments: str) -> None:
        """Run the program for its honest user."""
        base = {name: os.environ[name] for name in _KEPT if name in os.environ}
        own = {"HOME": str(self.top), "OPENAI_BASE_URL": f"{self.own.url}/v1", "OPENAI_API_KEY": "none" * 5}
        done = subprocess.run(
            [PROGRAM, *arguments], cwd=tree, env={**base, **own}, capture_output=True, check=False
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)

    @staticmethod
    def _make_home(home: Path) -> None:
        for name in _FILES:
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{CANARIES[name]}\n")
            path.chmod(0o600)
        (home / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@example.com\n")

    def _make_beside(self, beside: Path) -> None:
        (beside / "keep").mkdir(parents=True)
        (beside / "empty").mkdir()
        for name in ("notes.txt", "notes.json", "keep/inner.txt"):
            (beside / name).write_text(f"{name}: of the user, and of nobody else\n")
        shutil.copytree(
            self.template, beside / "llm", ignore=shutil.ignore_patterns(".*", "tests", "cassettes")
        )


def run_git(folder: Path, *arguments: str) -> str:
    """What git says, with nobody's settings."""
    settings = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{
            f"GIT_{who}_{what}": "a@example.com"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": os.devnull, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout
