"""Tiers, and the highest of them."""

from __future__ import annotations

from cortex_replay.behaviour.differences import Difference, Tier, highest


def test_the_highest_tier_wins() -> None:
    words = Difference(Tier.WORDS, "text", "", "a", "b", "the words differ")
    broken = Difference(Tier.CONTRACT, "refusal", "", False, True, "the model refuses")

    assert highest([words, broken]) is Tier.CONTRACT
    assert highest([]) is Tier.SAME
    assert broken.to_dict()["tier"] == "contract"
