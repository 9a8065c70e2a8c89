"""Repositories with a store in them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from click.testing import Result

from cortex_replay import Answer, Fixture, LlmRequest, Store
from tests.cli.commands import run

__all__ = ["Project"]

IDENTITY = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]


class Project:
    """A repository with a store in a folder of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q", "-b", "main", ".")
        self.store = Store.create(root / "llm")

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *IDENTITY, *arguments], cwd=self.root, check=True, capture_output=True)

    def record(self, request: LlmRequest, *answers: Answer | str, **meta: Any) -> None:
        self.store.replace(Fixture.of(request, *answers, meta=meta or None))
        self.store.commit()

    def remove(self, request: LlmRequest) -> None:
        self.store.remove(*self.store.key(request))
        self.store.commit()

    def commit(self, message: str = "x") -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def diff(self, *arguments: str) -> Result:
        return run("diff", *arguments, "--store", self.root / "llm")

    def document(self, *arguments: str) -> Any:
        return json.loads(self.diff(*arguments, "--json").stdout)
