"""What calls paid again though an earlier one had it."""

from __future__ import annotations

from pathlib import Path

from cortex_replay.history.calls import read_calls
from cortex_replay.history.losses import losses_of
from cortex_replay.history.replay import replay_calls
from cortex_replay.types import TokenUsage
from tests.history.recordings import Recording, record

TEXT = "Umbrella, 12 EUR. " * 400


def call(at: float, first: str, *turns: str, **more: object) -> Recording:
    given = {"markers": [("system", 2), ("message", len(turns))], **more}
    return Recording(
        at,
        {"first": first, "second": TEXT},
        turns,
        TokenUsage(3000, 5),
        **given,  # type: ignore[arg-type]
    )


def losses(root: Path, *recordings: Recording) -> list[list[tuple[str, str]]]:
    replay = replay_calls(read_calls(record(root, *recordings)).calls)
    return [[(loss.reason.why, loss.reason.block) for loss in own] for own in losses_of(replay)]


def test_a_conversation_that_grows_loses_nothing(tmp_path: Path) -> None:
    assert losses(tmp_path, call(0, "a", "one"), call(9, "a", "one", "two", "three")) == [[], []]


def test_a_new_conversation_is_new_text(tmp_path: Path) -> None:
    assert losses(tmp_path, call(0, "a", "one"), call(9, "a", "other")) == [[], []]


def test_a_block_that_changed_costs_what_stands_behind_it(tmp_path: Path) -> None:
    found = losses(tmp_path, call(0, "a", "one"), call(9, "b", "one"))

    assert found == [[], [("changed", "block 'first'")]]


def test_what_stands_behind_the_last_marker_is_paid_in_any_case(tmp_path: Path) -> None:
    marked = {"markers": [("system", 1)]}

    assert (
        losses(tmp_path, call(0, "a" * 6000, "one", **marked), call(9, "b" * 6000, "one", **marked))[1] == []
    )


def test_a_turn_that_changed_costs_the_turns_behind_it(tmp_path: Path) -> None:
    found = losses(tmp_path, call(0, "a", "state 1", "x", "y"), call(9, "a", "state 2", "x", "y"))

    assert found == [[], [("changed", "turn 1 (user)")]]


def test_what_had_gone_in_any_case_is_no_loss_of_a_change(tmp_path: Path) -> None:
    hour = {"ttl": "1h"}

    assert losses(tmp_path / "a", call(0, "a", "one"), call(300, "b", "one"))[1] == []
    assert losses(tmp_path / "b", call(0, "a", "one", **hour), call(300, "b", "one", **hour))[1] != []


def test_what_is_new_cannot_be_lost_for_want_of_a_marker(tmp_path: Path) -> None:
    found = losses(tmp_path, call(0, "a", "one", markers=()), call(9, "a", "one", "two", markers=()))
    assert found == [[], [("no marker", "turn 1 (user)")]]
