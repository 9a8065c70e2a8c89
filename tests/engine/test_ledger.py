"""What another process of a run reports, merged into the ledger of the run."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_replay.engine.ledger import Ledger, LedgerPart
from cortex_replay.errors import InvalidRequest
from cortex_replay.redact.redactor import Redactor

SECRET = "a-key-that-only-this-run-knows-4711"
PART: dict[str, Any] = {
    "hits": 2,
    "saved": {"m": {"prompt": 20, "completion": 10}},
    "misses": [{"what": "test_a", "explanation": f"nothing for {SECRET}"}],
    "used": [{"model": "m", "prompt_hash": "0" * 64}],
    "used_exchanges": ["1" * 64],
    "bypassed": {"127.0.0.1:8000": 3},
}


def test_a_part_is_added_and_redacted() -> None:
    ledger = Ledger(lambda: Redactor([SECRET]))
    ledger.hit(("m", "2" * 64))  # type: ignore[arg-type]
    ledger.merge(LedgerPart.parse(PART))

    assert (ledger.hits, ledger.calls, ledger.replayed_tokens) == (3, 4, 30)
    assert {key[1][0] for key in ledger.used_keys} == {"0", "2"}
    assert ledger.used_exchanges == {"1" * 64}
    assert ledger.bypassed == {"127.0.0.1:8000": 3}
    assert SECRET not in ledger.misses[0].explanation


def test_a_probe_stays_one_on_its_way() -> None:
    """Also when its text is redacted anew, and where there are too many to list."""
    ledger = Ledger(lambda: Redactor([SECRET]))
    probe = {"what": "test_a", "explanation": "no models", "is_probe": True}
    ledger.merge(LedgerPart.parse({**PART, "misses": [*PART["misses"], probe]}))
    ledger.redactor.learn("another-key-of-this-run-0815")
    for _ in range(1000):
        ledger.miss("GET /v1/models", "no models", is_probe=True)

    assert [miss.is_probe for miss in ledger.misses] == [False, *[True] * 1001]
    assert [miss.what for miss in ledger.missing_answers] == ["test_a"]


@pytest.mark.parametrize(
    "change",
    [
        {"hits": -1},
        {"hits": "2"},
        {"hits": 10**30},
        {"saved": 30},
        {"saved": {"m": {"prompt": -1}}},
        {"saved": {"m": {"prompt": True}}},
        {"saved": {"m": {"prompt": 10**30}}},
        {"saved": {"m": {"total": 3}}},
        {"saved": {"m": {7: 3}}},
        {"misses": [{"what": "test_a"}]},
        {"misses": ["test_a"]},
        {"used": [{"model": "m", "prompt_hash": 7}]},
        {"used": None},
        {"bypassed": []},
    ],
    ids=str,
)
def test_nothing_else_is_taken_for_one(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        LedgerPart.parse({**PART, **change})
    with pytest.raises(InvalidRequest):
        LedgerPart.parse([PART])


def test_a_count_that_is_none_is_left_out() -> None:
    part = LedgerPart.parse({**PART, "bypassed": {"a": -3, "b": "4", "c": 1}})
    assert part.bypassed == {"c": 1}
