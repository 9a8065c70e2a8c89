"""Among a thousand that are nearly the same, the right one is found."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from benchmarks.data import MODEL, Texts, fixture_of, write_store
from cortex_replay import LlmRequest, Store
from cortex_replay.misses.nearest import nearest_fixture
from tests.builder import StoreBuilder, ask
from tests.sampling import IS_TORTURE

COUNT = 1_000
WORDS = Texts(seed=9).between(1200, 1200).split(" ")
TOOLS = [{"name": "search", "description": "Looks things up."}, {"name": "done", "description": "The end."}]


def but(request: LlmRequest, **fields: Any) -> LlmRequest:
    return replace(request, **fields)


def recorded(number: int) -> LlmRequest:
    """One of a thousand prompts that differ in one word, each at a place of its own."""
    words = list(WORDS)
    words[number * 7 % len(words)] = f"case{number}"
    return LlmRequest(MODEL, "You are terse. " * 10, " ".join(words), 0.0, 100, tools=TOOLS)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    root = tmp_path_factory.mktemp("many")
    write_store(root, (fixture_of(recorded(number), "ok") for number in range(COUNT)))
    return Store.open(root, verify="on-read")


def one_word(request: LlmRequest, dice: random.Random) -> LlmRequest:
    words = request.messages[0].content.split(" ")
    words[dice.choice([i for i, word in enumerate(words) if not word.startswith("case")])] = "Oslo"
    return but(request, messages=" ".join(words))


def a_message_more(request: LlmRequest, dice: random.Random) -> LlmRequest:
    more = [{"role": "assistant", "content": "Yes? " * 20}, {"role": "user", "content": "Go on."}]
    return but(request, messages=[*request.messages, *more])


def a_message_before(request: LlmRequest, dice: random.Random) -> LlmRequest:
    return but(request, messages=[{"role": "user", "content": "Hello!"}, *request.messages])


def another_tool(request: LlmRequest, dice: random.Random) -> LlmRequest:
    return but(request, tools=[{"name": "search", "description": "Looks up."}, TOOLS[1]])


def another_system(request: LlmRequest, dice: random.Random) -> LlmRequest:
    return but(request, system="You talk a lot. " * 10)


def at_both_ends(request: LlmRequest, dice: random.Random) -> LlmRequest:
    content = f"{request.messages[0].content} (call {dice.random()})"
    return but(request, system=f"It is {dice.random()}. {request.system}", messages=content)


def everywhere(request: LlmRequest, dice: random.Random) -> LlmRequest:
    return another_tool(another_system(one_word(request, dice), dice), dice)


@pytest.mark.parametrize(
    ("edit", "tried"),
    [
        (one_word, 100),
        (a_message_more, 40),
        (a_message_before, 40),
        (another_tool, 40),
        (another_system, 40),
        (at_both_ends, 40),
        (everywhere, 40),
    ],
)
def test_a_prompt_that_was_edited_finds_its_recording(
    store: Store, edit: Callable[[LlmRequest, random.Random], LlmRequest], tried: int
) -> None:
    """At least 95 of a hundred do."""
    dice = random.Random(5)
    tried = tried if IS_TORTURE else tried // 4
    found = 0
    for number in dice.sample(range(COUNT), tried):
        nearest = nearest_fixture(store, edit(recorded(number), dice))
        found += nearest is not None and nearest.request == recorded(number)

    assert found >= 0.95 * tried


def test_a_store_that_was_read_in_full_finds_the_same(builder: StoreBuilder) -> None:
    """From memory."""
    for verify in ("full", "on-read"):
        store = Store.open(builder.root, verify=verify)
        nearest = nearest_fixture(store, ask("What is three, and two?"))
        assert nearest is not None
        assert nearest.request == ask("What is two?")
        assert nearest.path == store.path(*store.key(ask("What is two?")))


def test_the_same_question_to_another_model_is_near(builder: StoreBuilder) -> None:
    builder.add_fixture(fixture_of(ask("Another question to a new model.", "new"), "x"))
    builder.write()
    same = nearest_fixture(builder.open(), ask("What is two?", "new"))
    assert same is not None
    assert same.request == ask("What is two?")


def test_only_what_the_index_vouches_for_is_shown(builder: StoreBuilder) -> None:
    """A file that was changed is as if it were not there."""
    store = Store.open(builder.root, verify="on-read")
    path = builder.root / store.path(*store.key(ask("What is two?")))
    path.write_bytes(path.read_bytes().replace(b"What is two?", b"What is 2222?"))
    nearest = nearest_fixture(store, ask("What is 2222?!"))

    assert nearest is not None
    assert nearest.request == ask("What is one?")


def test_files_of_another_layout_are_read(builder: StoreBuilder, tmp_path: Path) -> None:
    """As other programs write JSON; what is no fixture at all is passed over."""
    again = StoreBuilder(tmp_path / "again")
    for row in builder.fixtures:
        document = json.loads(builder.files[row.path])
        key = fixture_of(ask(document["request"]["messages"][0]["content"]), "x").key
        again.add_bytes(json.dumps(document).encode(), key)
    again.add_bytes(b'{"request": ', fixture_of(ask("broken"), "x").key)
    again.write()
    nearest = nearest_fixture(Store.open(again.root, verify="on-read"), ask("What is two??"))

    assert nearest is not None
    assert nearest.request == ask("What is two?")


def test_a_busy_machine_names_the_same_recording(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long each file takes."""
    hours = count(step=3600.0)
    monkeypatch.setattr("time.monotonic", lambda: next(hours))
    monkeypatch.setattr("time.perf_counter", lambda: next(hours))
    last = list(store.scan_requests(first=MODEL))[-1][0]
    request = store.get(*last).request
    assert request is not None

    nearest = nearest_fixture(store, one_word(request, random.Random(7)))

    assert nearest is not None
    assert nearest.path == store.path(*last)


@pytest.mark.parametrize(("most", "most_bytes"), [(10, 10**9), (COUNT, 1)])
def test_no_more_is_read_than_may_be(
    store: Store, monkeypatch: pytest.MonkeyPatch, most: int, most_bytes: int
) -> None:
    monkeypatch.setattr("cortex_replay.misses.nearest._MOST_BYTES", most_bytes)
    read: list[object] = []
    scan = store.scan_requests

    def watched(*, first: str) -> Iterator[tuple[tuple[str, str], bytes | None]]:
        for one in scan(first=first):
            read.append(one)
            yield one

    monkeypatch.setattr(store, "scan_requests", watched)
    nearest = nearest_fixture(store, recorded(3), most=most)

    assert nearest is not None
    assert len(read) == (most if most < COUNT else 1)
