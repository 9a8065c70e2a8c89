"""What happened in a run, here and in other processes of it: counted, and without a secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cortex_replay.engine.ledger import Ledger, LedgerPart, shorten
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


NOTED: dict[str, Callable[[Ledger, str], None]] = {
    "what is missed": lambda ledger, text: ledger.miss(text, "why"),
    "why it is missed": lambda ledger, text: ledger.miss("what", text),
    "a failure": lambda ledger, text: ledger.fail(text),
    "a recorded failure": lambda ledger, text: ledger.fail(text, is_recorded=True),
    "what was not sent": lambda ledger, text: ledger.fail(text, is_sent=False),
    "a refusal": lambda ledger, text: ledger.refuse(text),
    "damage": lambda ledger, text: ledger.damage(text),
    "a host": lambda ledger, text: ledger.bypass(text),
    "a remark": lambda ledger, text: ledger.remark(text),
}
"""Every way for a text to come into the ledger."""
notes = pytest.mark.parametrize("note", NOTED)


def texts_of(ledger: Ledger) -> str:
    listed = [ledger.misses, ledger.failures, ledger.recorded_failures, ledger.refused, ledger.broken]
    return f"{listed} {ledger.bypassed} {ledger.remarks}"


def pieces(secret: str) -> list[str]:
    """What would give a secret away."""
    return [secret[start : start + 8] for start in range(len(secret) - 7)]


@notes
@pytest.mark.parametrize("known", ["before", "behind"])
def test_a_secret_is_cut_out_of_every_text_whenever_it_is_known(note: str, known: str) -> None:
    """A provider may have repeated a key before anybody learned it."""
    ledger = Ledger(lambda: Redactor([SECRET] if known == "before" else []))
    NOTED[note](ledger, f"it is {SECRET}.")
    ledger.redactor.learn(SECRET)

    assert SECRET not in texts_of(ledger)
    assert "[REDACTED:known-value]" in texts_of(ledger)


@notes
def test_no_text_is_cut_before_its_secrets_are(note: str) -> None:
    """Half a secret is not found any more: wherever it stands, nothing of it is left."""
    for start in range(0, 26_000, 7):
        text = f"{'x' * start}{SECRET}{'y' * (26_000 - start)}"
        shown = shorten(text)
        if SECRET not in shown and any(piece in shown for piece in pieces(SECRET)):
            break
    else:
        pytest.fail("no cut goes through it")
    ledger = Ledger(lambda: Redactor([SECRET]))
    NOTED[note](ledger, text)

    assert not any(piece in texts_of(ledger) for piece in pieces(SECRET))


def test_what_was_not_sent_is_no_live_call() -> None:
    ledger = Ledger(Redactor)
    for is_sent in (True, False, True):
        ledger.ask()
        ledger.fail("no", is_sent=is_sent)

    assert (ledger.live, ledger.failed, ledger.unsent, ledger.calls) == (2, 2, 1, 3)
