"""What is done to a store in these tests, and what must be in it afterwards."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from cortex_replay import Store, blake3_hex
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.journal import parse_journal
from tests.builder import ask, fixture_of

Answers = dict[str, str]
"""What a store says: the text for each question."""

SCRATCH = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
"""Where many small stores are made and thrown away; ``None`` is the usual place."""

BASE: Answers = {"a one": "1", "a two": "2", "b one": "3", "b two": "4"}
SCOPE = "tests/test_pinned.py::test_pinned"
"""Was given all of this: its rows name the shared files, and keep them whatever becomes of those rows."""
_PINNED = "pinned = true\n"


class Op(NamedTuple):
    """One staged change. The first letter of a question is its model, and so its folder."""

    kind: Literal["add", "replace", "remove"]
    question: str
    text: str = ""


def fixture(question: str, text: str) -> Fixture:
    """One turn of the conversation of a model: it continues whatever is recorded of the turns before it."""
    said = [*_turns_before(question), question]
    messages = [{"role": "user", "content": content} for content in said]
    return fixture_of(ask(messages, model=f"model-{question[0]}"), Answer(text))


def _turns_before(question: str) -> list[str]:
    model, _, turn = question.partition(" ")
    if turn == "one":
        return []
    number, is_new, place = turn.removeprefix("new ").partition(".")
    return [f"{model} one", *(f"{model} new {number}.{i}" for i in range(int(place) if is_new else 0))]


def perform(store: Store, op: Op) -> None:
    """Stage ``op``."""
    made = fixture(op.question, op.text)
    match op.kind:
        case "add":
            store.add(made)
        case "replace":
            store.replace(made)
        case "remove":
            store.remove(*made.key)


def after(answers: Answers, ops: Iterable[Op]) -> Answers:
    """What a store that says ``answers`` says once ``ops`` are committed."""
    result = dict(answers)
    for op in ops:
        if op.kind == "remove":
            result.pop(op.question, None)
        else:
            result[op.question] = op.text
    return result


def make_store(root: Path, *, is_fresh: bool = False) -> Path:
    """A store that says ``BASE``; a fresh one has never been written to where it stands."""
    store = Store.create(root)
    for question, text in BASE.items():
        store.add(fixture(question, text))
    store.commit()
    for question, text in BASE.items():
        store.pin(SCOPE, *fixture(question, text).key)
    store.commit()
    index = root / "INDEX.toml"
    index.write_text(index.read_text().replace("format = 1\n", f"format = 1\n{_PINNED}"))
    if is_fresh:
        shutil.rmtree(root / ".cortex-replay")
    return root


def sound_answers(root: Path) -> Answers:
    """What every kind of reader finds in a store that must have no finding."""
    report = check_store(DirectorySource(root))
    assert report.findings == [], report.findings
    full, on_read = (_answers(Store.open(root, verify=how)) for how in ("full", "on-read"))
    assert full == on_read
    assert len(full) == len(report.index.fixtures)
    if "pinned" in report.index.header:
        assert _answers_of_scope(root) == BASE
        assert len(report.index.scoped) == len(BASE)
    return full


def digests(root: Path) -> dict[FixtureKey, str]:
    """What a store holds, by key: of each fixture the hash of its bytes, were its request written whole."""
    store = Store.open(root, verify="on-read")
    found = (store.get(item.model, item.prompt_hash) for item in store.list())
    return {item.key: blake3_hex(render_fixture(item)) for item in found}


def _answers_of_scope(root: Path) -> Answers:
    store = Store.open(root)
    return {question: store.get(*fixture(question, "").key, SCOPE).answers[0].text for question in BASE}


def _answers(store: Store) -> Answers:
    found = [store.get(item.model, item.prompt_hash) for item in store.list()]
    return {item.request.messages[-1].content: item.answers[0].text for item in found if item.request}


def is_locked(root: Path) -> bool:
    """Whether a writer would have to wait."""
    lock = root / ".cortex-replay/lock"
    if not lock.exists():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def temporaries(root: Path) -> list[Path]:
    return list(root.rglob("*.tmp"))


def assert_tidy(root: Path, *, abandoned: int = 0) -> None:
    """Nothing is left in the state folder but what stays, and that many answers of dead sessions."""
    state = root / ".cortex-replay"
    assert {path.name for path in state.iterdir()} - {".gitignore"} == {"lock", "journal", "staging"}
    assert not parse_journal((state / "journal").read_bytes()).is_open
    found = 0
    for session in (state / "staging").iterdir():
        staged = [path for path in session.iterdir() if path.name != "owner" and path.suffix != ".form"]
        assert staged, f"{session} holds nothing and should be gone"
        assert all(path.suffix in (".add", ".replace") for path in staged)
        found += len(staged)
    assert found == abandoned
