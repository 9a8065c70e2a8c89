"""A rule binds what stands at its place, and nothing anywhere else."""

from __future__ import annotations

import pytest

from cortex_replay.bindings import NOWHERE, Binder, BindingRules, PlaceRule
from cortex_replay.bindings.shapes import SHAPES
from cortex_replay.types import LlmRequest
from tests.bindings.ann import bind, surroundings

VALUES = {
    "uuid": ["0b9d3c1e-7a52-4c1f-9f0e-5d2f6a7b8c9d", "01A1E267-6C4D-7AA0-AA5F-23AABB37C19D"],
    "ulid": ["01K9ZZZZZZZZZZZZZZZZZZZZZZ", "01h455vb4pex5vsknk084sn02q"],
    "time": [
        "2020-01-02T03:04:05.6Z",
        "Thu Jan  2 03:04:05 UTC 2020",
        "03:04:05",
        "2 January 2020",
        "Jan 2 03:04",
    ],
    "epoch": ["1577934245", "1577934245.25", "1577934245123"],
    "duration": ["1.23s", "350 ms", "0.0000 seconds", "2m 3s", "1h 5m", "0:00:01.5"],
    "port": ["1", "8080", "65535"],
    "pid": ["1", "4194304"],
    "hex-id": ["e5539b", "A9C2B3A43B4B57176318092D275EB5E91A1422BF"],
    "number": ["18", "-3.5", "1,234", "12%", "1e-7"],
    "path": ["/usr/x.py", "~/a", "../b/c", "./d", "/e/"],
}
OTHERS = {
    "uuid": ["0b9d3c1e-7a52-0c1f-9f0e-5d2f6a7b8c9d", "0b9d3c1e7a524c1f9f0e5d2f6a7b8c9d"],
    "ulid": ["01K9", "81K9ZZZZZZZZZZZZZZZZZZZZZZ"],
    "time": ["noon", "12"],
    "epoch": ["12", "157793424"],
    "duration": ["12", "soon", "12 apples"],
    "port": ["0", "65536", "x"],
    "pid": ["0", "12345678"],
    "hex-id": ["e55", "xyz123"],
    "number": ["a", "one"],
    "path": ["word", "/"],
}


def test_every_shape_has_cases() -> None:
    assert set(VALUES) == set(OTHERS) == set(SHAPES)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_fits_its_values_and_no_others(shape: str) -> None:
    assert [text for text in VALUES[shape] if not SHAPES[shape].fits(text)] == []
    assert [text for text in OTHERS[shape] if SHAPES[shape].fits(text)] == []


@pytest.mark.parametrize("shape", SHAPES)
def test_a_rule_binds_a_shape_at_its_place(shape: str) -> None:
    rules = BindingRules(
        shapes=(),
        rules=(PlaceRule(bind=shape, before="got ", after=" from"), PlaceRule(bind=shape, before="was ")),
    )
    known = surroundings()
    for value in VALUES[shape]:
        assert bind(f"got {value} from", rules, known) == f"got ⟦{shape}#1⟧ from"
        assert bind(f"was {value}", rules, known) == f"was ⟦{shape}#1⟧"
        elsewhere = f"had {value} from, got {value}, got  {value} from"
        assert bind(elsewhere, rules, known) == elsewhere
    for value in OTHERS[shape]:
        assert bind(f"got {value} from", rules, known) == f"got {value} from"


def test_a_rule_may_say_only_what_comes_after() -> None:
    rules = BindingRules(rules=(PlaceRule(bind="number", after=" tests passed"),))

    assert (
        bind("12 tests passed, 3 failed, x12 tests passed", rules)
        == "⟦number#1⟧ tests passed, 3 failed, x12 tests passed"
    )


def test_measures_are_numbered_by_occurrence_and_ids_by_value() -> None:
    rules = BindingRules(
        rules=(PlaceRule(bind="duration", before="took "), PlaceRule(bind="hex-id", before="Chunk ID: "))
    )
    text = "took 1s took 1s Chunk ID: e5539b Chunk ID: e5539b Chunk ID: 4f06c4"

    assert bind(text, rules) == (
        "took ⟦duration#1⟧ took ⟦duration#2⟧ Chunk ID: ⟦hex-id#1⟧ Chunk ID: ⟦hex-id#1⟧ Chunk ID: ⟦hex-id#2⟧"
    )


def test_a_rule_binds_a_value_that_is_too_common_elsewhere() -> None:
    rules = BindingRules(
        rules=(PlaceRule(bind="user", before="whoami: "), PlaceRule(bind="tmp", before="in `", after="/x"))
    )
    known = surroundings(USER="root", TMPDIR="/tmp")

    assert bind("whoami: root, the root user in `/tmp/x` /tmp/x", rules, known) == (
        "whoami: ⟦user⟧, the root user in `⟦tmp⟧/x` /tmp/x"
    )
    assert bind("whoami: rooted whoami: ann", rules, known) == "whoami: rooted whoami: ann"


def test_nowhere_a_rule_binds_the_common_values_of_a_name() -> None:
    """A recording that was made where it was one of them."""
    rules = BindingRules(
        rules=(PlaceRule(bind="user", before="whoami: "), PlaceRule(bind="tz", before="zone "))
    )
    binder = Binder(rules, NOWHERE)

    def stored(text: str) -> str:
        return binder.bind_stored(LlmRequest("m", system=text), ()).request.system

    assert stored("whoami: root zone UTC") == "whoami: ⟦user⟧ zone ⟦tz⟧"
    assert stored("whoami: mia.") == "whoami: ⟦user⟧."
    assert stored("whoami: somebody else") == "whoami: somebody else"
