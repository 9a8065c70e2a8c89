"""Stores for tests: made of real fixtures, written to a real folder, then changed in one way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cortex_replay import LlmRequest, Store, blake3_hex
from cortex_replay.errors import Finding
from cortex_replay.store.check import CheckReport, check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.index.index import ExchangeRow, FixtureRow, Index, ShardRow
from cortex_replay.store.index.shards import render_files

MODEL = "test-model"


def ask(content: str | Sequence[Any], model: str = MODEL, **settings: Any) -> LlmRequest:
    """A small request."""
    return LlmRequest.from_dict({"model": model, "messages": content, "max_tokens": 16, **settings})


def fixture_of(request: LlmRequest, *answers: Answer, meta: dict[str, object] | None = None) -> Fixture:
    key = FixtureKey(request.model, request.prompt_hash())
    return Fixture(key, answers, request, meta)  # type: ignore[arg-type]


@dataclass
class StoreBuilder:
    """A store that is being made."""

    root: Path
    is_flat: bool = False
    is_sharded: bool = False
    has_keys: bool = True
    files: dict[str, bytes] = field(default_factory=dict)
    fixtures: list[FixtureRow] = field(default_factory=list)
    exchanges: list[ExchangeRow] = field(default_factory=list)

    def add(self, question: str, *texts: str) -> str:
        """A fixture with these answers; gives its path."""
        return self.add_fixture(fixture_of(ask(question), *(Answer(text) for text in texts)))

    def add_fixture(self, fixture: Fixture) -> str:
        return self.add_bytes(render_fixture(fixture), fixture.key)

    def add_bytes(self, data: bytes, key: FixtureKey, path: str | None = None) -> str:
        """Any bytes, listed with their right hash under ``key``."""
        digest = blake3_hex(data)
        folder = "" if self.is_flat else f"fixtures/{re.sub('[^a-z0-9.-]', '_', key.model)}/"
        path = path or f"{folder}{key.prompt_hash[:16]}-{digest[:8]}.json"
        self.files[path] = data
        self.fixtures.append(FixtureRow(path, digest, *(key if self.has_keys else ())))
        return path

    def add_exchange(self, data: bytes, name: str, **key: str) -> str:
        path = f"exchanges/{name}" if self.is_flat else f"fixtures/exchanges/{name}"
        self.files[path] = data
        self.exchanges.append(ExchangeRow(path, blake3_hex(data), **key))
        return path

    def write(self) -> Path:
        """Put it all on disk."""
        self.root.mkdir(parents=True, exist_ok=True)
        for path, data in self.files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(data)
        index = Index(self.fixtures, self.exchanges, shards=[ShardRow("", "")] if self.is_sharded else [])
        for path, data in render_files(index).items():
            (self.root / path).parent.mkdir(exist_ok=True)
            (self.root / path).write_bytes(data)
        return self.root

    def write_index(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        (self.root / "INDEX.toml").write_bytes(data)

    def index_text(self) -> str:
        return (self.root / "INDEX.toml").read_text()

    def check(self) -> CheckReport:
        return check_store(DirectorySource(self.root))

    def findings(self) -> list[Finding]:
        return self.check().findings

    def codes(self) -> list[str]:
        return [finding.code for finding in self.findings()]

    def open(self) -> Store:
        return Store.open(self.root)
