"""Conversations as they stand in a store: each turn a file, with what is new and what it continues."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from cortex_replay import LlmRequest, Store, blake3_hex
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey, RequestLink
from cortex_replay.store.fixture_json import render_document, render_fixture
from cortex_replay.store.index.index import FixtureRow, Index, PartRow, Row, ShardRow
from cortex_replay.store.index.shards import render_whole
from cortex_replay.store.trust import trust_index
from tests.builder import MODEL, StoreBuilder, ask, fixture_of
from tests.store.branches import IDENTITY

ATTRIBUTES = (
    "INDEX.toml -text merge=cortex-replay\nindex/*.toml -text merge=cortex-replay\nfixtures/** -text\n"
)
SYSTEM = "You are a careful assistant. " * 100

File = tuple[Row, bytes]


def turn(number: int, topic: str = "cats", answer: str | None = None, said: str = "said") -> Fixture:
    """A turn of a conversation, whole. ``said`` is what the model said in the turns before."""
    messages = []
    for i in range(1, number):
        messages.append({"role": "user", "content": f"{topic} {i}?"})
        messages.append({"role": "assistant", "content": f"{said} {i}"})
    messages.append({"role": "user", "content": f"{topic} {number}?"})
    request = LlmRequest.from_dict({"model": MODEL, "messages": messages, "system": SYSTEM})
    text = f"{said} {number}" if answer is None else answer
    return Fixture(FixtureKey(MODEL, request.prompt_hash()), (Answer(text),), request)


def part() -> File:
    """The system text that all conversations share."""
    data = render_document({"system": SYSTEM})
    digest = blake3_hex(data)
    return PartRow(f"fixtures/parts/system-{digest[:16]}.json", digest), data


def listed(fixture: Fixture, parent: Fixture | None = None, *, with_part: bool = True) -> File:
    """A fixture as it is stored: by its parent, or with its system text in a part."""
    request = fixture.request
    assert request is not None
    link = None
    if parent is not None and parent.request is not None:
        link = RequestLink(parent.key.prompt_hash, request.messages[len(parent.request.messages) :])
    elif with_part:
        own = {name: value for name, value in request.to_dict().items() if name != "system"}
        link = RequestLink(own=own, parts={"system": part()[0].blake3})
    stored = fixture if link is None else Fixture(fixture.key, fixture.answers, None, fixture.meta, link)
    data = render_fixture(stored)
    digest = blake3_hex(data)
    path = f"fixtures/m/{fixture.key.prompt_hash[:16]}-{digest[:8]}.json"
    return FixtureRow(path, digest, *fixture.key, None if parent is None else parent.key.prompt_hash), data


def conversation(length: int, topic: str = "cats", said: str = "said") -> list[File]:
    """Its part, then its turns, each a continuation of the one before."""
    turns = [turn(number, topic, said=said) for number in range(1, length + 1)]
    files = [listed(turns[0])]
    files += [listed(later, earlier) for earlier, later in pairwise(turns)]
    return [part(), *files]


def answer(question: str, text: str = "as before") -> File:
    """A question that stands alone, and its answer."""
    fixture = fixture_of(ask(question), Answer(text))
    data = render_fixture(fixture)
    digest = blake3_hex(data)
    path = f"fixtures/m/{fixture.key.prompt_hash[:16]}-{digest[:8]}.json"
    return FixtureRow(path, digest, *fixture.key), data


def index_of(files: Iterable[File]) -> Index:
    return Index.of({row: None for row, _ in files}, {})


def write(root: Path, files: Iterable[File], *, is_sharded: bool = False) -> None:
    """Put a store there, in the place of what there was."""
    kept = dict(files)
    for path in [*root.glob("fixtures/**/*.json"), *root.glob("index/*.toml")]:
        path.unlink()
    index = render_whole(index_of(kept.items()), is_sharded=is_sharded)[1]
    shards = {ShardRow(name, "").path: data for name, data in index.shards.items()}
    contents = {row.path: data for row, data in kept.items()}
    for name, data in (contents | shards | {"INDEX.toml": index.root}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


class Project:
    """A repository with a store, and no merge driver: as a host merges."""

    has_shards = False
    """Unless a test says otherwise."""

    def __init__(self, root: Path, files: list[File], *, is_sharded: bool | None = None) -> None:
        self.root = root
        self.git("init", "-q")
        (root / ".gitattributes").write_text(ATTRIBUTES)
        self.commit(files, "base", is_sharded=is_sharded)

    def git(self, *arguments: str, fails: bool | None = False) -> str:
        done = subprocess.run(
            ["git", *IDENTITY, *arguments], cwd=self.root, capture_output=True, text=True, check=False
        )
        assert fails in (None, done.returncode != 0), done.stdout + done.stderr
        return done.stdout + done.stderr

    def commit(self, files: list[File], message: str, *, is_sharded: bool | None = None) -> None:
        write(self.root, files, is_sharded=self.has_shards if is_sharded is None else is_sharded)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def branch(self, name: str, files: list[File], *, is_sharded: bool | None = None) -> None:
        self.git("checkout", "-q", "-b", name, "main")
        self.commit(files, name, is_sharded=is_sharded)

    def codes(self) -> set[str]:
        return set(StoreBuilder(self.root).codes())

    def questions(self) -> set[str]:
        """The last message of each request; the store must be sound."""
        store = Store.open(self.root)
        fixtures = [store.get(item.model, item.prompt_hash) for item in store.list()]
        return {str(one.request.messages[-1].content) for one in fixtures if one.request is not None}

    def is_sharded(self) -> bool:
        return bool(trust_index((self.root / "INDEX.toml").read_bytes()).shards)
