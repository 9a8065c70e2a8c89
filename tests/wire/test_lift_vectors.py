"""Bodies as real clients send them, and the one form that each has."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import InvalidRequest
from cortex_replay.wire import WIRES
from tests.cases import each

VECTORS = Path(__file__).parents[1] / "vectors/lift.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in VECTORS.read_text().split("\n") if line]
BY_NAME = {row["name"]: row for row in ROWS}
rows = each(ROWS, itemgetter("name"))


def test_there_are_enough_of_them() -> None:
    """Over every wire, and a good part of them captured from real clients."""
    per_wire = Counter(row["wire"] for row in ROWS)
    captured = sum("captured" in row["source"] for row in ROWS)

    assert set(per_wire) == set(WIRES)
    assert len(ROWS) >= 60
    assert min(per_wire.values()) >= 5
    assert captured >= 30
    assert len(BY_NAME) == len(ROWS)


@rows
def test_a_body_lifts_to_its_canonical_request(row: dict[str, Any]) -> None:
    request = WIRES[row["wire"]].lift(row["body"])

    assert request.to_dict() == row["canonical"]
    assert request.model == row["model"]


@rows
def test_a_lifted_body_is_lowered_to_the_same_key(row: dict[str, Any]) -> None:
    """What cannot be sent again is refused, and only for want of data."""
    wire = WIRES[row["wire"]]
    request = wire.lift(row["body"])

    again = wire.lift(wire.lower(request))

    assert again == request


SAME = [row for row in ROWS if "same_as" in row or "same_key_as" in row]


@each(SAME, itemgetter("name"))
def test_bodies_that_a_model_cannot_tell_apart_have_one_key(row: dict[str, Any]) -> None:
    other = BY_NAME[row.get("same_as") or row["same_key_as"]]

    assert (
        WIRES[row["wire"]].lift(row["body"]).prompt_hash()
        == WIRES[other["wire"]].lift(other["body"]).prompt_hash()
    )


@rows
def test_a_body_is_not_changed_by_lifting_it(row: dict[str, Any]) -> None:
    before = json.dumps(row["body"])

    WIRES[row["wire"]].lift(row["body"])

    assert json.dumps(row["body"]) == before


NO_BODIES: list[Any] = [
    None,
    [],
    "x",
    5,
    {},
    {"model": 5},
    {"model": "m", "messages": 5, "input": 5, "prompt": 5},
]


@each(product(WIRES, NO_BODIES))
def test_what_is_no_body_is_refused(case: tuple[str, Any]) -> None:
    protocol, body = case

    with pytest.raises(InvalidRequest):
        WIRES[protocol].lift(body)
