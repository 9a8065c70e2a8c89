"""Which recordings a sample has, and in which order."""

from __future__ import annotations

from decimal import Decimal

import pytest

from cortex_replay import Answer, Fixture
from cortex_replay.canonical import JsonValue
from cortex_replay.config import Price
from cortex_replay.engine.lookup import LookUp
from cortex_replay.engine.money import PriceList
from cortex_replay.run.refresh.choosing import Choice, Order, Share, choose
from cortex_replay.run.refresh.items import Refresh
from cortex_replay.run.targets import Target
from cortex_replay.store.store import StoredFixture
from cortex_replay.types import TokenUsage
from tests.builder import ask


def item(
    name: str, *users: str, model: str = "m", tokens: int | None = None, recorded_at: str | None = None
) -> Refresh:
    request = ask(name, model=model)
    meta: dict[str, JsonValue] = {} if recorded_at is None else {"recorded_at": recorded_at}
    usage = None if tokens is None else TokenUsage(tokens, 0)
    fixture = Fixture.of(request, Answer("a", usage=usage), meta=meta)
    stored = StoredFixture(*fixture.key, name, "0" * 64)
    return Refresh(
        stored, fixture, request, Target("echo", None), LookUp(fixture.key), users=frozenset(users)
    )


def names(choice: Choice) -> list[str]:
    return [one.stored.path for one in choice.items]


@pytest.mark.parametrize(
    ("text", "total", "count"),
    [
        ("3", 10, 3),
        ("30", 10, 10),
        ("10%", 10, 1),
        ("10%", 11, 2),
        ("1%", 5, 1),
        ("100%", 7, 7),
        ("5%", 0, 0),
    ],
)
def test_a_share_is_never_nothing_of_something(text: str, total: int, count: int) -> None:
    assert Share.parse(text).of(total) == count
    assert str(Share.parse(text)) == text


@pytest.mark.parametrize("text", ["", "0", "0%", "101%", "-1", "1.5", "ten", "5 %", "٣", "9" * 20])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(ValueError, match="20, 10%"):
        Share.parse(text)


def test_the_oldest_come_first_and_what_has_no_date_before_them() -> None:
    items = [
        item("new", recorded_at="2026-05-01T00:00:00Z"),
        item("old", recorded_at="2025-05-01T00:00:00+02:00"),
        item("undated"),
        item("nonsense", recorded_at="yesterday"),
    ]

    assert names(choose(items, None, Order.AGE)) == ["nonsense", "undated", "old", "new"]
    chosen = choose(items, Share(2), Order.AGE)
    assert (names(chosen), [one.stored.path for one in chosen.left]) == (
        ["nonsense", "undated"],
        ["old", "new"],
    )


def test_the_most_used_come_first() -> None:
    items = [item("a"), item("b", "test_1", "test_2"), item("c", "test_1")]

    assert names(choose(items, None, Order.USE)) == ["b", "c", "a"]
    used = {("m", items[0].stored.prompt_hash, ""): 3, ("m", items[2].stored.prompt_hash, "of a scope"): 9}
    assert names(choose(items, None, Order.USE, used=used)) == ["a", "b", "c"]


def test_the_most_expensive_come_first_by_price_and_not_by_tokens() -> None:
    prices = PriceList({"dear": Price(Decimal(10), Decimal(10)), "cheap": Price(Decimal(1), Decimal(1))})
    items = [
        item("a", model="free", tokens=900),
        item("b", model="free", tokens=1000),
        item("c", model="cheap", tokens=500),
        item("d", model="dear", tokens=100),
        item("e", model="dear"),
    ]

    chosen = choose(items, None, Order.MONEY, prices=prices)

    assert names(chosen) == ["d", "c", "b", "a", "e"]
    assert chosen.unpriced == {"free"}
    assert choose(items, None, Order.AGE, prices=prices).unpriced == frozenset()


def test_a_seed_gives_the_same_ones_again_in_whatever_order_they_come() -> None:
    items = [item(str(number)) for number in range(20)]

    chosen = [names(choose(each, Share(5), Order.RANDOM, seed=7)) for each in (items, items[::-1])]

    assert chosen[0] == chosen[1]
    others = {tuple(names(choose(items, Share(5), Order.RANDOM, seed=seed))) for seed in range(20)}
    assert len(others) > 15
    assert {name for chosen in others for name in chosen} == {one.stored.path for one in items}


def test_without_an_order_all_stay_as_they_are() -> None:
    items = [item("b"), item("a")]

    assert choose(items, None, None) == Choice(items)
