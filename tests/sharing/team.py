"""A store with a remote in a folder, and what a colleague has of it: the index, and none of the files."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from cortex_replay import Answer, Store
from tests.builder import ask, fixture_of

__all__ = ["Team"]


@dataclass
class Team:
    """A bucket, and a project that has its store in ``llm``."""

    place: Path

    @classmethod
    def make(cls, place: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
        """A team in a folder; this process is in its project, with a cache of its own."""
        monkeypatch.setenv("CORTEX_REPLAY_CACHE", str(place / "cache"))
        team = cls(place)
        team.configure()
        monkeypatch.chdir(team.project)
        return team

    @property
    def bucket(self) -> Path:
        return self.place / "bucket"

    @property
    def project(self) -> Path:
        return self.place / "project"

    @property
    def store(self) -> Path:
        return self.project / "llm"

    def configure(self, **settings: str) -> None:
        """Name the bucket in the project's configuration."""
        self.bucket.mkdir(exist_ok=True)
        self.project.mkdir(exist_ok=True)
        lines = "".join(f'{name} = "{value}"\n' for name, value in settings.items())
        remote = f'[tool.cortex-replay.remote]\nurl = "file://{self.bucket}"\n{lines}'
        (self.project / "pyproject.toml").write_text(f'[tool.cortex-replay]\nstore = "llm"\n\n{remote}')

    def record(self, *questions: str, model: str = "test-model", scope: str = "") -> None:
        """Record an answer to each question."""
        store = Store.open_or_create(self.store)
        for question in questions:
            fixture = fixture_of(ask(question, model), Answer(f"{question} Yes, {scope or 'indeed'}."))
            store.add(fixture, scope=scope)
        store.commit()

    def files(self) -> list[Path]:
        """The recordings in the work tree."""
        return sorted((self.store / "fixtures").rglob("*.json"))

    def objects(self) -> list[Path]:
        """The objects in the bucket."""
        return sorted(path for path in self.bucket.glob("b3/*/*") if path.is_file())

    def lose_files(self) -> None:
        """As in a clone of a repository that keeps them elsewhere."""
        shutil.rmtree(self.store / "fixtures")

    def answer(self, question: str, model: str = "test-model", scope: str = "") -> str:
        """What the store replays, opened anew with on-read."""
        store = Store.open(self.store, verify="on-read")
        return store.get(model, ask(question, model).prompt_hash(), scope).answers[0].text
