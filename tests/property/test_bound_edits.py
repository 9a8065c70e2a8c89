"""What is volatile is bound; everything else still misses.

Each conversation is recorded at one place, and asked for at another, on another day.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from cortex_replay.bindings import Binder, BindingRules
from cortex_replay.engine.http.engine import MISS_STATUS
from cortex_replay.wire import WIRES
from tests.engine.http.harness import PATHS, ask, run_over
from tests.gateway.upstream import model_server, said
from tests.property.places import MARK, Place, leaves, lift, read, render, template, write
from tests.sampling import IS_TORTURE

EDITS: Final = 1000 if IS_TORTURE else 30
"""Of each wire, as the others."""
BROKEN: Final = 200 if IS_TORTURE else 12
MOVED: Final = 200 if IS_TORTURE else 8
REPLAYED: Final = 200 if IS_TORTURE else 2
"""Each miss is explained, which takes time."""
wires = pytest.mark.parametrize("protocol", list(WIRES))

Edit = Callable[[str, Random], str]


@cache
def binder_at(place: Place) -> Binder:
    return Binder(BindingRules(), place.surroundings().current())


def key_at(place: Place, protocol: str, body: Any) -> str:
    return binder_at(place).bind(lift(protocol, body)).request.prompt_hash()


def literals(text: str) -> Iterator[tuple[int, int]]:
    """The parts of a text that are of no place."""
    at = 0
    for mark in MARK.finditer(text):
        yield at, mark.start()
        at = mark.end()
    yield at, len(text)


def change_word(text: str, random: Random) -> str:
    return _change(r"[A-Za-z]+", text, random, lambda word: random.choice(["otherwise", "Zebra", word + "s"]))


def change_digit(text: str, random: Random) -> str:
    return _change(r"[0-9]", text, random, lambda digit: str((int(digit) + random.randint(1, 9)) % 10))


def change_path(text: str, random: Random) -> str:
    return _change(r"(?<=/)[a-z][\w.]+", text, random, lambda name: random.choice([f"{name}2", "elsewhere"]))


def change_date(text: str, random: Random) -> str:
    return _change(r"(?:19|20)[0-9]{2}\b", text, random, lambda year: str(int(year) + random.randint(1, 9)))


def change_case(text: str, random: Random) -> str:
    return _change(r"[a-z]", text, random, str.upper)


def drop_word(text: str, random: Random) -> str:
    return _change(r"[A-Za-z]{2,}", text, random, lambda _: "")


def add_word(text: str, random: Random) -> str:
    return _change(r"[A-Za-z]+", text, random, lambda word: f"{word} really {word}")


def change_space(text: str, random: Random) -> str:
    return _change(r" ", text, random, lambda _: random.choice(["  ", "\n", "\t", "\u00a0"]))


def _change(pattern: str, text: str, random: Random, change: Callable[[str], str]) -> str:
    found = [
        match
        for start, end in literals(text)
        for match in re.compile(pattern).finditer(text, start, end)
        if text[match.start() - 1 : match.start()] != "\\"  # half of what JSON escapes
    ]
    if not found:
        return text
    match = random.choice(found)
    return text[: match.start()] + change(match[0]) + text[match.end() :]


TEXT_EDITS: Final = (
    *(change_word, change_digit, change_path, change_date, change_case, drop_word, add_word, change_space),
)
ARGUMENT_EDITS: Final = frozenset([change_word, change_path, change_case, add_word])
"""White space between the parts of a JSON text says nothing; and it must stay one."""


def edit(body: Any, random: Random) -> Any:
    """The body with one thing changed that a model reads and that is of no place."""
    texts = list(leaves(body, lambda value: isinstance(value, str)))
    numbers = list(leaves(body, lambda value: type(value) in (int, float)))
    if numbers and random.random() < 0.05:
        at = random.choice(numbers)
        return write(body, at, read(body, at) + 1)
    while True:
        change = random.choice(TEXT_EDITS)
        for at in random.sample(texts, len(texts)):
            text = read(body, at)
            if at[-1] != "arguments" or change in ARGUMENT_EDITS:
                changed = change(text, random)
                if changed != text:
                    return write(body, at, changed)


@wires
def test_what_a_model_reads_is_not_changed_unnoticed(protocol: str) -> None:
    """A word, a digit, a letter, a space: in prompts, descriptions of tools, results, paths and dates."""
    random = Random(f"edits of {protocol}" + ("" if not IS_TORTURE else str(Random().random())))
    body = template(protocol)
    here, there = Place.random(random), Place.random(random)
    recorded = key_at(here, protocol, render(body, here.marks()))
    assert key_at(there, protocol, render(body, there.marks())) == recorded, "or all of this says nothing"

    for _ in range(EDITS):
        edited = edit(body, random)
        asked = render(edited, there.marks())
        assert key_at(there, protocol, asked) != recorded, _difference(body, edited)


@wires
def test_what_was_equal_stays_equal_and_what_was_different_different(protocol: str) -> None:
    """Of the values that are bound: one of several occurrences is another value."""
    random = Random(f"structure of {protocol}" + ("" if not IS_TORTURE else str(Random().random())))
    body = template(protocol)
    here, there = Place.random(random), Place.random(random)
    recorded = key_at(here, protocol, render(body, here.marks()))

    for _ in range(BROKEN):
        broken = break_structure(body, there, random)
        assert key_at(there, protocol, render(broken, there.marks())) != recorded, _difference(body, broken)


def break_structure(body: Any, place: Place, random: Random) -> Any:
    """The body with one occurrence of a value that occurs several times replaced by another one."""
    marks = place.marks()
    other = Place.random(random).marks()
    spots = [
        (at, match.span(), match[1])
        for at in leaves(body, lambda value: isinstance(value, str))
        for match in MARK.finditer(read(body, at))
    ]
    while True:
        at, (start, end), name = random.choice(spots)
        occurrences = sum(mark == name for _, _, mark in spots)
        rivals = [mark for mark in ("id1", "id2", "cwd", "home", "user") if mark not in name]
        if name.startswith("id"):
            rivals = [mark for mark in ("id1", "id2") if mark != name]
        choices = [f"{{{{{rival}}}}}" for rival in rivals]
        if occurrences > 1 or not name.startswith("id"):
            choices.append(other[name])
        text = read(body, at)
        instead = random.choice(choices)
        if at[-1] == "arguments" and not instead.startswith("{{"):
            instead = json.dumps(instead)[1:-1]
        broken = write(body, at, text[:start] + instead + text[end:])
        if render(broken, marks) != render(body, marks):
            return broken


@wires
def test_what_is_bound_may_change_everywhere_at_once(protocol: str) -> None:
    """Another folder, home, user, host, day, other ids; also where JSON is written in ASCII."""
    random = Random(f"places of {protocol}" + ("" if not IS_TORTURE else str(Random().random())))
    body = template(protocol)
    here = Place.random(random)
    recorded = key_at(here, protocol, render(body, here.marks()))

    for _ in range(MOVED):
        there = Place.random(random)
        asked = render(body, there.marks(), is_ascii=random.random() < 0.5)
        assert key_at(there, protocol, asked) == recorded, there


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one call over each wire, made somewhere."""
    root, here = tmp_path_factory.mktemp("store"), Place.random(Random("recorded"))
    with (
        model_server() as server,
        run_over(root, "once", server.url, surroundings=here.surroundings()) as run,
    ):
        for protocol in WIRES:
            got = ask(run, "POST", PATHS[protocol], render(calls(protocol), here.marks()))
            assert got.status == 200, got.body
    return root


def calls(protocol: str) -> Any:
    """The body of a call over HTTP, to a model that speaks the wire."""
    models = {"bedrock-anthropic": "anthropic.claude-invented", "bedrock-nova": "amazon.nova-invented"}
    return {**template(protocol), "model": models.get(protocol, "m")}


@wires
def test_a_replay_misses_what_was_changed_and_hits_what_moved(protocol: str, recorded: Path) -> None:
    """The same where clients ask: with its second look, and with answers that name what is here."""
    random = Random(f"replay of {protocol}" + ("" if not IS_TORTURE else str(Random().random())))
    there, body, path = Place.random(random), calls(protocol), PATHS[protocol]
    asked = render(body, there.marks())
    with run_over(recorded, surroundings=there.surroundings()) as run:
        hit = ask(run, "POST", path, asked)
        assert hit.status == 200, hit.body
        for number in range(REPLAYED):
            changed = edit(body, random) if number % 3 else break_structure(body, there, random)
            missed = ask(run, "POST", path, render(changed, there.marks()))
            assert missed.status == MISS_STATUS, _difference(body, changed)
        assert len(run.ledger.misses) == REPLAYED
    repeated = said(lift(protocol, asked)).text
    assert WIRES[protocol].decode_answer(hit.body, "m").text == repeated
    assert there.cwd in repeated


@pytest.mark.parametrize("days", [1, -1, 400])
def test_a_day_is_another_one_everywhere_or_it_misses(days: int, recorded: Path) -> None:
    """The clock of a command need not be ours; but it is one clock."""
    there, body, path = Place.random(Random(days)), calls("openai-chat"), PATHS["openai-chat"]
    other = (there.day + timedelta(days=days)).isoformat()
    dated = list(leaves(body, lambda value: isinstance(value, str) and "{{iso}}" in value))
    assert len(dated) == 2
    with run_over(recorded, surroundings=there.surroundings()) as run:
        assert ask(run, "POST", path, render(body, {**there.marks(), "iso": other})).status == 200
        for at in dated:
            broken = write(body, at, read(body, at).replace("{{iso}}", other))
            assert ask(run, "POST", path, render(broken, there.marks())).status == MISS_STATUS


def _difference(body: Any, edited: Any) -> str:
    texts = leaves(edited, lambda value: True)
    return "\n".join(
        f"{at}: {read(body, at)!r} -> {read(edited, at)!r}"
        for at in texts
        if read(body, at) != read(edited, at)
    )
