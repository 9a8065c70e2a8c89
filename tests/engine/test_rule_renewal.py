"""Recordings as they are stored by the rules of today: requests, answers, failures, and calls as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cortex_replay import Answer, Fixture, LlmMessage, LlmRequest, Store, StreamChunk
from cortex_replay.bindings import BindingRules, PlaceRule
from cortex_replay.config import KeyRules
from cortex_replay.engine.http.opaque import opaque_key
from cortex_replay.engine.rule_renewal import RuleRenewal
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import TimedChunk
from cortex_replay.store.rekey import RekeyPlan, plan_rekey

RULES = BindingRules(rules=(PlaceRule(bind="pid", before="pid "), PlaceRule(bind="hex-id", before="chunk ")))
RENEWAL = RuleRenewal(KeyRules(bindings=RULES))


def asked(text: str) -> LlmRequest:
    return LlmRequest("m", "", [LlmMessage("user", text)])


def renewed(fixture: Fixture) -> Fixture:
    """What rekey makes of a fixture; made anew again, it stays what it is."""
    made = RENEWAL.fixture(fixture)
    assert RENEWAL.fixture(made) == made
    return made


def texts_of(fixture: Fixture) -> list[str]:
    assert fixture.request is not None
    return [*(message.content for message in fixture.request.messages), fixture.answers[0].text]


def test_what_a_rule_finds_is_bound_in_the_request_and_in_the_answer() -> None:
    made = renewed(
        Fixture.of(asked("pid 48113, chunk ab12cd"), Answer("kill 48113 of ab12cd, not 5"), meta={"a": 1})
    )

    assert texts_of(made) == ["pid ⟦pid#1⟧, chunk ⟦hex-id#1⟧", "kill ⟦pid#1⟧ of ⟦hex-id#1⟧, not 5"]
    assert made.meta == {"a": 1, "bindings": ["hex-id", "pid"]}
    assert made.key == (made.request and made.request.model, made.request and made.request.prompt_hash())


def test_what_was_bound_stays_bound_and_numbers_follow_the_request() -> None:
    """A value that is found before another takes its number; the answer follows, in pieces too."""
    stream = tuple(
        TimedChunk(0, StreamChunk(text, None if text else "stop"))
        for text in ("in ⟦cwd⟧ ", "⟦pid#1|0-2⟧", "⟦pid#1|2-⟧", " 48113", "")
    )
    answer = Answer("in ⟦cwd⟧ ⟦pid#1⟧ 48113", stream=stream)
    fixture = Fixture.of(
        asked("pid 48113 before ⟦pid#1⟧ in ⟦cwd⟧"), answer, meta={"bindings": ["cwd", "pid"]}
    )
    made = renewed(fixture)

    assert texts_of(made) == ["pid ⟦pid#1⟧ before ⟦pid#2⟧ in ⟦cwd⟧", "in ⟦cwd⟧ ⟦pid#2⟧ ⟦pid#1⟧"]
    assert [timed.chunk.delta for timed in made.answers[0].stream] == [
        *("in ⟦cwd⟧ ", "⟦pid#2|0-2⟧", "⟦pid#2|2-⟧", " ⟦pid#1⟧", ""),
    ]


def test_text_that_looks_like_a_placeholder_is_escaped_where_nothing_was_bound() -> None:
    made = renewed(Fixture.of(asked("pid 48113 of ⟦pid#1⟧"), Answer("⟦pid#1⟧ is 48113")))

    assert texts_of(made) == ["pid ⟦pid#1⟧ of ⟦=pid#1⟧", "⟦=pid#1⟧ is ⟦pid#1⟧"]
    assert (made.meta or {})["bindings"] == ["escape", "pid"]


def test_an_answer_in_which_a_new_name_stood_by_itself_is_escaped() -> None:
    fixture = Fixture.of(asked("in ⟦cwd⟧, pid 48113"), Answer("⟦pid#1⟧ in ⟦cwd⟧"), meta={"bindings": ["cwd"]})
    made = renewed(fixture)

    assert made.answers[0].text == "⟦=pid#1⟧ in ⟦cwd⟧"
    assert (made.meta or {})["bindings"] == ["cwd", "escape", "pid"]


def test_a_recording_in_which_no_rule_finds_anything_is_the_same() -> None:
    fixture = Fixture.of(asked("in ⟦cwd⟧"), Answer("⟦cwd⟧"), meta={"bindings": ["cwd"]})

    assert RENEWAL.fixture(fixture) == fixture


def call(body: Any, **more: Any) -> Exchange:
    request: Any = {
        "upstream": "openai",
        "method": "POST",
        "path": "/v1/embeddings",
        "query": [],
        "body": body,
    }
    request |= more
    wire: Any = {"status": 200, "headers": {}, "body": '{"for": "48113"}'}
    return Exchange(wire, key=opaque_key(request), request=request)


def plan_of(root: Path) -> RekeyPlan:
    return plan_rekey(DirectorySource(root), RENEWAL)


def test_calls_that_are_recorded_as_they_are_move_too(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    store.add_exchange(call({"input": "pid 48113"}))
    store.add_exchange(call({"input": "pid 48113"}, upstream="https://example.com"))  # it asks no model
    store.add_exchange(call({"input": "nothing"}))
    store.commit()
    plan = plan_of(tmp_path)
    assert len(plan.exchanges) == 1
    plan.apply(DirectorySource(tmp_path))

    wanted = call({"input": "pid ⟦pid#1⟧"})
    found = Store.open(tmp_path).exchange(wanted.key or "")
    assert found is not None
    assert found.wire["body"] == '{"for": "⟦pid#1⟧"}'
    assert found.meta == {"bindings": ["pid"]}
    assert plan_of(tmp_path).exchanges == []


def test_two_calls_that_would_be_one_are_named(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    for pid in ("48113", "5"):
        store.add_exchange(call({"input": f"pid {pid}"}))
    store.commit()
    plan = plan_of(tmp_path)

    assert len(plan.colliding) + len(plan.joining) == 1


def test_failures_move_with_their_request(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    fixture = Fixture.of(asked("pid 48113"), Answer("ok"))
    store.add(fixture)
    wire: Any = {"status": 500, "headers": {}, "body": '{"error": "48113 is in the way"}'}
    store.add_exchange(Exchange.failure(fixture.key, 1, wire))
    store.commit()
    plan_of(tmp_path).apply(DirectorySource(tmp_path))

    failures = Store.open(tmp_path).failures("m", asked("pid ⟦pid#1⟧").prompt_hash())
    assert failures[1].wire["body"] == '{"error": "⟦pid#1⟧ is in the way"}'
    assert (failures[1].meta or {})["bindings"] == ["pid"]


def test_a_recording_without_its_request_stays_as_it_is() -> None:
    fixture = replace(Fixture.of(asked("pid 48113"), Answer("kill 48113")), request=None)
    failure = Exchange.failure(fixture.key, 1, {"status": 503, "headers": {}, "body": "48113"})

    assert RENEWAL.fixture(fixture) is fixture
    assert RENEWAL.failure(failure, fixture) is failure


def test_a_failure_that_names_no_bound_value_stays_as_it_is() -> None:
    fixture = Fixture.of(asked("pid 48113"), Answer("kill 48113"))
    failure = Exchange.failure(fixture.key, 1, {"status": 503, "headers": {}, "body": "later"})

    assert RENEWAL.failure(failure, fixture) is failure
