"""A project with a pull request, and the action that reviews it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

from cortex_replay import Answer, Fixture, LlmRequest, Store
from cortex_replay.types import ToolCall
from tests.cli.programs import ASK
from tests.servers.forge import WRITER, Forge
from tests.warm import PROGRAM
from tests.workflow_steps import Job

__all__ = [
    "ACTION",
    "ARTIFACT",
    "COMMAND",
    "ROOT",
    "Review",
    "calls",
    "commit",
    "defaults",
    "git",
    "make_origin",
    "outputs",
    "record",
]

ROOT: Final = Path(__file__).parent.parent
ACTION: Final[dict[str, Any]] = yaml.safe_load((ROOT / "action.yml").read_text())
ARTIFACT: Final = "https://github.example/artifacts/1"
COMMAND: Final = f"{sys.executable} ask.py"
_INSTALL: Final = "Install cortex-replay"


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, why: str, *options: str) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", why, *options)


def record(folder: Path, **answers: Answer) -> None:
    """Put answers to questions into the store of a project."""
    store = Store.open_or_create(folder / "llm")
    for question, answer in answers.items():
        store.replace(Fixture.of(LlmRequest.from_dict({"model": "m", "messages": question}), answer))
    store.commit()


def calls(tool: str) -> Answer:
    return Answer("", finish_reason="tool_calls", tool_calls=(ToolCall(id="1", name=tool, arguments={}),))


def make_origin(folder: Path) -> Path:
    """A repository with a pull request: another tool is called, and something is only reworded."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "ask.py").write_text(f"{ASK}\nprint(ask('one'))\n")
    (folder / "cortex-replay.toml").write_text('store = "llm"\n')
    record(folder, one=Answer("One.", finish_reason="stop"), two=calls("search"))
    commit(folder, "Start")
    git(folder, "switch", "-qc", "feature")
    record(folder, one=Answer("It is one.", finish_reason="stop"), two=calls("delete"))
    commit(folder, "Change")
    git(folder, "switch", "-qc", "merge", "main")
    git(folder, "merge", "-q", "--no-ff", "--no-edit", "feature")
    return folder


class Review:
    """Runs the action on the pull request, once for each push to it, in a shallow checkout."""

    def __init__(self, origin: Path, forge: Forge, place: Path) -> None:
        self.origin, self.forge, self.place = origin, forge, place
        self.runs = 0

    def run(
        self, *, event: str = "pull_request", checkout: str = "merge", token: str = WRITER, **inputs: str
    ) -> Job:
        self.runs += 1
        place = self.place / f"run-{self.runs}"
        temporary = place / "temp"
        temporary.mkdir(parents=True)
        git(place, "clone", "-q", "--depth=1", "-b", checkout, f"file://{self.origin}", "tree")
        request = {"number": 3, "base": {"sha": git(self.origin, "rev-list", "--max-parents=0", "main")}}
        known: dict[str, Any] = {"pull_request": request} if event == "pull_request" else {}
        (place / "event.json").write_text(json.dumps(known))
        named = {name.replace("_", "-"): value for name, value in inputs.items()}
        job = Job(
            place / "tree",
            temporary,
            {
                "inputs": {**defaults(), **named, "token": token},
                "github": {"event_name": event, "event": known},
            },
            {
                "PATH": os.environ["PATH"],
                "HOME": str(place),
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                "GITHUB_ACTIONS": "true",
                "GITHUB_ACTION_PATH": str(ROOT),
                "GITHUB_EVENT_PATH": str(place / "event.json"),
                "GITHUB_GRAPHQL_URL": self.forge.graphql,
                "GITHUB_REPOSITORY": "owner/name",
                "GITHUB_SERVER_URL": "https://github.example",
                "GITHUB_SHA": git(self.origin, "rev-parse", "merge"),
            },
            {"actions/upload-artifact": lambda _: {"artifact-url": ARTIFACT}},
        )
        job.run([_installed(step, temporary) for step in ACTION["runs"]["steps"]])
        return job


def outputs(job: Job) -> dict[str, str]:
    return job.outputs(ACTION["outputs"])


def defaults() -> dict[str, str]:
    """The inputs of a user who gives none."""
    return {name: str(declared["default"]) for name, declared in ACTION["inputs"].items()}


def _installed(step: dict[str, Any], temporary: Path) -> dict[str, Any]:
    """Installing takes a registry (`integration/test_ci.py`); its result is put where it would be."""
    if step["name"] != _INSTALL:
        return step
    place = temporary / "cortex-replay"
    (place / "venv/bin").mkdir(parents=True)
    (place / "venv/bin/python").symlink_to(sys.executable)
    (place / "bin").mkdir()
    (place / "bin/cortex-replay").symlink_to(PROGRAM)
    return {**step, "run": f'echo "{place}/bin" >> "$GITHUB_PATH"'}
