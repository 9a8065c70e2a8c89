"""What a run asked, in the order of its numbers, whatever the order in which it was noted."""

from __future__ import annotations

from cortex_replay import LlmRequest
from cortex_replay.engine.call_log import CallLog, Series
from cortex_replay.store import FixtureKey

ONE, TWO = FixtureKey("m", "1" * 64), FixtureKey("m", "2" * 64)


def test_calls_are_in_the_order_of_their_numbers() -> None:
    log = CallLog()
    log.note("a test", "a test", 2, TWO)
    log.note("a test", "a test", 1, ONE)
    log.note("a test", "a test", 1, "an exchange")
    log.note("another", "another", 1, TWO)

    assert log.series() == {
        Series("a test", is_completions=True): [ONE, TWO],
        Series("a test", is_completions=False): ["an exchange"],
        Series("another", is_completions=True): [TWO],
    }


def test_a_call_that_is_tried_again_is_one_and_a_test_that_runs_again_counts_anew() -> None:
    log = CallLog()
    for name in ("first run", "second run"):
        log.note("a test", name, 1, ONE)
        log.note("a test", name, 1, ONE)

    assert log.series() == {Series("a test", is_completions=True): [ONE, ONE]}


def test_a_request_is_made_when_somebody_wants_it() -> None:
    log, made = CallLog(), []
    asked = LlmRequest("m", messages="Hi")

    def ask() -> LlmRequest:
        made.append(asked)
        return asked

    log.note("a test", "a test", 1, ONE, ask)
    log.note("a test", "a test", 2, ONE, lambda: LlmRequest("other"))
    log.note("a test", "a test", 3, TWO)
    assert made == []

    assert log.request(ONE) is asked
    assert log.request(TWO) is None
