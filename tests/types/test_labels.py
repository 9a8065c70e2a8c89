"""What people call the blocks of a system prompt, as a header carries it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from cortex_replay import LlmRequest, PromptCachePlan
from cortex_replay.types.labels import label_request, read_labels, write_labels


@settings(max_examples=30)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1).filter(any))
def test_labels_come_back_as_they_were(labels: list[str]) -> None:
    written = write_labels(labels)

    assert written.isascii()
    assert written.isprintable()
    assert read_labels(written) == tuple(labels)


@pytest.mark.parametrize("header", ["", "," * 5000])
def test_a_header_that_says_nothing_has_none(header: str) -> None:
    assert read_labels(header) == ()


def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert read_labels("%ff,%zz, a ") == ("\ufffd", "%zz", "a")
    assert write_labels(["\ud800"]) == "%3F"


def test_a_request_keeps_the_labels_that_it_has() -> None:
    request = LlmRequest("m", "s")

    assert label_request(request, ("a",)).cache == PromptCachePlan(labels=("a",))
    assert label_request(label_request(request, ("a",)), ("b",)).cache == PromptCachePlan(labels=("a",))
    assert label_request(request, ("", "")) is request
