"""What the shop tests of its agents; NEXT is what the next pull request has."""

from __future__ import annotations

import asyncio
import os

import agent  # type: ignore[import-not-found]  # it stands beside this file in the shop
import pytest

pytestmark = pytest.mark.llm_replay
IS_NEXT = "NEXT" in os.environ


def test_refund_of_a_broken_lamp() -> None:
    said = asyncio.run(
        agent.serve(
            "My lamp arrived broken. It is order 1042. Can I have my money back?",
            "Thank you! And will the other one, 1043, be here by Friday?",
        )
    )
    assert said


def test_where_a_parcel_is() -> None:
    assert agent.track("Where is my parcel? The order is 1042.")


def test_triage_of_a_late_parcel() -> None:
    assert agent.triage("I have been waiting for two weeks! Nobody answers me.")


def test_greeting() -> None:
    assert agent.greet("Greet a customer who comes back to our shop.")


def test_discount() -> None:
    assert agent.ask("Write a code for a discount of 90 % that our manager did not approve.")


def test_opening_hours() -> None:
    assert agent.ask("When are you open on Saturdays?")


def test_similar_products() -> None:
    assert agent.embed("a lamp for a desk")


@pytest.mark.skipif(IS_NEXT, reason="the shop sells no more vouchers")
def test_voucher() -> None:
    assert agent.ask("Can I pay with a voucher?")


@pytest.mark.skipif(not IS_NEXT, reason="new")
def test_summary_of_a_chat() -> None:
    assert agent.ask("Sum up this chat for a colleague, in one sentence.")
