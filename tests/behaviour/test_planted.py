"""Every planted change stands in its tier and nowhere else; no rewording stands above words."""

from __future__ import annotations

import pytest

from cortex_replay.behaviour.compare import compare_answers
from cortex_replay.behaviour.differences import Tier, highest
from cortex_replay.behaviour.samples import judge
from tests.behaviour.planted import CHANGES, REWORDINGS, Planted, on_wires


def test_there_are_enough_of_them() -> None:
    assert len(CHANGES) >= 60
    assert len({(planted.tier, planted.kind, planted.name.partition(":")[0]) for planted in CHANGES}) >= 12
    assert len({planted.kind for planted in CHANGES}) >= 9
    assert len(REWORDINGS) >= 60


@pytest.mark.parametrize("planted", CHANGES, ids=lambda planted: planted.name)
def test_a_planted_change_stands_in_its_tier_and_only_there(planted: Planted) -> None:
    for wire, request, before, after in on_wires(planted):
        found = compare_answers(before, after, request)
        told = {(one.tier.word, one.kind) for one in found if one.tier is not Tier.WORDS}
        assert told == {(planted.tier, planted.kind)}, wire
        assert judge([before], [after], request) == found, wire
        assert compare_answers(before, before, request) == [], wire


@pytest.mark.parametrize("planted", REWORDINGS, ids=lambda planted: planted.name)
def test_a_rewording_stands_in_words(planted: Planted) -> None:
    for wire, request, before, after in on_wires(planted):
        found = compare_answers(before, after, request)
        assert [(one.tier.word, one.kind) for one in found] == [("words", planted.kind)], wire
        assert highest(judge([before], [after] * 3, request)) is Tier.WORDS, wire
