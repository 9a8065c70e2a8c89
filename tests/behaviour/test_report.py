"""What changed between two stores, by what it means."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NotRequired, get_origin, get_type_hints

import pytest

from cortex_replay import Answer, Fixture, LlmRequest, Store
from cortex_replay.behaviour.differences import Tier
from cortex_replay.behaviour.report import ChangeReport, Item, report_changes
from cortex_replay.behaviour.values import Clean, as_it_is
from cortex_replay.mcp.questions import question_of
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange, parse_exchange, render_exchange
from cortex_replay.store.sides import SourceSide, review_sides
from cortex_replay.types import ToolCall
from cortex_replay.view.documents.change import whole_change
from cortex_replay.view.shapes import AnswerDocument, ChangeDocument, ChangeItem, DifferenceDocument
from tests.behaviour.test_compare import call, calls, says
from tests.builder import StoreBuilder, ask, fixture_of
from tests.growth import grows_linearly

TEST = "test_agent.py::test_a"
OTHER = "test_agent.py::test_b"


class Sides:
    """Two stores that are filled by the test."""

    def __init__(self, root: Path) -> None:
        self.before, self.after = (Store.create(root / name) for name in ("before", "after"))

    def record(self, store: Store, request: LlmRequest, *answers: Answer | str, **meta: Any) -> None:
        store.replace(Fixture.of(request, *answers, meta=meta or None))

    def both(self, request: LlmRequest, *answers: Answer | str, **meta: Any) -> None:
        for store in (self.before, self.after):
            self.record(store, request, *answers, **meta)

    def report(self) -> ChangeReport:
        for store in (self.before, self.after):
            store.commit()
        return compare(self.before.root, self.after.root)


def compare(*roots: Path, clean: Clean = as_it_is) -> ChangeReport:
    sources = map(DirectorySource, roots)
    before, after = (SourceSide(check_store(source).index, source) for source in sources)
    return report_changes(review_sides(before, after, with_kept=True), "main", "HEAD", clean)


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    return Sides(tmp_path)


def brief(report: ChangeReport) -> list[tuple[str, str, str]]:
    return [(item.how, item.tier.word, item.title) for item in report.items]


def test_the_most_important_stands_first(sides: Sides) -> None:
    for name, before, after in (
        ("a reworded", says("Fine."), says("Good.")),
        ("b refused", says("Fine."), says("No.", "refusal")),
        ("c searched", calls(call("search", q="x")), calls(call("search", q="y"))),
    ):
        sides.record(sides.before, ask(name), before)
        sides.record(sides.after, ask(name), after)
    sides.both(ask("the same"), "Fine.")

    assert brief(sides.report()) == [
        ("changed", "contract", "b refused"),
        ("changed", "behaviour", "c searched"),
        ("changed", "words", "a reworded"),
    ]


def test_a_file_that_says_the_same_is_the_same(sides: Sides) -> None:
    sides.record(sides.before, ask("q"), "Fine.", note="then")
    sides.record(sides.after, ask("q"), "Fine.", note="now")

    (item,) = sides.report().items

    assert (item.tier, item.differences) == (Tier.SAME, [])


def test_another_question_in_place_of_one(sides: Sides) -> None:
    """A prompt that is put otherwise is words; what the model does then counts by itself."""
    sides.record(sides.before, ask("Say hello."), "Hello.")
    sides.record(sides.after, ask("Say hello.", system="Be brief."), calls(call("greet")))

    (item,) = sides.report().items

    assert (item.how, item.why) == ("replaced", "the same question, asked otherwise")
    assert [(one.tier.word, one.kind) for one in item.differences] == [
        ("contract", "unknown tool"),
        ("words", "text"),
        ("words", "question"),
    ]
    assert "the system text" in item.differences[-1].text


def test_one_more_call_of_a_known_test_is_behaviour_and_a_new_test_is_none(sides: Sides) -> None:
    sides.both(ask("What is the weather?"), "Fine.", scope=TEST)
    sides.record(sides.after, ask("Where am I?"), "Rome.", scope=TEST)
    sides.record(sides.after, ask("One and one?"), "Two.", scope=OTHER)

    found = {item.title: item for item in sides.report().items}

    assert found["Where am I?"].tier is Tier.BEHAVIOUR
    assert found["Where am I?"].differences[0].text == f"{TEST} makes a call that it did not make"
    assert found["One and one?"].tier is Tier.SAME
    assert found["One and one?"].how == "added"


def test_one_fewer_call_of_a_test_that_stays_is_behaviour(sides: Sides) -> None:
    sides.both(ask("What is the weather?"), "Fine.", scope=TEST)
    sides.record(sides.before, ask("Where am I?"), "Rome.", scope=TEST)
    sides.record(sides.before, ask("One and one?"), "Two.", scope=OTHER)

    found = {item.title: (item.how, item.tier.word) for item in sides.report().items}

    assert found == {
        "Where am I?": ("removed", "behaviour"),
        "One and one?": ("removed", "same"),
        TEST: ("road", "behaviour"),
    }


def test_a_road(sides: Sides) -> None:
    """The order of the turns, also of those that did not change."""
    sides.both(ask("first"), calls(call("search", q="a")), scope=TEST, call=1, run="one")
    sides.record(sides.before, ask("second"), says("Done."), scope=TEST, call=2, run="one")
    sides.record(sides.after, ask("second"), calls(call("fetch")), scope=TEST, call=2, run="two")
    sides.record(sides.after, ask("third"), says("Done."), scope=TEST, call=3, run="two")

    road = next(item for item in sides.report().items if item.how == "road")

    assert road.title == TEST
    assert road.differences[0].text == "2 turns became 3: search, answers became search, fetch, answers"
    assert road.differences[0].after == ["search", "fetch", "answers"]


def test_a_turn_that_was_recorded_anew_keeps_its_place(sides: Sides) -> None:
    """Although it is later than those that come after it."""
    then, later = {"run": "one", "scope": TEST}, {"run": "two", "scope": TEST}
    sides.record(
        sides.before, ask("first"), calls(call("search")), call=1, asked_at="2026-11-01T10:00:00Z", **then
    )
    sides.record(
        sides.after,
        ask("first"),
        calls(call("search", q=1)),
        call=1,
        asked_at="2026-11-02T10:00:00Z",
        **later,
    )
    sides.both(ask("second"), says("Done."), call=2, asked_at="2026-11-01T10:00:01Z", **then)

    assert [item.how for item in sides.report().items] == ["changed"]


def test_the_road_of_a_run_that_was_recorded_anew(sides: Sides) -> None:
    """Without a scope; what the later run found as it was belongs to it."""
    sides.both(ask("first"), calls(call("search", q="a")), call=1, run="one")
    sides.record(sides.before, ask("second"), says("Done."), call=2, run="one")
    sides.record(sides.after, ask("second"), calls(call("fetch")), call=2, run="two")
    sides.both(ask("of another program"), says("Hi."), call=1, run="zero")

    (road,) = [item for item in sides.report().items if item.how == "road"]

    assert road.title == "run two"
    assert road.differences[0].text == "search, answers became search, fetch"


def test_what_a_later_run_no_longer_asks_is_no_turn(sides: Sides) -> None:
    """It stays in the store until it is pruned."""
    then = {"run": "one", "scope": TEST}
    later = {"run": "two", "scope": TEST}
    first, second, other = ask("first"), ask("second"), ask("second, as the other argument has it")
    sides.record(
        sides.before, first, calls(call("read", n=1)), call=1, asked_at="2026-11-01T10:00:00Z", **then
    )
    sides.record(
        sides.after, first, calls(call("read", n=2)), call=1, asked_at="2026-11-02T10:00:00Z", **later
    )
    sides.both(second, says("Done."), call=2, asked_at="2026-11-01T10:00:01Z", **then)
    sides.record(sides.after, other, says("Done."), call=2, asked_at="2026-11-02T10:00:01Z", **later)

    assert [item.how for item in sides.report().items] == ["changed", "added"]


def test_calls_that_share_a_number_are_all_turns(sides: Sides) -> None:
    """Two adapters of one program count for themselves."""
    at = {"before": "2026-11-01T10:00:00Z", "after": "2026-11-02T10:00:00Z"}
    sides.both(ask("of one"), calls(call("read")), call=1, run="one", asked_at=at["before"])
    sides.record(sides.before, ask("of two"), says("a"), call=1, run="one", asked_at=at["before"])
    sides.record(sides.after, ask("of two"), says("b"), call=1, run="two", asked_at=at["after"])

    assert [item.how for item in sides.report().items] == ["changed"]


def test_another_id_of_a_call_is_the_same_question(sides: Sides) -> None:
    """The key leaves it out, and so does what the program is said to ask otherwise."""

    def request(call_id: str) -> LlmRequest:
        wanted = {"id": call_id, "name": "read", "arguments": {}}
        return ask(
            [
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": "", "tool_calls": [wanted]},
                {"role": "tool", "content": "text", "tool_call_id": call_id},
            ]
        )

    sides.record(sides.before, request("call_1"), says("It says a."))
    sides.record(sides.after, request("call_2"), says("It says b."))

    (item,) = sides.report().items

    assert [one.kind for one in item.differences] == ["text"]


def test_no_road_where_only_words_changed(sides: Sides) -> None:
    sides.record(sides.before, ask("first"), says("Fine."), scope=TEST, call=1)
    sides.record(sides.after, ask("first"), says("Good."), scope=TEST, call=1)

    assert [item.how for item in sides.report().items] == ["changed"]


def test_several_answers_to_one_question(sides: Sides) -> None:
    sides.record(sides.before, ask("q"), says("a"), calls(call("search", q="x")))
    sides.record(sides.after, ask("q"), says("a"), calls(call("search", q="y")), says("b"))

    (item,) = sides.report().items

    assert [one.text for one in item.differences] == [
        'answer 2: search #1 q: "x" became "y"',
        "answer 3 is new",
    ]


def failure(request: LlmRequest, n: int, status: int = 429) -> Exchange:
    key = Fixture.of(request, "x").key
    return Exchange.failure(key, n, {"status": status, "headers": {}, "body": "{}"})


def test_an_error_instead_of_an_answer(sides: Sides) -> None:
    sides.record(sides.before, ask("q"), "Fine.")
    sides.after.add_exchange(failure(ask("q"), 1))

    (item,) = sides.report().items

    assert (item.how, item.tier) == ("changed", Tier.CONTRACT)
    assert item.differences[0].text == "an error instead of an answer: status 429"


def test_an_error_before_an_answer_that_stayed(sides: Sides) -> None:
    """The answer is the second now, and so the first is another."""
    sides.both(ask("q"), "Fine.")
    sides.after.add_exchange(failure(ask("q"), 1))

    (item,) = sides.report().items

    assert [one.text for one in item.differences] == [
        "answer 1: an error instead of an answer: status 429",
        "answer 2 is new",
    ]


def mcp(arguments: dict[str, Any], text: str) -> Exchange:
    request = question_of("weather", "tools/call", {"name": "forecast", "arguments": arguments})
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    exchange = Exchange({"messages": [{"at_ms": 1, "result": result}]}, request=request)
    return parse_exchange(render_exchange(exchange))  # with its key


def test_what_a_server_is_asked_and_gives_back(sides: Sides) -> None:
    sides.before.add_exchange(mcp({"city": "Rome"}, "Sun."))
    sides.after.add_exchange(mcp({"city": "Oslo"}, "Snow."))

    (item,) = sides.report().items

    assert (item.how, item.who, item.tier) == ("replaced", "weather", Tier.BEHAVIOUR)
    assert {(one.kind, one.place) for one in item.differences} == {
        ("argument", "arguments.city"),
        ("result", "content[0].text"),
    }


def in_scope(request: LlmRequest, text: str, scope: str) -> Fixture:
    return Fixture.of(request, text, meta={"scope": scope})


def test_a_scope_that_gets_an_answer_of_its_own_is_compared_with_the_shared_one(sides: Sides) -> None:
    sides.both(ask("q"), says("{}"), scope=TEST)
    sides.after.add(in_scope(ask("q"), "[]", OTHER), scope=OTHER)

    (item,) = sides.report().items

    assert (item.how, item.tier, item.scopes) == ("changed", Tier.WORDS, (OTHER,))


def test_a_call_more_of_two_tests_is_one_item_that_names_both(sides: Sides) -> None:
    """They were answered the same, and a third one otherwise: one file, in two rows."""
    for scope in (TEST, OTHER):
        sides.both(ask(f"known to {scope}"), says("Hi."), scope=scope)
    sides.after.add(in_scope(ask("q"), "first", "third"), scope="third")
    for scope in (TEST, OTHER):
        sides.after.add(in_scope(ask("q"), "second", scope), scope=scope)

    item = next(one for one in sides.report().items if one.how == "added")

    assert (item.tier, item.scopes) == (Tier.BEHAVIOUR, (TEST, OTHER))
    assert [one.place for one in item.differences] == [TEST, OTHER]


def test_an_owner_that_keeps_its_answer_makes_no_call_fewer(sides: Sides) -> None:
    """Who records without a scope replaces what is shared; the owner gets a row for what it had."""
    for at in (1, 2):
        sides.before.add(Fixture.of(ask(f"q{at}"), "Fine.", meta={"scope": TEST, "call": at}), scope=TEST)
    sides.before.commit()
    shutil.copytree(sides.before.root, sides.after.root, dirs_exist_ok=True)
    sides.after = Store.open(sides.after.root)
    sides.record(sides.after, ask("q2"), "Good.")

    (item,) = sides.report().items

    assert (item.how, item.tier, item.title) == ("changed", Tier.WORDS, "q2")


def test_a_loop_of_tools_says_how_far_it_is(sides: Sides) -> None:
    turns = [
        {"role": "user", "content": "Rain?"},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "f"}]},
    ]
    sides.record(sides.after, ask(turns), "Yes.")

    assert sides.report().items[0].title == "Rain? (+1 message)"


def test_secrets_are_cut_out_before_lines_are(sides: Sides) -> None:
    secret = "first line\nsecond line"
    sides.record(sides.after, ask(secret), secret)
    sides.after.commit()

    redactor = Redactor(extra_patterns={"own": secret})
    report = compare(sides.before.root, sides.after.root, clean=lambda text: redactor.text(text)[0])

    assert "line" not in str(whole_change(report, redactor))


def test_nothing_changed(sides: Sides) -> None:
    sides.both(ask("q"), "Fine.")

    report = sides.report()

    assert (report.items, report.tier) == ([], Tier.SAME)


def keys(shape: Callable[..., Any]) -> set[str]:
    """The fields that a document of a shape has in any case."""
    hints = get_type_hints(shape, include_extras=True)
    return {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}


def test_the_document_has_the_shape_of_the_page(sides: Sides) -> None:
    sides.record(sides.before, ask("q"), says("a"))
    sides.record(sides.after, ask("q"), says("b"))
    for at in range(3):
        sides.record(sides.after, ask(f"new {at}"), Answer("x", tool_calls=(ToolCall(name="t"),)))

    report = sides.report()
    document = whole_change(report, Redactor())
    item = next(one for one in document["items"] if one["change"] == "changed")

    assert set(document) == keys(ChangeDocument)
    assert set(item) == keys(ChangeItem)
    assert set(item["before"][0]) == keys(AnswerDocument)
    assert set(item["differences"][0]) == keys(DifferenceDocument)
    assert document["counts"]["added"] == 3
    assert len({one.id for one in report.items}) == 4
    assert all(one["id"].isalnum() for one in document["items"])


def test_ids_stay_the_same(sides: Sides) -> None:
    sides.record(sides.after, ask("q"), says("b"))

    def ids() -> list[str]:
        return [Item.id.fget(item) for item in sides.report().items]  # type: ignore[attr-defined]

    assert ids() == ids()


def changed_stores(root: Path, size: int) -> list[Path]:
    roots = []
    for name in ("before", "after"):
        builder = StoreBuilder(root / name)
        for at in range(size):
            answer = calls(call("search", q=f"{at} {name}"))
            builder.add_fixture(fixture_of(ask(f"question {at}"), answer, meta={"scope": TEST}))
        roots.append(builder.write())
    return roots


def test_many_changes_are_judged_in_linear_time(tmp_path: Path) -> None:
    once, twice = changed_stores(tmp_path / "once", 60), changed_stores(tmp_path / "twice", 120)

    assert compare(*twice).counts["behaviour"] == 120
    assert grows_linearly(lambda: compare(*once), lambda: compare(*twice))
