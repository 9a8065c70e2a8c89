"""What calls cost, and what replaying them saved."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from cortex_replay import TokenUsage
from cortex_replay.config import Price, Settings
from cortex_replay.engine.ledger import Ledger
from cortex_replay.engine.money import PriceList, cost_of
from cortex_replay.engine.tokens import Tokens
from cortex_replay.faults import Faults
from cortex_replay.gateway.control import control
from cortex_replay.redact.redactor import Redactor
from cortex_replay.run import Run
from cortex_replay.store import FixtureKey, Store
from cortex_replay.wire import WIRES

KEY = FixtureKey("m", "0" * 64)
PRICES = PriceList(
    {"m": Price(3, 15, cached=0.3, cache_write_5m=3.75, cache_write_1h=6), "free": Price(0, 0)}, "USD"
)


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
        # 100 fresh, 600 read, 200 written for five minutes, 100 for an hour.
        (TokenUsage(1000, 10, 600, 300, 100), Price(3, 15, 0.3, 3.75, 6), "0.00198"),
        # A provider whose parts are more than their sum.
        (TokenUsage(1000, 0, None, 100, 200), Price(3, 15, 0.3, 3.75, 6), "0.0039"),
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


def test_what_was_cached_and_has_no_price_of_its_own_is_said() -> None:
    """Else the sum would be too high, and nobody would know."""
    prices = PriceList({"m": Price(3, 15), "n": Price(3, 15, 0.3), "o": Price(3, 15)}, "USD")
    paid = {"m": tokens(TokenUsage(1000, 0, 600)), "n": tokens(TokenUsage(1000, 0, 600))}
    saved = {"n": tokens(TokenUsage(1000, 0, 0, 600, 600)), "o": tokens(TokenUsage(1000, 0, 0, 0))}

    assert prices.facts(paid, {})[1:] == ["no price for what m cached, so it counts as input"]
    assert prices.rows(paid, saved)["cached at the price of input"] == "m and n"
    assert prices.to_dict(paid, saved)["cached_as_input"] == ["m", "n"]
    assert prices.to_dict({}, {"o": saved["o"]})["cached_as_input"] == []


CLAUDE = {
    "input_tokens": 50,
    "cache_read_input_tokens": 10_000,
    "cache_creation_input_tokens": 3_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 2_000, "ephemeral_1h_input_tokens": 1_000},
    "output_tokens": 200,
}
HI = [{"type": "text", "text": "Hi."}]
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}
ANSWERS: dict[str, tuple[str, dict[str, Any], str]] = {
    # 50 * 4 + 10,000 * 0.4 + 2,000 * 5 + 1,000 * 8 + 200 * 20, of a million
    "anthropic": ("anthropic-messages", {"content": HI, "usage": CLAUDE}, "0.0262"),
    "claude on bedrock": ("bedrock-anthropic", {"content": HI, "usage": CLAUDE}, "0.0262"),
    "converse": (
        "bedrock-converse",
        {
            "output": {"message": {"role": "assistant", "content": [{"text": "Hi."}]}},
            "stopReason": "end_turn",
            "usage": {
                "inputTokens": 50,
                "outputTokens": 200,
                "totalTokens": 13_250,
                "cacheReadInputTokens": 10_000,
                "cacheWriteInputTokens": 3_000,
                "cacheDetails": [{"inputTokens": 2_000, "ttl": "5m"}, {"inputTokens": 1_000, "ttl": "1h"}],
            },
        },
        "0.0262",
    ),
    # 86 * 4 + 1,920 * 0.4 + 300 * 20
    "openai chat": (
        "openai-chat",
        {
            "choices": [CHOICE],
            "usage": {
                "prompt_tokens": 2_006,
                "completion_tokens": 300,
                "total_tokens": 2_306,
                "prompt_tokens_details": {"cached_tokens": 1_920, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 0},
            },
        },
        "0.007112",
    ),
    "openai responses": (
        "openai-responses",
        {
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}],
            "status": "completed",
            "usage": {
                "input_tokens": 2_006,
                "input_tokens_details": {"cached_tokens": 1_920},
                "output_tokens": 300,
                "output_tokens_details": {"reasoning_tokens": 128},
                "total_tokens": 2_306,
            },
        },
        "0.007112",
    ),
    # 100 * 4 + 900 * 0.4 + 1,000 * 5 + 10 * 20: newer models are paid for what they write
    "openai writes": (
        "openai-chat",
        {
            "choices": [CHOICE],
            "usage": {
                "prompt_tokens": 2_000,
                "completion_tokens": 10,
                "prompt_tokens_details": {"cached_tokens": 900, "cache_write_tokens": 1_000},
            },
        },
        "0.00596",
    ),
    "openai responses writes": (
        "openai-responses",
        {
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}],
            "status": "completed",
            "usage": {
                "input_tokens": 2_000,
                "input_tokens_details": {"cached_tokens": 900, "cache_write_tokens": 1_000},
                "output_tokens": 10,
            },
        },
        "0.00596",
    ),
    # 100 * 4 + 900 * 0.4 + 10 * 20
    "deepseek": (
        "openai-chat",
        {
            "choices": [CHOICE],
            "usage": {
                "prompt_tokens": 1_000,
                "completion_tokens": 10,
                "prompt_cache_hit_tokens": 900,
                "prompt_cache_miss_tokens": 100,
            },
        },
        "0.00096",
    ),
    # 306 * 4 + 2,000 * 0.4 + (40 + 260) * 20: its thoughts are paid as output, and not part of the candidates
    "gemini": (
        "gemini-generate",
        {
            "candidates": [
                {"content": {"role": "model", "parts": [{"text": "Hi."}]}, "finishReason": "STOP"}
            ],
            "usageMetadata": {
                "promptTokenCount": 2_306,
                "cachedContentTokenCount": 2_000,
                "candidatesTokenCount": 40,
                "thoughtsTokenCount": 260,
                "totalTokenCount": 2_606,
            },
        },
        "0.008024",
    ),
    # 106 * 4 + 400 * 0.4 + 30 * 20
    "cohere": (
        "cohere-chat",
        {
            "message": {"role": "assistant", "content": HI},
            "finish_reason": "COMPLETE",
            "usage": {
                "billed_units": {"input_tokens": 20, "output_tokens": 30},
                "tokens": {"input_tokens": 506, "output_tokens": 30},
                "cached_tokens": 400,
            },
        },
        "0.001184",
    ),
    # 5 * 4 + 16 * 0.4 + 971 * 20
    "ollama": (
        "ollama-chat",
        {
            "message": {"role": "assistant", "content": "Hi."},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 21,
            "prompt_eval_cached_count": 16,
            "eval_count": 971,
        },
        "0.0194464",
    ),
}


@pytest.mark.parametrize(("protocol", "answer", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_cached_input_is_paid_once_on_every_wire(
    protocol: str, answer: dict[str, Any], expected: str
) -> None:
    """Some providers count it among the input, and some beside it."""
    decoded = WIRES[protocol].decode_answer(orjson.dumps({"model": "m", **answer}), "m")

    cost = cost_of(tokens(decoded.usage), Price(4, 20, 0.4, 5, 8))

    assert cost == Decimal(expected)


def test_the_ledger_tells_what_is_paid_from_what_is_saved() -> None:
    ledger = Ledger(Redactor, PRICES)
    ledger.keep(KEY, TokenUsage(1000, 100), "m")
    ledger.spend(TokenUsage(1000, 100), "other")
    ledger.hit(KEY, TokenUsage(2000, 0))
    ledger.hit("an exchange")
    ledger.keep("an exchange")

    assert ledger.money_facts() == ["0.0045 USD paid", "0.0060 USD saved", "no price for other"]
    assert (ledger.prompt_tokens, ledger.completion_tokens, ledger.replayed_tokens) == (2000, 200, 2000)
    assert ledger.token_facts() == ["2,000 + 200 tokens paid", "2,000 tokens saved"]
    ledger.spend(TokenUsage(2000, 0, 1000), "free")
    share = "1,000 of 4,000 input tokens, 25%"
    assert ledger.cost_facts()[0] == f"read from the cache: {share}"
    assert ledger.cost_rows()["read from the cache"] == share


def test_the_gateway_s_ledger_has_it(tmp_path: Path) -> None:
    settings = Settings(prices={"m": Price(3, 15)}, currency="EUR")
    run = Run(settings, "replay", Store.create(tmp_path))
    run.ledger.hit(KEY, TokenUsage(1000, 0, 600))

    ledger = orjson.loads(control("/-/ledger", "GET", b"", run, Faults(())).body)

    assert ledger["money"] == {
        "currency": "EUR",
        "paid": None,
        "saved": "0.003",
        "not_priced": [],
        "uncounted": 0,
        "cached_as_input": ["m"],
    }
    assert (ledger["tokens"]["replayed"], ledger["tokens"]["replayed_cached"]) == (1000, 600)
