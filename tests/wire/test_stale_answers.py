"""An edit that the model could see misses: every field of a rich body is changed, deleted and added to.

The bodies of a wire, and the edits that rightly hit with the reason of each, are a file of
``tests/vectors/rich_bodies``. A new wire joins by adding its own.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import InvalidRequest
from cortex_replay.wire import WIRES, Wire

FOLDER = Path(__file__).parents[1] / "vectors/rich_bodies"
Edit = tuple[str, Any]
"""What was done, such as ``delete 0.messages.1.role`` for the first body, and the body that it makes."""


def key_of(wire: Wire, body: Any) -> str | None:
    """What a body is found by; ``None`` for one that is refused, and so finds nothing."""
    try:
        request = wire.lift(body)
    except InvalidRequest:
        return None
    return f"{request.model} {request.prompt_hash()}"


def edits(body: Any, number: int) -> Iterator[Edit]:
    """Every body that differs from this one in one place, at any depth."""
    for steps, value in places(body, ()):
        where = ".".join(map(str, (number, *steps)))
        if steps:
            yield f"delete {where}", edited(body, steps)
        for word, changed in variants(value):
            yield f"{word} {where}", edited(body, steps, changed)


def places(value: Any, steps: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    yield steps, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inner:
        yield from places(item, (*steps, step))


def variants(value: Any) -> Iterator[tuple[str, Any]]:
    """Other values for a place, each with a word for the edit."""
    match value:
        case dict():
            yield "extend", {**value, "x_new": 1}
        case list():
            yield "extend", [*value, copy.deepcopy(value[-1]) if value else "new"]
            if value != value[::-1]:
                yield "reverse", value[::-1]
        case bool():
            yield "change", not value
        case int() | float():
            yield "change", value + 1
        case str():
            yield "change", f"{value}x"
            if value:
                yield "empty", ""


def edited(body: Any, steps: tuple[str | int, ...], *value: Any) -> Any:
    """A copy with another value at a place, or without the place."""
    if not steps:
        return value[0]
    made = copy.deepcopy(body)
    holder = made
    for step in steps[:-1]:
        holder = holder[step]
    if value:
        holder[steps[-1]] = value[0]
    else:
        del holder[steps[-1]]
    return made


def is_match(pattern: str, edit: str) -> bool:
    """``*`` stands for one step or one word, ``**`` at the end for the place itself and all below it."""
    spelled = re.escape(pattern).replace(r"\.\*\*", r"(?:\.\S+)?").replace(r"\*", r"[^\s.]+")
    return re.fullmatch(spelled, edit) is not None


@pytest.mark.parametrize("protocol", WIRES)
def test_every_edit_that_the_model_could_see_misses(protocol: str) -> None:
    """The list of those that hit is complete, and has nothing that misses."""
    wire = WIRES[protocol]
    document = json.loads((FOLDER / f"{protocol}.json").read_text())
    unseen: dict[str, str] = document["unseen"]
    hits: set[str] = set()
    misses: set[str] = set()
    for number, body in enumerate(document["bodies"]):
        recorded = key_of(wire, body)
        assert recorded is not None
        for edit, changed in edits(body, number):
            (hits if key_of(wire, changed) == recorded else misses).add(edit)

    matched = {pattern: {edit for edit in hits | misses if is_match(pattern, edit)} for pattern in unseen}
    assert sorted(hits - set().union(*matched.values())) == []
    assert sorted(set().union(*matched.values()) - hits) == []
    assert [pattern for pattern, found in matched.items() if not found] == []
    assert all(unseen.values())
    assert len(misses) >= 40


def test_there_is_a_body_for_every_wire_and_enough_to_edit() -> None:
    documents = {path.stem: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
    made = sum(1 for document in documents.values() for body in document["bodies"] for _ in edits(body, 0))

    assert set(documents) == set(WIRES)
    assert made >= 2000
