"""Reasons in words."""

from __future__ import annotations

from typing import get_args

import pytest

from cortex_replay.prompt.cache.calls import Reason, Why
from cortex_replay.prompt.cache.reasons import describe_reason


@pytest.mark.parametrize("why", get_args(Why))
def test_every_reason_has_words(why: Why) -> None:
    assert describe_reason(Reason(why, "block 'policy'", 7))
    assert "{" not in describe_reason(Reason(why))


def test_the_block_is_named() -> None:
    assert describe_reason(Reason("changed", "block 'policy'")) == "block 'policy' changed"
    assert describe_reason(Reason("changed", "{x}")) == "{x} changed"
    assert describe_reason(Reason("too short")) == "the prompt is too short to be cached"
