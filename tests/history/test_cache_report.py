"""What a report says of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from cortex_replay.config import Price
from cortex_replay.history.cache_report import CacheReport, report_cache
from cortex_replay.history.calls import read_calls
from cortex_replay.store import Answer
from cortex_replay.types import TokenUsage
from tests.history.recordings import MODEL, Recording, record

RULES = "Refunds take five days. " * 100
CATALOGUE = "Umbrella, 12 EUR. " * 400


def policy(time: str) -> str:
    return f"You answer for the shop. It is {time}.\n{RULES}"


def report(root: Path, *recordings: Recording, **options: object) -> CacheReport:
    return report_cache(read_calls(record(root, *recordings)).calls, **options)  # type: ignore[arg-type]


def shop(at: float, time: str, read: int, written: int, **more: object) -> Recording:
    """A call with a time in its first block, and a marker behind the second."""
    given = {"markers": [("system", 2)], **more}
    return Recording(
        at,
        {"policy": policy(time), "catalogue": CATALOGUE},
        usage=TokenUsage(3010, 5, read, written),
        **given,  # type: ignore[arg-type]
    )


def test_calls_stand_beside_what_was_reported(tmp_path: Path) -> None:
    found = report(
        tmp_path,
        shop(0, "09:15", 0, 3000),
        shop(10, "09:15", 3000, 0, turns=["And now?"]),
        shop(20, "09:16", 0, 3000, turns=["And then?"]),
    )

    assert [(call.simulated.read, call.simulated.write_5m) for call in found.calls if call.simulated] == [
        (0, 3000),
        (3000, 0),
        (0, 3000),
    ]
    assert [call.differs for call in found.calls] == [False, False, False]
    assert [call.is_estimate for call in found.calls] == [False, False, False]
    assert [call.seconds for call in found.calls] == [0, 10, 20]


def test_the_block_that_broke_the_cache_is_named_with_what_it_cost(tmp_path: Path) -> None:
    found = report(tmp_path, *(shop(10 * i, f"09:{15 + i}", 0, 3000) for i in range(4)))

    (loss,) = found.losses
    assert (loss.why, loss.block, loss.calls, loss.first) == ("changed", "block 'policy'", 3, 2)
    assert loss.looks_like == "a time"
    assert str(loss) == "block 'policy' changed, and the difference looks like a time"
    catalogue = found.calls[1].losses[0].reason.tokens
    assert 2000 < catalogue < 2500  # what stands behind the block, which is itself new text
    assert loss.tokens == 3 * catalogue
    assert loss.cost.value == loss.tokens * Fraction("1.15")
    assert found.costs is not None
    assert found.costs.reported.value == found.costs.alternatives.given.cost.value == 4 * (3000 * 1.25 + 10)
    assert found.costs.alternatives.no_marker.cost.value == 4 * 3010


def test_what_expired_is_said(tmp_path: Path) -> None:
    found = report(tmp_path, shop(0, "09:15", 0, 3000), shop(301, "09:15", 0, 3000, turns=["After a break."]))

    assert [(loss.why, loss.tokens) for loss in found.losses] == [("ttl", 3000)]
    assert [str(loss) for loss in found.calls[1].losses] == [
        "the cache entry up to block 'catalogue' had expired: 3,000 tokens are paid again"
    ]
    assert found.costs is not None
    assert found.costs.alternatives.hour.cost.value == 3000 * 2 + 10 + 300 + 10


def test_a_difference_has_the_provider_s_own_reason(tmp_path: Path) -> None:
    found = report(
        tmp_path,
        shop(0, "09:15", 0, 3000),
        shop(10, "09:15", 0, 3000, turns=["x"], meta={"cache": {"reason": "tools_changed at tools.0"}}),
        shop(20, "09:15", 0, 3000, turns=["y"]),
        shop(30, "09:15", 2990, 10, turns=["z"]),
    )

    assert [call.differs for call in found.calls] == [False, True, True, False]
    assert found.calls[1].explanations[0] == "the provider says: tools_changed at tools.0"
    assert found.calls[2].explanations == (
        "the provider may have dropped it early, or asked a machine that did not have it",
    )
    assert found.differences == 2


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"read": 3000, "written": 0, "markers": []}, "does not say where its markers stood"),
        ({"at": 400, "read": 3000, "written": 0}, "kept it longer than it promises"),
        ({"time": "10:20", "read": 3000, "written": 0}, "was in the cache before this run began"),
        (
            {"read": 0, "written": 3000, "meta": {"normalisers": ["dates"]}},
            "normalisers changed this request before it was stored",
        ),
    ],
)
def test_a_difference_has_a_likely_reason(tmp_path: Path, second: dict[str, object], words: str) -> None:
    given = {"at": 10, "time": "09:15", **second}
    found = report(tmp_path, shop(0, "09:15", 0, 3000), shop(**given, turns=["x"]))  # type: ignore[arg-type]

    assert found.calls[1].differs
    assert words in found.calls[1].explanations[0]


def test_a_marker_of_an_hour_that_was_taken_for_five_minutes_is_a_difference(tmp_path: Path) -> None:
    """Where a proxy drops the time of a marker, the cache is gone too soon."""
    system = {"policy": policy("09:15"), "catalogue": CATALOGUE}
    markers = [("system", 2)]
    short, long = (
        report(
            tmp_path / str(hours),
            Recording(0, system, usage=TokenUsage(3010, 5, 0, 3000, hours), markers=markers, ttl="1h"),
        )
        for hours in (0, 3000)
    )

    assert short.calls[0].explanations[0] == "it wrote as much, but for another time than the markers say"
    assert not long.calls[0].differs


def test_a_value_that_is_bound_is_named(tmp_path: Path) -> None:
    """The recording has a placeholder in its place, so it looks the same in every call."""
    bound = {"meta": {"bindings": ["today"]}}
    found = report(
        tmp_path,
        shop(0, "⟦today⟧", 0, 3000, **bound),
        shop(10, "⟦today⟧", 0, 3000, turns=["x"], **bound),
    )

    assert found.calls[1].explanations[0].startswith("block 'policy' holds ⟦today⟧ in place of the value")


@pytest.mark.parametrize(("read", "differs"), [(1920, False), (1800, False), (1700, True), (0, True)])
def test_a_difference_within_the_provider_s_step_is_none(tmp_path: Path, read: int, differs: bool) -> None:
    origin = {"provider": "openai", "wire": "openai-chat"}
    calls = [
        Recording(9 * i, {"c": CATALOGUE}, turns, TokenUsage(size, 5, said), model="gpt-4o", meta=origin)
        for i, (turns, size, said) in enumerate(
            [(["a"], 2000, 0), (["a", "b"], 2040, 1920), (["a", "b", "c"], 2070, read)]
        )
    ]

    found = report(tmp_path, *calls)
    assert [call.simulated.read for call in found.calls if call.simulated] == [0, 1920, 1920]
    assert [call.differs for call in found.calls] == [False, False, differs]


@pytest.mark.parametrize(("read", "differs"), [(1536, False), (1280, True)])
def test_an_estimate_may_be_off_by_a_tenth(tmp_path: Path, read: int, differs: bool) -> None:
    """No count says how large the block is that both begin with: nine tenths of the prompt, by its bytes."""
    origin = {"provider": "openai", "wire": "openai-chat"}
    calls = [
        Recording(9 * i, {"c": CATALOGUE}, [turn], TokenUsage(2000, 5, said), model="gpt-4o", meta=origin)
        for i, (turn, said) in enumerate([("a" * 800, 0), ("b" * 800, read)])
    ]

    second = report(tmp_path, *calls).calls[1]
    assert second.simulated is not None
    assert (second.simulated.read, second.is_estimate, second.differs) == (1792, True, differs)


def test_what_a_provider_says_nothing_of_counts_as_fresh(tmp_path: Path) -> None:
    call = Recording(0, {"c": CATALOGUE}, usage=TokenUsage(2000, 5), markers=[("system", 1)])
    found = report(tmp_path, call)

    assert found.calls[0].reported is None
    assert found.costs is not None
    assert found.costs.reported.value == 2000


def test_a_secret_that_was_taken_out_is_named(tmp_path: Path) -> None:
    """Two secrets look alike in recordings, and a provider saw two prompts."""
    secret = {"meta": {"redactions": [{"kind": "value", "where": "request", "rule": "jwt", "count": 1}]}}
    found = report(
        tmp_path,
        shop(0, "[REDACTED:jwt]", 0, 3000, **secret),
        shop(10, "[REDACTED:jwt]", 0, 3000, turns=["x"], **secret),
    )

    assert found.calls[1].explanations[0].startswith("block 'policy' holds [REDACTED:jwt] in place of")


def test_prices_of_some_models_only_make_no_sum(tmp_path: Path) -> None:
    recordings = [shop(0, "09:15", 0, 3000), shop(1, "09:15", 0, 3000, model="claude-opus-5")]
    prices = {"claude-opus-5": Price(3, 15)}
    found = report(tmp_path, *recordings, prices=prices, currency="USD")

    (note,) = found.notes
    assert note == f"Costs are in input tokens, because the settings have no price for {MODEL}."


def test_no_advice_follows_from_markers_that_nobody_noted(tmp_path: Path) -> None:
    """The provider cached, so there were some: that none is noted says nothing of the prompt."""
    old = [
        shop(0, "09:15", 0, 3000, markers=[]),
        shop(10, "09:15", 3000, 0, markers=[], turns=["And now?"]),
    ]
    found = report(tmp_path / "old", *old)
    plain = report(tmp_path / "plain", *(replace(one, usage=TokenUsage(3010, 5, 0, 0)) for one in old))

    assert (found.costs, found.losses) == (None, ())
    (note,) = found.notes
    assert note.startswith("2 calls were recorded by a version that noted no markers")
    assert plain.costs is not None
    assert [loss.why for loss in plain.losses] == ["no marker"]
    assert plain.notes == ()


def test_what_was_imported_has_no_times(tmp_path: Path) -> None:
    found = report(tmp_path, shop(0, "09:15", 0, 3000, meta={"adapter": "import"}))

    assert found.notes[0].startswith("1 call was imported without a time")


def test_prices_make_it_money(tmp_path: Path) -> None:
    prices = {"claude-haiku-5-5": Price(3, 15)}
    found = report(tmp_path, shop(0, "09:15", 0, 3000), prices=prices, currency="USD")

    assert found.costs is not None
    assert str(found.costs.reported) == "0.0114 USD"  # (3000 * 1.25 + 10) * 3 + 5 * 15, in millionths
    assert found.costs.assumed == ("cached", "cache_write_5m", "cache_write_1h")


def test_other_models_and_uncounted_calls_are_told_apart(tmp_path: Path) -> None:
    found = report(
        tmp_path,
        Recording(0, usage=TokenUsage(50, 5, 0), model="some-model", meta={"provider": "groq", "wire": "x"}),
        Recording(1, {"policy": CATALOGUE}, markers=[("system", 1)], answer=Answer("Yes.")),
        shop(2, "09:15", 0, 3000),
    )

    assert [call.provider for call in found.calls] == [None, "anthropic", "anthropic"]
    assert found.calls[0].simulated is None
    assert found.calls[0].reported is not None
    assert found.calls[1].is_estimate
    assert found.costs is not None
    assert found.costs.calls == 1
    text = " ".join(found.notes)
    assert "1 call was not simulated: how some-model is cached is not known" in text
    assert "1 call was not counted by the provider" in text


def test_a_provider_can_be_named(tmp_path: Path) -> None:
    other = Recording(
        0,
        {"policy": CATALOGUE},
        usage=TokenUsage(3000, 5, 0, 3000),
        markers=[("system", 1)],
        model="proxy-model",
        meta={"provider": "proxy"},
    )
    found = report(tmp_path, other, provider="anthropic")

    assert found.calls[0].simulated is not None
    assert found.calls[0].simulated.write_5m == 3000 or found.calls[0].simulated.is_assumed


def test_nothing_to_compare(tmp_path: Path) -> None:
    found = report(tmp_path, Recording(0, answer=Answer("Yes.")))

    assert found.costs is None
    assert report_cache([]).calls == ()


def test_a_program_gets_all_of_it(tmp_path: Path) -> None:
    found = report(tmp_path, *(shop(10 * i, f"09:{15 + i}", 0, 3000) for i in range(2)))
    value = json.loads(json.dumps(found.to_dict()))

    assert value["calls"][1] == {
        "number": 2,
        "run": "20261116T063024Z-3f2a",
        "scopes": [],
        "model": "claude-haiku-5-5",
        "provider": "anthropic",
        "prompt_hash": found.calls[1].recorded.prompt_hash,
        "path": found.calls[1].recorded.path,
        "answer": 1,
        "seconds": 10.0,
        "tokens": 3010,
        "is_counted": True,
        "simulated": {
            "read": 0,
            "write_5m": 3000,
            "write_1h": 0,
            "fresh": 10,
            "cost": {"amount": "3760", "unit": "tokens", "currency": None},
            "reasons": [{"why": "changed", "block": "block 'policy'", "tokens": 3000}],
        },
        "is_estimate": False,
        "reported": {
            "read": 0,
            "write_5m": 3000,
            "write_1h": 0,
            "fresh": 10,
            "cost": {"amount": "3760", "unit": "tokens", "currency": None},
            "reasons": [],
        },
        "differs": False,
        "explanations": [],
    }
    assert value["losses"][0]["looks_like"] == "a time"
    assert value["costs"]["reported"]["amount"] == "7520"
    assert {"given", "no marker", "1h", "best"} <= value["costs"].keys()
