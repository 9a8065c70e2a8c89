"""Giving fixtures other keys."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from cortex_replay import FixtureIntegrityFailed, Store, StoreIo, StreamChunk
from cortex_replay.canonical import JsonValue
from cortex_replay.config.key_rules import KeyRules
from cortex_replay.engine.http.opaque import opaque_exchange
from cortex_replay.engine.rule_renewal import RuleRenewal
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey, TimedChunk
from cortex_replay.store.lock import LockedStore
from cortex_replay.store.rekey import plan_rekey
from tests.builder import ask, fixture_of


def test_an_edited_file_that_would_not_be_trusted_is_refused(tmp_path: Path) -> None:
    """Also where changed files are accepted: nothing is written, and nothing is left in staging."""
    store = Store.create(tmp_path)
    path = store.add(fixture_of(ask("q"), Answer("one", stream=(TimedChunk(0, StreamChunk("one", "stop")),))))
    store.commit()
    file, index = tmp_path / path, (tmp_path / "INDEX.toml").read_bytes()
    file.write_bytes(file.read_bytes().replace(b'"text": "one"', b'"text": "two"'))
    source = DirectorySource(tmp_path)
    plan = plan_rekey(source, RuleRenewal(KeyRules()), accept_changed=True)
    assert [item.path for item in plan.moving] == [path]

    with pytest.raises(FixtureIntegrityFailed, match="the deltas of its stream are not its text"):
        plan.apply(source)

    assert (tmp_path / "INDEX.toml").read_bytes() == index
    assert store.abandoned().answers == 0


class Reworded:
    """What says "old" says "new" from now on, and is found by that."""

    def fixture(self, fixture: Fixture) -> Fixture:
        assert fixture.request is not None
        request = ask(fixture.request.messages[0].content.replace("old", "new"))
        return replace(fixture, request=request, key=FixtureKey(request.model, request.prompt_hash()))

    def failure(self, failure: Exchange, fixture: Fixture) -> Exchange:
        return failure

    def exchange(self, exchange: Exchange) -> Exchange:
        assert exchange.request is not None
        request = exchange.request | {"body": str(exchange.request["body"]).replace("old", "new")}
        return opaque_exchange(request, exchange.wire)


def wire(body: str) -> dict[str, JsonValue]:
    return {"status": 500, "headers": {}, "body": body}


def call(body: str) -> Exchange:
    request: dict[str, JsonValue] = {"upstream": "openai", "method": "POST", "path": "/v1/x", "query": []}
    return opaque_exchange(request | {"body": body}, wire("called"))


def record(store: Store, question: str, text: str, failures: dict[int, str], scope: str = "") -> None:
    store.add(fixture_of(ask(question), Answer(text), meta={"scope": scope} if scope else None), scope=scope)
    for n, body in failures.items():
        store.add_exchange(Exchange.failure(store.key(ask(question)), n, wire(body)), scope=scope)


def recorded(store: Store, question: str, scope: str = "") -> tuple[str, dict[int, JsonValue]]:
    key = store.key(ask(question))
    failures = store.failures(*key, scope)
    return store.get(*key, scope).answers[0].text, {n: one.wire["body"] for n, one in failures.items()}


def test_all_that_belongs_to_a_key_moves_with_it(tmp_path: Path) -> None:
    """Answers, each failure before them, and calls that are recorded as they are; shared, and of scopes."""
    store = Store.create(tmp_path)
    record(store, "old question", "shared", {1: "first", 3: "third"})
    record(store, "another question", "other", {2: "second"})
    store.add_exchange(call("old call"))
    store.commit()
    record(store, "old question", "own", {1: "mine"}, scope="tests/a")
    store.add_exchange(replace(call("old call"), wire=wire("own call")), scope="tests/a")
    record(store, "old and alone", "shared", {1: "first"})
    store.commit()
    record(store, "old and alone", "alone", {2: "mine"}, scope="tests/a")
    store.commit()
    store.remove(*store.key(ask("old and alone")))  # what the scope has stays
    store.commit()
    before = {
        scope: [recorded(store, question, scope) for question in ("old question", "another question")]
        for scope in ("", "tests/a")
    }
    assert before["tests/a"][0] == ("own", {1: "mine"})
    source = DirectorySource(tmp_path)

    plan = plan_rekey(source, Reworded())
    plan.apply(source)

    after = Store.open(tmp_path)
    assert before == {
        scope: [recorded(after, question, scope) for question in ("new question", "another question")]
        for scope in ("", "tests/a")
    }
    for scope, body in (("", "called"), ("tests/a", "own call")):
        moved = after.exchange(call("new call").key or "", scope)
        assert moved is not None
        assert moved.wire["body"] == body
        assert after.exchange(call("old call").key or "", scope) is None
    assert recorded(after, "new and alone", "tests/a") == ("alone", {2: "mine"})
    assert not after.has_any(after.key(ask("old question")), "tests/a")
    assert plan_rekey(source, Reworded()).moving == []


def test_a_rekey_that_fails_leaves_nothing_to_be_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be planned again, and half of it would be wrong."""
    store = Store.create(tmp_path)
    record(store, "old question", "shared", {1: "first"})
    store.commit()
    source = DirectorySource(tmp_path)
    plan = plan_rekey(source, Reworded())

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    monkeypatch.setattr(LockedStore, "put_index", refuse)
    with pytest.raises(StoreIo, match="the disk is full"):
        plan.apply(source)

    assert Store.open(tmp_path).abandoned().answers == 0
    assert recorded(Store.open(tmp_path), "old question") == ("shared", {1: "first"})


@pytest.mark.parametrize(
    ("answers", "failures"), [(("one", "two"), ("f", "f")), (("one", "one"), ("f", "other"))]
)
def test_two_recordings_that_would_be_one_are_named(
    tmp_path: Path, answers: tuple[str, str], failures: tuple[str, str]
) -> None:
    """By their answers, and by the failures before them."""
    store = Store.create(tmp_path)
    for question, text, failure in zip(("old", "new"), answers, failures, strict=True):
        record(store, question, text, {1: failure})
    store.commit()

    plan = plan_rekey(DirectorySource(tmp_path), Both())

    assert len(plan.colliding) == 1


class Both(Reworded):
    """Also what is called so already is written anew, so that its failures are looked at."""

    def fixture(self, fixture: Fixture) -> Fixture:
        return replace(super().fixture(fixture), meta={"seen": True})
