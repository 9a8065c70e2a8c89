"""Whole sequences of another recorder, staged for their scopes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay import RecordingRefused, Store
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.outcomes import Outcome
from cortex_replay.engine.sequences import Fate, SequenceStager
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Answer
from cortex_replay.store.exchange import Exchange
from tests.builder import ask

REQUEST = ask("q")
POLL: dict[str, JsonValue] = {
    "upstream": "openai",
    "method": "GET",
    "path": "/v1/runs/1",
    "query": [],
    "body": None,
}
SECRET = "sk-ant-api03-" + "k3Y" * 27


def failed(status: int = 529) -> Exchange:
    return Exchange({"status": status, "headers": {}, "body": "busy"})


def wire(body: str) -> dict[str, JsonValue]:
    return {"status": 200, "headers": {}, "body": body}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def stage(store: Store, scope: str, *outcomes: Outcome, overwrite: bool = False) -> str:
    """Stage and commit; the first letters of what became of each."""
    stager = SequenceStager(store, Redactor(()), overwrite=overwrite)
    staged = stager.stage(scope, [REQUEST] * len(outcomes), [(outcome, {}) for outcome in outcomes])
    store.commit()
    return " ".join(fate.name for fate in staged.fates)


def said(store: Store, scope: str) -> list[str]:
    key = store.key(REQUEST)
    failures = store.failures(*key, scope)
    answers = [answer.text for answer in store.get(*key, scope).answers]
    return [*answers, *(f"{n}: {failure.wire['status']}" for n, failure in failures.items())]


def test_answers_and_failures_stand_in_their_turn(store: Store) -> None:
    assert stage(store, "a", Answer("one"), failed(), Answer("two")) == "NEW NEW NEW"
    assert stage(store, "b", Answer("one"), Answer("two")) == "NEW NEW"
    assert stage(store, "c", Answer("one"), failed(), Answer("two")) == "KNOWN KNOWN KNOWN"
    assert (said(store, "a"), said(store, "b")) == (["one", "two", "2: 529"], ["one", "two"])
    assert said(store, "c") == said(store, "a")
    assert store.scopes == {"b", "c"}


def test_what_a_scope_has_is_known_goes_on_or_is_kept(store: Store) -> None:
    for scope in ("a", "b"):  # the owner of what is shared, and one with rows of its own
        text = f"one of {scope}"
        stage(store, scope, Answer(text), Answer("two"))
        assert stage(store, scope, Answer(text), Answer("two")) == "KNOWN KNOWN"
        assert stage(store, scope, Answer(text), Answer("three")) == "KNOWN KEPT"
        assert stage(store, scope, Answer(text), Answer("two"), Answer("three")) == "KNOWN KNOWN NEW"
        assert said(store, scope) == [text, "two", "three"]


def test_what_is_overwritten_is_overwritten_whole(store: Store) -> None:
    for scope in ("a", "b"):
        stage(store, scope, failed(), Answer(f"one of {scope}"), Answer("two"))
    assert stage(store, "a", Answer("new"), overwrite=True) == "NEW"
    assert stage(store, "b", Answer("newer"), overwrite=True) == "NEW"
    assert (said(store, "a"), said(store, "b")) == (["new"], ["newer"])
    assert len(list((store.root / "fixtures").rglob("*.json"))) == 2


def test_calls_that_are_recorded_as_they_are_have_sequences(store: Store) -> None:
    stager = SequenceStager(store, Redactor(()))
    fates = [
        stager.stage_exchange(scope, [POLL] * len(texts), [wire(text) for text in texts]).fates
        for scope, texts in (("a", "12"), ("b", "3"), ("c", "12"), ("d", "44"))
    ]
    store.commit()
    (key,) = store.exchange_keys()
    found = {scope: store.exchange(key, scope) for scope in "abcd"}

    assert fates == [[Fate.NEW] * 2, [Fate.NEW], [Fate.KNOWN] * 2, [Fate.NEW] * 2]
    assert ["".join(str(one["body"]) for one in found[scope].wires) for scope in "abcd"] == [  # type: ignore[union-attr]
        "12",
        "3",
        "12",
        "4",
    ]
    again = SequenceStager(store, Redactor(()))
    assert again.stage_exchange("b", [POLL] * 2, [wire("3"), wire("5")]).fates == [Fate.KNOWN, Fate.NEW]
    assert again.stage_exchange("b", [POLL], [wire("6")]).fates == [Fate.KEPT]


@pytest.mark.parametrize(("texts", "stored"), [("1112", "1112"), ("1121", "1121"), ("111", "1")])
def test_answers_become_one_only_if_all_of_them_are_the_same(store: Store, texts: str, stored: str) -> None:
    stager = SequenceStager(store, Redactor(()))
    stager.stage_exchange("a", [POLL] * len(texts), [wire(text) for text in texts])
    store.commit()
    (key,) = store.exchange_keys()
    found = store.exchange(key, "a")

    assert found is not None
    assert "".join(str(one["body"]) for one in found.wires) == stored


def test_a_secret_is_cut_out_or_nothing_is_staged(store: Store) -> None:
    staged = SequenceStager(store, Redactor(())).stage("a", [REQUEST], [(Answer(f"It is {SECRET}."), {})])
    store.commit()

    assert staged.redacted == 1
    assert SECRET not in said(store, "a")[0]
    with pytest.raises(RecordingRefused):
        SequenceStager(store, Redactor(())).stage(f"test[{SECRET}]", [REQUEST], [(Answer("x"), {})])
    with pytest.raises(RecordingRefused):
        SequenceStager(store, Redactor(())).stage_exchange(f"test[{SECRET}]", [POLL], [wire("x")])
    assert store.commit().added == []
