"""What calls cost, and what replaying them saved."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from cortex_replay import TokenUsage
from cortex_replay.config import Price, Settings
from cortex_replay.engine.ledger import Ledger
from cortex_replay.engine.money import PriceList, Tokens, merge_tallies, read_tally
from cortex_replay.faults import Faults
from cortex_replay.gateway.control import control
from cortex_replay.redact.redactor import Redactor
from cortex_replay.run import Run
from cortex_replay.store import FixtureKey, Store

KEY = FixtureKey("m", "0" * 64)
PRICES = PriceList({"m": Price(3, 15, cached=0.3, cache_write=3.75), "free": Price(0, 0)}, "USD")


def tokens(*usages: TokenUsage | None) -> Tokens:
    counted = Tokens()
    for usage in usages:
        counted.add(usage)
    return counted


@pytest.mark.parametrize(
    ("usage", "price", "expected"),
    [
        (TokenUsage(1_000_000, 0), Price(0.1, 0), "0.1"),
        (TokenUsage(3, 7), Price(0.1, 0.2), "0.0000017"),
        (TokenUsage(1000, 10, 600, 300), Price(3, 15, 0.3, 3.75), "0.001755"),
        # Without a price of its own, what was cached costs what the rest costs.
        (TokenUsage(1000, 0, 600, 300), Price(3, 15), "0.003"),
        # A provider that counts otherwise does not make it cheaper than nothing.
        (TokenUsage(100, 0, 600), Price(3, 15, 0.3), "0.00018"),
    ],
)
def test_an_amount_is_exact(usage: TokenUsage, price: Price, expected: str) -> None:
    """Ten times 0.1 is 1: there is no float on the way."""
    money = PriceList({"m": price}, "USD").to_dict({"m": tokens(usage)}, {})

    assert money["paid"] == expected


def test_what_was_paid_and_saved_is_said_apart() -> None:
    paid, saved = {"m": tokens(TokenUsage(1000, 100))}, {"m": tokens(*[TokenUsage(2000, 0)] * 3)}

    assert PRICES.facts(paid, saved) == ["0.0045 USD paid", "0.0180 USD saved"]
    assert PriceList(PRICES.prices).facts(paid, {}) == ["0.0045 paid at your prices"]
    assert PRICES.rows(paid, saved) == {"paid": "0.0045 USD", "saved": "0.0180 USD"}


def test_a_model_without_a_price_is_named_and_not_counted_as_free() -> None:
    strangers = {"gpt-x": tokens(TokenUsage(10, 10)), "\x1b[31m": tokens(TokenUsage(1, 1))}

    assert PRICES.facts(strangers, {}) == ["no price for \\x1b[31m and gpt-x"]
    assert PRICES.to_dict(strangers, {})["paid"] is None
    assert PRICES.facts({**strangers, "free": tokens(TokenUsage(5, 5))}, {})[0] == "0.0000 USD paid"
    many = {f"m{n}": tokens(TokenUsage(1, 1)) for n in range(9)}
    assert PRICES.facts(many, {}) == ["no price for m0 and m1 and m2 and m3 and m4 and 4 more"]


def test_calls_that_nobody_counted_are_said() -> None:
    saved = {"m": tokens(TokenUsage(1000, 0), None, None)}

    assert PRICES.facts({}, saved) == ["0.0030 USD saved", "2 calls with no token count"]


def test_little_is_not_nothing() -> None:
    assert PRICES.facts({"m": tokens(TokenUsage(1, 0))}, {}) == ["less than 0.0001 USD paid"]


def test_without_prices_nothing_is_said_of_money() -> None:
    none = PriceList()

    assert (none.facts({"m": tokens(TokenUsage(1, 1))}, {}), none.to_dict({}, {})) == ([], {})


def test_the_tallies_of_several_processes_are_one() -> None:
    one = {"m": asdict(tokens(TokenUsage(1, 2, 1), None)), "n": asdict(tokens(TokenUsage(5, 5)))}
    other = {"m": asdict(tokens(TokenUsage(10, 20)))}

    assert merge_tallies(map(read_tally, [one, other])) == {
        "m": Tokens(prompt=11, completion=22, cached=1, uncounted=1),
        "n": Tokens(prompt=5, completion=5),
    }


def test_the_ledger_tells_what_is_paid_from_what_is_saved() -> None:
    ledger = Ledger(Redactor, PRICES)
    ledger.keep(KEY, TokenUsage(1000, 100), "m")
    ledger.spend(TokenUsage(1000, 100), "other")
    ledger.hit(KEY, TokenUsage(2000, 0))
    ledger.hit("an exchange")
    ledger.keep("an exchange")

    assert ledger.money_facts() == ["0.0045 USD paid", "0.0060 USD saved", "no price for other"]
    assert (ledger.prompt_tokens, ledger.completion_tokens, ledger.replayed_tokens) == (2000, 200, 2000)


def test_the_gateway_s_ledger_has_it(tmp_path: Path) -> None:
    settings = Settings(prices={"m": Price(3, 15)}, currency="EUR")
    run = Run(settings, "replay", Store.create(tmp_path))
    run.ledger.hit(KEY, TokenUsage(1000, 0))

    reply = control("/-/ledger", "GET", b"", run, Faults(()))

    assert b'"money":{"currency":"EUR","paid":null,"saved":"0.003"' in reply.body.replace(b" ", b"")
