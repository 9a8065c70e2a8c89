"""``cortex-replay refresh --check``: a watch on drift, against a model that changes its mind on order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import Result

from cortex_replay import Store
from tests.cli.commands import run
from tests.cli.drifting import Message, Model, calls, drifting_model, says

SEARCH = {
    "name": "search",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    },
}
TOOLS = [
    {"type": "function", "function": SEARCH},
    {"type": "function", "function": {"name": "stop", "parameters": {"type": "object"}}},
]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "number"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
JSON: dict[str, Any] = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "weather", "schema": SCHEMA}}
}
OFFERED: dict[str, Any] = {"tools": TOOLS}
PARIS = '{"city": "Paris", "degrees": 18}'
FOUND = ("search", {"query": "rain", "limit": 3})

PLANTED: dict[str, tuple[str, str, dict[str, Any], Message, Message]] = {
    "lost-field": ("contract", "schema", JSON, says(PARIS), says('{"city": "Paris"}')),
    "other-type": ("contract", "schema", JSON, says(PARIS), says('{"city": "Paris", "degrees": "18"}')),
    "new-field": ("contract", "schema", JSON, says(PARIS), says(f'{PARIS[:-1]}, "wind": 3}}')),
    "no-json": ("contract", "schema", JSON, says(PARIS), says("It is 18 degrees in Paris.")),
    "other-tool": ("contract", "tool", OFFERED, calls(FOUND), calls(("stop", {}))),
    "no-tool": ("contract", "tool", OFFERED, calls(FOUND), says("It rains.")),
    "tool-at-last": ("contract", "tool", OFFERED, says("It rains."), calls(FOUND)),
    "strange-tool": ("contract", "unknown tool", OFFERED, calls(FOUND), calls(FOUND, ("rm", {}))),
    "no-argument": ("contract", "invalid argument", OFFERED, calls(FOUND), calls(("search", {"limit": 3}))),
    "wrong-argument": (
        *("contract", "invalid argument", OFFERED, calls(FOUND)),
        calls(("search", {"query": "rain", "limit": "3"})),
    ),
    "refuses": ("contract", "refusal", {}, says("Yes."), says(None, refusal="I cannot help with that.")),
    "cut-off": ("contract", "finish reason", {}, says("A long story."), says("A long st", "length")),
    "filtered": ("contract", "refusal", {}, says("A long story."), says("A", "content_filter")),
    "other-query": (
        *("behaviour", "argument", OFFERED, calls(FOUND)),
        calls(("search", {"query": "snow", "limit": 3})),
    ),
    "no-limit": ("behaviour", "argument", OFFERED, calls(FOUND), calls(("search", {"query": "rain"}))),
    "twice": (
        *("behaviour", "call", OFFERED, calls(FOUND)),
        calls(FOUND, ("search", {"query": "snow", "limit": 3})),
    ),
    "order": ("behaviour", "order", OFFERED, calls(FOUND, ("stop", {})), calls(("stop", {}), FOUND)),
    "value": ("behaviour", "output", JSON, says(PARIS), says('{"city": "Paris", "degrees": 19}')),
    "text": ("words", "text", {}, says("Yes."), says("Certainly.")),
    "spaces": ("words", "format", JSON, says(PARIS), says('{"degrees":18,"city":"Paris"}')),
    "beside": ("words", "text", OFFERED, calls(FOUND, text="I look."), calls(FOUND, text="I search.")),
}
"""By question: the tier and the kind, what else is asked for, what was said then and what is said now."""
TEMPERATURES: tuple[dict[str, Any], ...] = ({}, {"temperature": 0}, {"temperature": 1})


@pytest.fixture
def model(in_a_folder: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    with drifting_model(monkeypatch) as serving:
        yield serving


def check(*arguments: str | Path) -> Result:
    return run("refresh", "--check", *arguments)


def question(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


def found_in(result: Result) -> dict[str, tuple[str, set[str]]]:
    """By question, the tier and the kinds of what differs."""
    changed = json.loads(result.stdout)["changed"]
    return {
        one["title"]: (
            one["tier"],
            {each["kind"] for each in one["differences"] if each["tier"] == one["tier"]},
        )
        for one in changed
    }


@pytest.mark.parametrize("temperature", TEMPERATURES, ids=str)
def test_drift_of_every_kind_is_found_in_its_tier(model: Model, temperature: dict[str, Any]) -> None:
    for name, (_, _, _, then, _) in PLANTED.items():
        model.learn(name, then)
    model.record([question(name, **more, **temperature) for name, (_, _, more, _, _) in PLANTED.items()])
    quiet = check("--json")
    assert (quiet.exit_code, found_in(quiet)) == (0, {}), quiet.output
    for name, (*_, now) in PLANTED.items():
        model.learn(name, now)

    drifted = check("--json", "--jobs", "8")

    assert drifted.exit_code == 4
    wanted = {name: (tier, {kind}) for name, (tier, kind, *_) in PLANTED.items()}
    assert found_in(drifted) == wanted
    tiers = [one["tier"] for one in json.loads(drifted.stdout)["changed"]]
    assert tiers == sorted(tiers, key=["contract", "behaviour", "words"].index)


WORDS = ("rain", "in", "the", "north", "today", "and", "there", "is", "wind", "so", "take", "a", "coat")


def reword(text: str, number: int) -> str:
    """The same in other words, of which no two are alike."""
    return " ".join([str(number), *Random(f"{text} {number}").choices(WORDS, k=12)])


def reworded(name: str, number: int) -> Message:
    """What a question gets the n-th time: always the same behaviour, and never the same words."""
    words = reword(name, number)
    match name.partition("-")[0]:
        case "text":
            return says(words)
        case "tool":
            return calls(FOUND, text=words)
        case "json":
            pairs = [("city", "Paris"), ("degrees", 18)]
            Random(words).shuffle(pairs)
            return says(json.dumps(dict(pairs), indent=number % 3 or None))
        case "query":  # free text in an argument: each time another
            return calls(("search", {"query": words, "limit": 3}))
        case _:  # both were recorded
            return calls(("search", {"query": "rain", "limit": Random(words).choice([3, 4])}))


def alternate(number: int) -> Message:
    return calls(("search", {"query": "rain", "limit": 3 + number % 2}))


def test_200_rewordings_at_temperature_1_are_no_drift(model: Model) -> None:
    """Among them free text in arguments, and values that varied when they were recorded."""
    more = {"text": {}, "tool": OFFERED, "json": JSON, "query": OFFERED, "varied": OFFERED}
    names = {kind: [f"{kind}-{number}" for number in range(40)] for kind in more}
    assert sum(map(len, names.values())) == 200
    for kind, named in names.items():
        is_varied = kind == "varied"
        model.scripts |= {name: alternate if is_varied else partial(reworded, name) for name in named}
        bodies = [question(name, **more[kind], temperature=1) for name in named]
        model.record(bodies, times=2 if is_varied else 1)
        model.scripts |= {name: partial(reworded, name) for name in named}

    shown = check("--jobs", "8")

    assert shown.exit_code == 0, shown.output
    assert "contract" not in shown.stdout
    assert "behaviour" not in shown.stdout
    assert "200 asked again" in shown.stdout
    assert len(shown.stdout.splitlines()) == 3


def learn_and_record(model: Model, *names: str, **more: Any) -> None:
    """Record what some of the planted questions got, and let the model drift."""
    for name in names:
        model.learn(name, PLANTED[name][3])
    model.record([question(name, **PLANTED[name][2], **more) for name in names])
    for name in names:
        model.learn(name, PLANTED[name][4])


@pytest.mark.parametrize(
    ("temperature", "options", "asked"),
    [
        ({}, [], 5),
        ({"temperature": 0.7}, [], 5),
        ({"temperature": 0}, [], 2),
        ({"temperature": 0}, ["--samples", "4"], 4),
        ({}, ["--samples", "1"], 1),
    ],
)
def test_what_differs_is_asked_again_until_it_is_certain(
    model: Model, temperature: dict[str, Any], options: list[str], asked: int
) -> None:
    learn_and_record(model, "other-query", "text", **temperature)

    report = json.loads(check("--json", *options).stdout)

    assert model.counts["other-query"] == asked
    assert model.counts["text"] == (asked if options else 1)
    assert {one["title"]: one["samples"] for one in report["changed"]} == dict(model.counts)


def test_an_answer_that_does_what_was_recorded_ends_the_question(model: Model) -> None:
    learn_and_record(model, "other-query")
    then, now = PLANTED["other-query"][3:]
    model.learn("other-query", now, now, then, now)

    assert check().exit_code == 0
    assert model.counts["other-query"] == 3


def test_a_broken_contract_counts_in_a_single_sample(model: Model) -> None:
    """A schema that holds nine times of ten is broken."""
    learn_and_record(model, "lost-field")
    then, now = PLANTED["lost-field"][3:]
    model.learn("lost-field", then, then, now, then)

    assert check().exit_code == 0, "the first answer is as it was"
    model.learn("lost-field", then, then, now, then)
    shown = check("--samples", "4")
    assert shown.exit_code == 4
    assert "(in 1 of 4 samples)" in shown.stdout


def test_what_varied_when_it_was_recorded_is_no_drift(model: Model) -> None:
    then, now = PLANTED["other-query"][3:]
    model.learn("other-query", then, now)
    model.record([question("other-query", **OFFERED)], times=2)

    shown = check()

    assert (shown.exit_code, model.counts["other-query"]) == (0, 3), shown.output


def test_what_another_scope_recorded_is_no_drift(model: Model) -> None:
    then, now = PLANTED["other-query"][3:]
    model.learn("other-query", then, now)
    for scope in ("", "tests/test_other.py::test_it"):
        model.record([question("other-query", **OFFERED)], scope=scope)
    assert len({one.path for one in Store.open(".").list(scoped=True)}) == 2

    shown = check()

    assert (shown.exit_code, model.counts["other-query"]) == (0, 3), shown.output


@pytest.mark.parametrize(
    ("fail_on", "failing"),
    [
        (None, ["other-tool", "other-query"]),
        ("contract", ["other-tool"]),
        ("behaviour", ["other-tool", "other-query"]),
        ("words", ["other-tool", "other-query", "text"]),
    ],
)
def test_the_user_says_from_which_tier_on_a_check_fails(
    model: Model, fail_on: str | None, failing: list[str]
) -> None:
    options = [] if fail_on is None else ["--fail-on", fail_on]
    for name in ("other-tool", "other-query", "text"):
        learn_and_record(model, name)
        assert check(*options).exit_code == (4 if name in failing else 0)
        run("refresh")


def test_drift_that_was_seen_counts_more_than_a_call_that_failed(model: Model) -> None:
    learn_and_record(model, "other-tool", "text")
    model.learn("text", None)

    shown = check()

    assert shown.exit_code == 4
    assert "2 asked again, 1 differ, 1 failed" in shown.stdout
    model.learn("other-tool", None)
    assert check().exit_code == 1


def test_what_could_not_be_confirmed_is_told_with_the_failure(model: Model) -> None:
    learn_and_record(model, "other-tool")
    model.learn("other-tool", PLANTED["other-tool"][4], None)

    shown = check()

    assert shown.exit_code == 1
    assert "what came before that differs: search is no longer called" in shown.stderr


def test_an_answer_that_only_changes_places_is_no_drift_but_is_replaced(model: Model) -> None:
    then, now = PLANTED["other-query"][3:]
    model.learn("other-query", then, now)
    model.record([question("other-query", **OFFERED)], times=2)
    model.learn("other-query", now, then)
    assert check().exit_code == 0
    model.learn("other-query", now, then)

    shown = run("refresh")

    assert "1 asked again, 1 replaced" in shown.stdout
    assert shown.stdout.startswith('same       m  "other-query"')
