"""What is served while a command is learned is what the store serves once it has the rules: on every wire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.bindings import PlaceRule, Surroundings
from cortex_replay.config import key_rules_for
from cortex_replay.config.rule_text import append_rules
from cortex_replay.engine.learning import Learner, Step
from cortex_replay.engine.rule_renewal import RuleRenewal
from cortex_replay.run import Run
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.rekey import plan_rekey
from tests.adapters.fake_provider import FakeProvider
from tests.engine.http.harness import PATHS, PROTOCOLS, Got, ask, body_of, request_for, run_over
from tests.gateway.upstream import model_server

HERE, THERE = (Surroundings({"cwd": {"": cwd}}) for cwd in ("/home/ann/shop", "/builds/another/place"))
EMBEDDINGS = "/openai/v1/embeddings"


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """A model server that speaks every wire, and says what it was told."""
    with model_server() as serving:
        yield serving


def said(cwd: str, pid: int, took: str) -> str:
    return f"In {cwd}: PGID: {pid}, chunk id {pid:x}f0, took {took} s: go on with {pid}"


def learner_of(run: Run) -> tuple[Learner, list[Step]]:
    steps: list[Step] = []
    run.learner = learner = Learner(steps.append, lambda: None, date(2026, 11, 16))
    return learner, steps


def keep(root: Path, rules: tuple[PlaceRule, ...]) -> None:
    """Write rules, and rekey."""
    (root / "cortex-replay.toml").write_bytes(append_rules(b"", "x", "", rules))
    rekeyed = plan_rekey(DirectorySource(root), RuleRenewal(key_rules_for(root)))
    assert not rekeyed.colliding
    assert not rekeyed.joining
    rekeyed.apply(DirectorySource(root))


def learned_bytes(root: Path, path: str, body: Any) -> tuple[Got, tuple[PlaceRule, ...]]:
    with run_over(root, surroundings=THERE) as run:
        learner, steps = learner_of(run)
        got = ask(run, "POST", path, body)
        assert learner.departure is None
        assert (got.status, len(steps)) == (200, 1), got.body
        return got, learner.rules


@pytest.mark.parametrize(
    ("protocol", "stream_it"), [("anthropic-messages", False), *((protocol, True) for protocol in PROTOCOLS)]
)
def test_a_completion(provider: FakeProvider, tmp_path: Path, protocol: str, stream_it: bool) -> None:
    recorded, now = (
        body_of(protocol, request_for(said(*values)), stream=stream_it)
        for values in (("/home/ann/shop", 48113, "0.25"), ("/builds/another/place", 7720, "12.5"))
    )
    with run_over(tmp_path, "once", provider.url, surroundings=HERE) as run:
        assert ask(run, "POST", PATHS[protocol], recorded).status == 200
    got, rules = learned_bytes(tmp_path, PATHS[protocol], now)
    assert {rule.bind for rule in rules} == {"pid", "hex-id", "duration"}
    assert b"7720" in got.body
    assert b"48113" not in got.body

    keep(tmp_path, rules)
    with run_over(tmp_path, surroundings=THERE) as run:
        assert ask(run, "POST", PATHS[protocol], now).body == got.body
        assert run.ledger.hits == 1


def test_a_call_that_is_recorded_as_it_is(provider: FakeProvider, tmp_path: Path) -> None:
    recorded, now = ({"model": "e", "input": f"PGID: {pid}"} for pid in (48113, 7720))
    with run_over(tmp_path, "once", provider.url, surroundings=HERE) as run:
        assert ask(run, "POST", EMBEDDINGS, recorded).status == 200
    got, rules = learned_bytes(tmp_path, EMBEDDINGS, now)
    assert [replace(rule, learned="") for rule in rules] == [PlaceRule(bind="pid", before="PGID: ")]
    assert rules[0].learned == "call 1, body.input, 2026-11-16"

    keep(tmp_path, rules)
    with run_over(tmp_path, surroundings=THERE) as run:
        assert ask(run, "POST", EMBEDDINGS, now).body == got.body


def test_another_call_that_is_recorded_as_it_is_departs(provider: FakeProvider, tmp_path: Path) -> None:
    with run_over(tmp_path, "once", provider.url, surroundings=HERE) as run:
        ask(run, "POST", EMBEDDINGS, {"model": "e", "input": "one"})
    with run_over(tmp_path, surroundings=THERE) as run:
        learner, steps = learner_of(run)
        assert ask(run, "POST", EMBEDDINGS, {"model": "e", "input": "two"}).status == 424

        assert steps == []
        assert learner.departure is not None
        assert "'one' → 'two'" in learner.departure.explanation
