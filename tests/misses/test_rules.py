"""Which differences are noise, the rules that are made of them, and what stays a change."""

from __future__ import annotations

import pytest

from cortex_replay import LlmMessage, LlmRequest
from cortex_replay.bindings import Binder, BindingRules, PlaceRule, Surroundings
from cortex_replay.misses.rules import Lesson, compare, with_rules

HERE = Binder(BindingRules(), Surroundings({"cwd": {"": "/home/mia/work"}}))


def asked(*texts: str) -> LlmRequest:
    return LlmRequest("m", "You are careful.", [LlmMessage("user", text) for text in texts])


def learn(recorded: str, now: str) -> Lesson:
    return compare(asked(recorded), asked(now), HERE)


def rules_of(lesson: Lesson) -> list[tuple[str, str, str]]:
    assert lesson.changes == ()
    return [(rule.bind, rule.before, rule.after) for rule in lesson.rules]


@pytest.mark.parametrize(
    ("recorded", "now", "rule"),
    [
        ("Chunk ID: e5539b", "Chunk ID: 92b604", ("hex-id", "Chunk ID: ", "")),
        ("Chunk ID: 123456", "Chunk ID: 92b604", ("hex-id", "Chunk ID: ", "")),
        ("with git hash 4efe3f3 & more", "with git hash 9d3aab1 & more", ("hex-id", "with git hash ", "")),
        ("Wall time: 0.0000 seconds", "Wall time: 0.0512 seconds", ("duration", "Wall time: ", "")),
        ("it took 30 seconds", "it took 31 seconds", ("duration", "it took ", "")),
        ("1.25s elapsed", "13.5s elapsed", ("duration", "", " elapsed")),
        ("Process Group PGID: 10038", "Process Group PGID: 99", ("pid", "Process Group PGID: ", "")),
        ("on localhost:8123, ok", "on localhost:43121, ok", ("port", "on localhost:", "")),
        ("port 8123 is open", "port 9000 is open", ("port", "port ", "")),
        ("Original token count: 18", "Original token count: 7", ("number", "Original token count: ", "")),
        (
            "began at 2024-01-01T10:00:00Z, they say",
            "began at 2024-01-02T11:30:10Z, they say",
            ("time", "began at ", ""),
        ),
        ("stamp: 1704103200.25", "stamp: 1704189600.5", ("epoch", "stamp: ", "")),
        ("wrote /tmp/run-1/a.txt", "wrote /tmp/run-22/a.txt", ("path", "wrote ", "")),
    ],
)
def test_a_value_with_a_shape_on_both_sides_makes_a_rule(
    recorded: str, now: str, rule: tuple[str, str, str]
) -> None:
    assert rules_of(learn(recorded, now)) == [rule]


@pytest.mark.parametrize(
    ("recorded", "now", "why"),
    [
        ("Fly to Paris.", "Fly to Oslo.", "no value with a shape"),
        ("I have 3 apples.", "I have 4 apples.", "may say something"),
        ("total: 42", "total: 43", "may say something"),
        ("color: #ff0011", "color: #ff0022", "no label says that it is an id"),
        ("the id facade", "the id decade", "a word"),
        ("sha256: 3f2a91d04c7b6a15", "sha256: 9c1d03b7a4e85f26", "a checksum"),
        ("timeout: 30 seconds", "timeout: 60 seconds", "a limit"),
        ("wait 1.5 seconds", "wait 2.5 seconds", "a limit"),
        ("it lasts 30 seconds", "it lasts 60 seconds", "may be meant"),
        ("see /etc/hosts", "see /etc/passwd", "not below a temporary directory"),
        ("see /tmp/work/a.txt", "see /tmp/work/b.txt", "another path"),
        ("2024-01-01T10:00:00Z", "2024-01-02T10:00:00Z", "no word beside it"),
        ("def f(): return 1\n", "def f(): return 2\n", "may say something"),
        ("took 5 ms\nfine", "took 6 ms\nbroken", "no value with a shape"),
        ("a\nb", "a", "no value with a shape"),
    ],
)
def test_anything_else_is_a_change(recorded: str, now: str, why: str) -> None:
    lesson = learn(recorded, now)

    assert lesson.rules == ()
    assert why in "; ".join(change.why for change in lesson.changes)


def test_a_change_names_the_rule_that_a_person_may_write() -> None:
    (change,) = learn("total: 42", "total: 43").changes

    assert str(change).splitlines()[0] == "message 1 (user): '42' → '43'"
    assert change.rule == PlaceRule(bind="number", before="total: ", learned="message 1 (user)")


def test_one_rule_for_many_places() -> None:
    recorded = "".join(f"step {i} took 0.{i} s\n" for i in range(400))
    now = "".join(f"step {i} took 1.{i * 7} s\n" for i in range(400))

    assert rules_of(learn(recorded, now)) == [("duration", "took ", "")]


def test_values_side_by_side_and_several_in_a_line() -> None:
    recorded, now = "pid 12 took 5 ms (port 8100)", "pid 345 took 61 ms (port 9200)"

    assert {rule[:2] for rule in rules_of(learn(recorded, now))} == {
        ("pid", "pid "),
        ("duration", "took "),
        ("port", "port "),
    }


def test_the_rules_make_the_two_one() -> None:
    recorded = asked("pid 12 took 5 ms", "pid 12 ended")
    lesson = compare(recorded, asked("pid 77 took 9 ms", "pid 77 ended"), HERE)
    binder = with_rules(HERE, lesson.rules)
    key = binder.bind_stored(recorded, ()).request.prompt_hash()

    assert binder.bind(asked("pid 3 took 1 ms", "pid 3 ended")).request.prompt_hash() == key
    assert binder.bind(asked("pid 3 took 1 ms", "pid 4 ended")).request.prompt_hash() != key
    assert binder.bind(asked("pid 3 took 1 ms", "pid 3 began")).request.prompt_hash() != key


@pytest.mark.parametrize(
    ("recorded", "now"),
    [("pid 12, then pid 12", "pid 13, then pid 14"), ("pid 12, then pid 13", "pid 14, then pid 14")],
)
def test_structure_that_breaks_is_a_change(recorded: str, now: str) -> None:
    lesson = learn(recorded, now)

    assert lesson.rules == ()
    assert "equal" in lesson.changes[0].why


def test_measurements_may_be_equal_by_chance() -> None:
    lesson = learn("took 5 ms, then took 5 ms", "took 6 ms, then took 7 ms")

    assert rules_of(lesson) == [("duration", "took ", "")]


def test_values_that_are_bound_stay_out_of_the_rule() -> None:
    lesson = compare(asked("in ⟦cwd⟧: pid 4"), asked("in /home/mia/work: pid 5"), HERE, ["cwd"])

    assert rules_of(lesson) == [("pid", "pid ", "")]


def test_another_number_of_messages_is_a_change() -> None:
    lesson = compare(asked("one"), asked("one", "two"), HERE)

    assert [change.difference.part for change in lesson.changes] == ["message 2 (user)"]


def test_the_same_request_teaches_nothing() -> None:
    assert compare(asked("in ⟦cwd⟧"), asked("in /home/mia/work"), HERE, ["cwd"]) == Lesson()


ROOT = Surroundings({"cwd": {"": "/home/mia/work"}}, unsafe={"user": {"": "root"}, "host": {"": "vm"}})
MIRABEL = Surroundings({"user": {"": "mirabel"}, "host": {"": "mirabels-laptop"}})


@pytest.mark.parametrize(
    ("recorded", "names", "now", "where", "rule"),
    [
        ("as user ⟦user⟧ in", ["user"], "as user root in", ROOT, ("user", "as user ", "")),
        ("on host: ⟦host⟧", ["host"], "on host: vm", ROOT, ("host", "on host: ", "")),
        ("as user root in", [], "as user mirabel in", MIRABEL, ("user", "as user ", "")),
        ("on host: vm", [], "on host: mirabels-laptop", MIRABEL, ("host", "on host: ", "")),
    ],
)
def test_a_known_value_that_is_too_common_on_one_side_makes_a_rule(
    recorded: str, names: list[str], now: str, where: Surroundings, rule: tuple[str, str, str]
) -> None:
    lesson = compare(asked(recorded), asked(now), Binder(BindingRules(), where), names)

    assert rules_of(lesson) == [rule]


@pytest.mark.parametrize("recorded", ["as user staging in", "as user ⟦host⟧ in", "as user rooted in"])
def test_a_word_in_the_place_of_a_known_value_is_a_change(recorded: str) -> None:
    lesson = compare(asked(recorded), asked("as user mirabel in"), Binder(BindingRules(), MIRABEL), ["host"])

    assert lesson.rules == ()
    assert lesson.changes
