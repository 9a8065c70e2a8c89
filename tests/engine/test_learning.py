"""A recorded command runs again: noise is learned, and its answers are served; a change is told."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Answer, Fixture, LlmMessage, LlmRequest, NoFixture, Store
from cortex_replay.bindings import PlaceRule, Surroundings
from cortex_replay.engine.adapter import ScopeAdapter
from cortex_replay.engine.core import RunCore
from cortex_replay.engine.learning import Learner, Step
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store.exchange import Exchange

THERE = Surroundings({"cwd": {"": "/builds/checkout"}})
MIRABEL = Surroundings({"user": {"": "mirabel"}})
TODAY = date(2026, 11, 16)


def asked(*texts: str) -> LlmRequest:
    roles = ("user", "assistant")
    return LlmRequest("m", "", [LlmMessage(roles[i % 2], text) for i, text in enumerate(texts)])


def tool_said(pid: int | str, took: str = "0.01") -> str:
    return f"In ⟦cwd⟧:\nPGID: {pid}\nWall time: {took} seconds"


def sent(pid: int, took: str) -> str:
    return tool_said(pid, took).replace("⟦cwd⟧", "/builds/checkout")


class Rerun:
    """A run over recordings, with a learner."""

    def __init__(
        self,
        root: Path,
        *recordings: tuple[LlmRequest, str, dict[str, Any]],
        scope: str = "",
        where: Surroundings = THERE,
    ) -> None:
        store = Store.create(root)
        for request, text, meta in recordings:
            store.add(Fixture.of(request, Answer(text), meta=meta), scope=scope)
        store.commit()
        self.store = Store.open(root)
        self.steps: list[Step] = []
        self.stops = 0
        redactor = Redactor(["horse-staple"])
        run = RunCore(self.store, "replay", lambda: redactor, surroundings=where)
        run.learner = self.learner = Learner(self.steps.append, self.stop, TODAY)
        self.adapter = ScopeAdapter(run.open_scope(scope or None))

    def stop(self) -> None:
        self.stops += 1

    def ask(self, *texts: str) -> str:
        return self.adapter.sync.complete(asked(*texts)).text

    def rules(self) -> list[tuple[str, str]]:
        return [(rule.bind, rule.before) for rule in self.learner.rules]


def recorded(number: int | None, answer: str, *texts: str) -> tuple[LlmRequest, str, dict[str, Any]]:
    meta: dict[str, Any] = {"bindings": ["cwd"]}
    return asked(*texts), answer, meta if number is None else {**meta, "call": number}


PLAIN = recorded(1, "Look into ⟦cwd⟧.", "Hello from ⟦cwd⟧")
NOISY = recorded(2, "Kill 48113 in ⟦cwd⟧.", tool_said(48113))
AGAIN = recorded(3, "Done.", tool_said(48113), "Kill 48113 in ⟦cwd⟧.", "It is gone.")
LEARNED = [("pid", "PGID: "), ("duration", "Wall time: ")]


def test_noise_is_learned_and_the_recorded_answer_gets_the_values_of_today(tmp_path: Path) -> None:
    rerun = Rerun(tmp_path, PLAIN, NOISY, AGAIN)

    assert rerun.ask("Hello from /builds/checkout") == "Look into /builds/checkout."
    assert not rerun.learner.rules
    said = sent(7720, "1.5")
    assert rerun.ask(said) == "Kill 7720 in /builds/checkout."
    assert rerun.rules() == LEARNED
    # What the model repeats is the same value, so the third call needs no rule of its own.
    assert rerun.ask(said, "Kill 7720 in /builds/checkout.", "It is gone.") == "Done."
    assert [len(step.rules) for step in rerun.steps] == [0, 2, 0]
    assert rerun.learner.rules[0] == PlaceRule(
        bind="pid", before="PGID: ", learned="call 2, message 1 (user), 2026-11-16"
    )
    assert (rerun.learner.departure, rerun.stops) == (None, 0)


def test_a_change_is_told_and_nothing_is_learned_any_more(tmp_path: Path) -> None:
    rerun = Rerun(tmp_path, PLAIN, NOISY)
    with pytest.raises(NoFixture):
        rerun.ask("Goodbye from /builds/checkout")
    departure = rerun.learner.departure

    assert departure is not None
    assert (departure.number, departure.path) == (1, rerun.store.path(*key_of(PLAIN)))
    assert [str(change).splitlines()[0] for change in departure.changes] == [
        "message 1 (user): 'Hello' → 'Goodbye'"
    ]
    with pytest.raises(NoFixture):
        rerun.ask(sent(7720, "1.5"))
    assert (rerun.learner.rules, rerun.steps, rerun.stops) == ((), [], 1)


def key_of(recording: tuple[LlmRequest, str, dict[str, Any]]) -> tuple[str, str]:
    return recording[0].model, recording[0].prompt_hash()


def test_noise_and_a_change_in_one_call_is_a_change(tmp_path: Path) -> None:
    rerun = Rerun(tmp_path, NOISY)
    with pytest.raises(NoFixture):
        rerun.ask(sent(7720, "1.5") + "\nIt failed.")

    assert rerun.learner.rules == ()
    assert rerun.learner.departure is not None


@pytest.mark.parametrize("numbers", [(1, 2), (None, None)], ids=["numbered", "by likeness"])
def test_calls_that_are_made_at_once_come_in_any_order(tmp_path: Path, numbers: tuple[Any, Any]) -> None:
    """Also where a recording does not say which call it was."""
    title, work = (
        recorded(numbers[0], "A title", "Give a title to: run, PGID: 48113"),
        recorded(numbers[1], "Work", "Do it now, PGID: 48113"),
    )
    rerun = Rerun(tmp_path, title, work)

    assert rerun.ask("Do it now, PGID: 7720") == "Work"
    assert rerun.ask("Give a title to: run, PGID: 7720") == "A title"
    assert rerun.rules() == [("pid", "PGID: ")]


def test_a_scope_is_held_against_what_it_recorded(tmp_path: Path) -> None:
    rerun = Rerun(tmp_path, NOISY, scope="tests/test_agent.py::test_it")

    assert rerun.ask(sent(7720, "1.5")) == "Kill 7720 in /builds/checkout."
    assert rerun.rules() == LEARNED


def test_a_recording_without_bindings_is_learned_from_where_it_was_made(tmp_path: Path) -> None:
    request = asked("In /builds/checkout: PGID: 48113 and ⟦cwd⟧")
    rerun = Rerun(tmp_path, (request, "Kill 48113 in ⟦cwd⟧.", {}))

    assert rerun.ask("In /builds/checkout: PGID: 7720 and ⟦cwd⟧") == "Kill 7720 in ⟦cwd⟧."
    assert rerun.rules() == [("pid", "PGID: ")]


def test_a_user_who_was_too_common_to_be_bound_is_learned(tmp_path: Path) -> None:
    rerun = Rerun(tmp_path, (asked("You work as user root."), "Hello root", {"call": 1}), where=MIRABEL)

    assert rerun.ask("You work as user mirabel.") == "Hello root"
    assert rerun.rules() == [("user", "You work as user ")]


def test_a_rule_does_not_quote_a_secret(tmp_path: Path) -> None:
    """Not even a piece of one, by which nobody would know it."""
    rerun = Rerun(tmp_path, recorded(1, "ok", "horse-staple pid 48113"))
    with pytest.raises(NoFixture):
        rerun.ask("horse-staple pid 7720")

    assert rerun.learner.departure is not None
    assert "secret" in rerun.learner.departure.changes[0].why
    assert "horse" not in str(rerun.learner.departure)


def test_a_failure_that_was_recorded_is_served_with_the_values_of_today(tmp_path: Path) -> None:
    rerun = Rerun(tmp_path, NOISY)
    body = '{"error": {"message": "48113 is in the way", "type": "api_error"}}'
    wire: Any = {"status": 500, "headers": {"content-type": "application/json"}, "body": body}
    rerun.store.add_exchange(Exchange.failure(rerun.store.list()[0][:2], 1, wire))  # type: ignore[arg-type]
    rerun.store.commit()
    with pytest.raises(Exception, match="7720 is in the way"):
        rerun.ask(sent(7720, "1.5"))

    assert rerun.ask(sent(7720, "1.5")) == "Kill 7720 in /builds/checkout."


def test_any_other_miss_is_a_departure(tmp_path: Path) -> None:
    rerun = Rerun(tmp_path, PLAIN)
    rerun.learner.miss("cortex-replay: nothing is recorded for GET /v1/models of openai.")

    assert rerun.learner.departure is not None
    assert "GET /v1/models" in rerun.learner.departure.explanation
    assert rerun.stops == 1
