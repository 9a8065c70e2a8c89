"""What is said about a miss."""

from __future__ import annotations

import asyncio
import pickle
import random
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import LlmMessage, LlmRequest, NoFixture, ReplayAdapter, Store
from cortex_replay.bindings import NOWHERE, Binder
from cortex_replay.config import KeyRules
from cortex_replay.config.files import shown_path
from cortex_replay.misses.differences import differences, plain_form
from cortex_replay.misses.explanation import explain_miss
from cortex_replay.misses.suggestions import suggest_normalisers, toml_line
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store.fixture import Answer
from tests.builder import StoreBuilder, fixture_of

HOW = "cortex-replay record -- pytest"
FILLER = "You are a careful assistant who answers in one sentence. " * 3
PLAIN = LlmRequest("m", FILLER, "Hello!", 0.0, 9)


def but(request: LlmRequest, **fields: Any) -> LlmRequest:
    return replace(request, **fields)


def store_of(root: Path, *requests: LlmRequest) -> Store:
    builder = StoreBuilder(root / "store")
    for request in requests:
        builder.add_fixture(fixture_of(request, Answer("ok")))
    return Store.open(builder.write())


def told(root: Path, recorded: LlmRequest, asked: LlmRequest, redactor: Redactor | None = None) -> list[str]:
    """The lines of the explanation, but for the first two and the last, which are looked at here."""
    store = store_of(root, recorded)
    key = store.key(asked)
    first, second, *lines, last = explain_miss(store, asked, key, HOW, redactor).split("\n")

    assert first == f"cortex-replay: nothing is recorded for {asked.model} {key.prompt_hash[:16]}."
    assert second == f"Nearest: {store.list()[0].path}. It differs in:"
    assert last == f"To record it: {HOW}"
    assert len(lines) <= 22
    return [line.strip() for line in lines]


def tool(**fields: Any) -> dict[str, Any]:
    return {
        "name": "look",
        "description": "Looks.",
        "input_schema": {"properties": {"n": {"type": "string"}}},
    } | fields


CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "a", "name": "look", "arguments": {"n": 1}}],
}


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({}, {"model": "m2"}, ["model: 'm' → 'm2'"]),
        ({}, {"temperature": 0.5}, ["temperature: 0.0 → 0.5"]),
        ({}, {"max_tokens": None}, ["max_tokens: 9 → nothing"]),
        ({}, {"seed": 3, "stop": ["x"]}, ['stop: nothing → ["x"]', "seed: nothing → 3"]),
        ({"system": "Be terse."}, {"system": "Be kind."}, ["system: 'Be terse.' → 'Be kind.'"]),
        ({}, {"messages": "Hi!"}, ["message 1 (user): 'Hello!' → 'Hi!'"]),
        (
            {"tools": [tool()]},
            {"tools": [tool(description="Sees.")]},
            ["tool 'look', description: 'Looks.' → 'Sees.'"],
        ),
        ({}, {"tools": [{"name": "f"}]}, ["""tool 'f': nothing → {"name":"f"}"""]),
        ({"tools": [{"name": "f"}]}, {"tools": []}, ["""tool 'f': {"name":"f"} → nothing"""]),
        (
            {"tools": [{"name": "f"}, {"name": "g"}]},
            {"tools": [{"name": "g"}, {"name": "f"}]},
            ['order of the tools: ["f","g"] → ["g","f"]'],
        ),
        (
            {"tools": [tool()]},
            {"tools": [tool(input_schema={"properties": {"n": {"type": "integer"}}})]},
            ["tool 'look', input_schema.properties.n.type: 'string' → 'integer'"],
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]},
            {"tools": [{"type": "function", "function": {"name": "f", "strict": 1}}]},
            ["tool 'f', function.strict: true → 1"],
        ),
        ({"extra": {"n": 1}}, {"extra": {"n": 1.0}}, ["extra.n: 1 → 1.0"]),
        (
            {"extra": {"n": None}},
            {"extra": {"m": None}},
            ["extra.n: null → nothing", "extra.m: nothing → null"],
        ),
        (
            {"messages": [CALL]},
            {"messages": [CALL | {"tool_calls": [{"id": "b", "name": "look", "arguments": {"n": 2}}]}]},
            ["message 1 (assistant), tool_calls[0].arguments.n: 1 → 2"],
        ),
        (
            {"messages": [{"role": "user", "content": "a"}]},
            {"messages": [{"role": "assistant", "content": "a"}]},
            ["message 1 (assistant), role: 'user' → 'assistant'"],
        ),
        (
            {"messages": [{"role": "user", "content": "ab", "parts": [{"type": "text", "text": "ab"}]}]},
            {"messages": [{"role": "user", "content": "ac", "parts": [{"type": "text", "text": "ac"}]}]},
            ["message 1 (user), parts[0].text: 'ab' → 'ac'"],
        ),
        (
            {"messages": "caf\u00e9"},
            {"messages": "cafe\u0301"},
            [r"message 1 (user): 'caf\xe9' → 'cafe\u0301'"],
        ),
        (
            {"system": "a", "tools": [tool()]},
            {"system": "b", "messages": "c", "temperature": 1.0, "tools": [tool(x=1)]},
            [
                *("tool 'look', x: nothing → 1", "system: 'a' → 'b'", "message 1 (user): 'Hello!' → 'c'"),
                "temperature: 0.0 → 1.0",
            ],
        ),
    ],
)
def test_every_kind_of_part(tmp_path: Path, before: Any, after: Any, lines: list[str]) -> None:
    """In the order in which a model reads them."""
    assert lines == told(tmp_path, but(PLAIN, **before), but(PLAIN, **before | after))


def test_a_message_in_the_middle_moves_the_others(tmp_path: Path) -> None:
    turns = [LlmMessage("user", "one"), LlmMessage("assistant", "two"), LlmMessage("user", "three")]
    more = [turns[0], LlmMessage("user", "and a half"), *turns[1:]]

    one, other = but(PLAIN, messages=turns), but(PLAIN, messages=more)
    assert told(tmp_path / "a", one, other) == ["message 2 (user): nothing → 'and a half'"]
    assert told(tmp_path / "b", other, one) == ["message 2 (user): 'and a half' → nothing"]


def test_what_the_key_does_not_see_is_no_difference() -> None:
    """Ids of calls are numbered."""
    other = CALL | {"tool_calls": [{"id": "z", "name": "look", "arguments": {"n": 1}}]}
    one, two = (plain_form(but(PLAIN, messages=[call])) for call in (CALL, other))

    assert list(differences(one, two)) == []


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("Paris", "Oslo", "[-Paris-]{+Oslo+} "),
        ("Paris", "Paris or Oslo", "Paris {+or Oslo +}"),
        ("Paris or Oslo", "Paris", "Paris [-or Oslo -]"),
        ("Paris", "New York", "[-Paris-]{+New York+} "),
        ("Pa\nris", "Pa ris", r"Pa[-\n-]{+ +}ris "),
        ("x", "\x1b[2J\u202e", r"[-x-]{+\x1b[2J\u202e+} "),
    ],
)
def test_long_texts_show_the_words_that_differ(tmp_path: Path, old: str, new: str, line: str) -> None:
    """With some words around them, on one line, whatever they hold."""
    text = FILLER + "What is the weather in {} today, and what should I wear if it rains? " + FILLER
    lines = told(tmp_path, but(PLAIN, messages=text.format(old)), but(PLAIN, messages=text.format(new)))

    assert len(lines) == 1
    assert lines[0].startswith("message 1 (user): … ")
    assert f"the weather in {line}today, and what should" in lines[0]
    assert lines[0].endswith(" …")


def test_a_text_with_many_differences_shows_the_first(tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(300)]
    other = [f"x{i}" if i % 20 == 10 else word for i, word in enumerate(words)]
    (line,) = told(tmp_path, but(PLAIN, system=" ".join(words)), but(PLAIN, system=" ".join(other)))

    assert line.startswith("system: … ")
    assert "w9 [-w10-]{+x10+} w11" in line
    assert line.count("[-") == 3
    assert line.endswith("more)")


def test_texts_that_have_nothing_in_common_are_cut(tmp_path: Path) -> None:
    dice = random.Random(1)
    one, other = (" ".join(str(dice.random()) for _ in range(20_000)) for _ in range(2))
    lines = told(tmp_path, but(PLAIN, system=one), but(PLAIN, system=other))

    assert all(len(line) < 900 for line in lines)


def test_many_differences_are_counted(tmp_path: Path) -> None:
    tools = [{"name": f"f{i}"} for i in range(50)]
    lines = told(tmp_path, PLAIN, but(PLAIN, tools=tools))

    assert len(lines) == 11
    assert lines[-1] == "and 40 more"


@pytest.mark.parametrize(
    ("old", "new", "kind", "line"),
    [
        ("2026-11-15", "2026-11-16", "a date", 'date = "builtin:date"'),
        ("3f9ac41b", "77aa01b2", "an id", 'hex-id = "builtin:hex-id"'),
        ("attempt 3", "attempt 12", "a counter", "counter = '(?<=attempt )[0-9]+'"),
        ("Turn #3", "Turn #12", "a counter", "counter = '(?<=Turn \\#)[0-9]+'"),
    ],
)
def test_what_changes_from_run_to_run_gets_its_normaliser(
    tmp_path: Path, old: str, new: str, kind: str, line: str
) -> None:
    """And with that very line in the configuration, both have one key."""
    (tmp_path / "pyproject.toml").touch()
    one, other = (but(PLAIN, system=f"{FILLER}It is {text} now. {FILLER}") for text in (old, new))
    lines = told(tmp_path, one, other)

    assert lines[1].startswith(f"It looks like {kind}. If that says nothing, put into ")
    assert lines[1].endswith("/pyproject.toml:")
    assert lines[2:4] == ["[tool.cortex-replay.normalisers]", line]
    assert lines[4].startswith("and run: cortex-replay rekey --store ")
    (tmp_path / "store/pyproject.toml").write_text("\n".join(lines[2:4]))
    store = Store.open(tmp_path / "store")
    assert store.key(one) == store.key(other)


@pytest.mark.parametrize(
    ("old", "new", "kind", "shape"),
    [
        ("2026-11-15T09:00:00Z", "2026-11-16T10:01:02Z", "a time", "time"),
        ("/tmp/tmpa1/x", "/tmp/tmpb2/x", "a temporary path", "path"),
        ("1.5s", "2.25s", "a duration", "duration"),
        ("pid 4711", "pid 5", "a process id", "pid"),
    ],
)
def test_noise_gets_the_rule_that_learn_would_make(
    tmp_path: Path, old: str, new: str, kind: str, shape: str
) -> None:
    """With the command that makes it, and the lines to write by hand; with these, both have one key."""
    (tmp_path / "pyproject.toml").touch()
    one, other = (but(PLAIN, system=f"Be terse.\nThe work took {text}. {FILLER}") for text in (old, new))
    lines = told(tmp_path, one, other)

    assert lines[1:3] == [
        f"It looks like {kind}. If that says nothing, let it be learned: cortex-replay learn -- pytest",
        f"or put into {shown_path(tmp_path / 'pyproject.toml')}:",
    ]
    assert lines[3:5] == ["[[tool.cortex-replay.bindings.rules]]", f'bind = "{shape}"']
    assert lines[6].startswith("and run: cortex-replay rekey --store ")
    (tmp_path / "store/pyproject.toml").write_text("\n".join(lines[3:6]))
    binder = Binder(Store.open(tmp_path / "store").key_rules.bindings, NOWHERE)
    assert binder.bind(one).request.prompt_hash() == binder.bind(other).request.prompt_hash()


def test_where_nobody_knows_the_command_the_rule_is_offered_alone(tmp_path: Path) -> None:
    one, other = (but(PLAIN, system=f"It took {text}. {FILLER}") for text in ("1.5s", "2.5s"))
    store = store_of(tmp_path, one)
    text = explain_miss(store, other, store.key(other), "run it with --llm-mode once")

    assert "learn" not in text
    assert "It looks like a duration. If that says nothing, put into cortex-replay.toml:\n" in text
    assert '  before = "It took "\nand run: cortex-replay rekey --store ' in text


def test_a_rule_does_not_quote_a_secret(tmp_path: Path) -> None:
    one, other = (but(PLAIN, system=f"For horse-staple it took {text}.") for text in ("1.5s", "2.5s"))
    lines = told(tmp_path, one, other, Redactor(["horse-staple"]))

    assert not any("horse" in line or "bindings.rules" in line for line in lines)


def test_a_store_that_does_not_follow_its_rules_is_told_of(tmp_path: Path) -> None:
    """A configuration was written, and nobody ran rekey: or it died before."""
    (tmp_path / "cortex-replay.toml").write_text('[[bindings.rules]]\nbind = "pid"\nbefore = "pid "\n')
    one, other = (but(PLAIN, system=f"pid {pid} runs") for pid in (4711, 5))
    lines = told(tmp_path, one, other)

    assert lines[1] == "By the rules of this store it is the same; its recordings do not follow them yet."
    assert lines[2].startswith("To mend that: cortex-replay rekey --store ")


@pytest.mark.parametrize("manifest", ["package.json", "go.mod", ""])
def test_a_project_of_another_language_is_told_of_a_file_of_our_own(tmp_path: Path, manifest: str) -> None:
    """Also where a Python project stands above it."""
    (tmp_path / "store").mkdir()
    if manifest:
        (tmp_path / "pyproject.toml").touch()
        (tmp_path / "store" / manifest).touch()
    one, other = (but(PLAIN, system=f"It is {text} now.") for text in ("2026-11-15", "2026-11-16"))
    lines = told(tmp_path, one, other)

    assert lines[1].endswith("put into cortex-replay.toml:")
    assert lines[2] == "[normalisers]"
    (tmp_path / "store/cortex-replay.toml").write_text("\n".join(lines[2:4]))
    store = Store.open(tmp_path / "store")
    assert store.key(one) == store.key(other)


def test_several_normalisers_at_once(tmp_path: Path) -> None:
    """As many as it takes, in the file that is there, under names that are free."""
    (tmp_path / "cortex-replay.toml").write_text("[normalisers]\ndate = 'nothing such'\n")
    one = but(PLAIN, system="Run 3f9ac41b on 2026-11-15, step 3", messages="on 2026-11-15")
    other = but(PLAIN, system="Run 77aa01b2 on 2026-11-16, step 4", messages="on 2026-11-17")
    lines = told(tmp_path, one, other)

    assert "It looks like a date and an id and a counter." in lines[2]
    assert lines[3:7] == [
        "[normalisers]",
        'date-2 = "builtin:date"',
        'hex-id = "builtin:hex-id"',
        "counter = '(?<=step )[0-9]+'",
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"system": "on 2026-11-15 in Rome"}, {"system": "on 2026-11-16 in Oslo"}),
        ({"system": "on 2026-11-15"}, {"system": "on 2026-11-16", "temperature": 1.0}),
        ({"tools": [tool(x="2026-11-15")]}, {"tools": [tool(x="2026-11-16")]}),
        ({"system": "2+2"}, {"system": "2+3"}),
        ({"system": "attempt 3"}, {"system": "attempt three"}),
    ],
)
def test_what_would_not_help_is_not_suggested(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Tools are not normalised, and a number alone is no counter."""
    assert suggest_normalisers(KeyRules(), but(PLAIN, **one), but(PLAIN, **other)) == {}


def test_a_pattern_with_a_quote() -> None:
    (pattern,) = tomllib.loads(toml_line("n", r"(?<=it's\#)[0-9]+")).values()

    assert pattern == r"(?<=it's\#)[0-9]+"


def test_a_secret_is_not_shown_by_a_piece_of_it(tmp_path: Path) -> None:
    """Wherever it stands, in however long a text."""
    secret = "".join(f"{i:x}Qz" for i in range(60))
    fields: Any
    for number, fields in enumerate(
        [
            {"system": f"{FILLER}The word is {secret} 5. {FILLER}"},
            {"messages": f"{secret} {FILLER}"},
            {"tools": [tool(description=f"Is {secret}")]},
            {"tools": [{"a": {secret: "x"}}]},
            {"extra": {"deep": [{"x": secret}], secret: 1}},
        ]
    ):
        lines = told(tmp_path / str(number), PLAIN, but(PLAIN, **fields), Redactor([secret]))
        text = "\n".join(lines)
        assert not any(secret[i : i + 8] in text for i in range(len(secret) - 8)), fields
        assert "REDACTED" in text


def test_the_environment_s_secrets_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without being told."""
    monkeypatch.setenv("SOME_API_KEY", "correct-horse-battery")
    store = store_of(tmp_path, PLAIN)
    with pytest.raises(NoFixture) as caught:
        ReplayAdapter(store).sync.complete(but(PLAIN, messages="It is correct-horse-battery."))

    assert "horse" not in str(caught.value)
    assert "REDACTED:known-value" in caught.value.explanation


def test_two_requests_that_differ_in_a_secret_only(tmp_path: Path) -> None:
    store = store_of(tmp_path, but(PLAIN, messages="It is [REDACTED:known-value]."))
    asked = but(PLAIN, messages="It is correct-horse-battery.")
    text = explain_miss(store, asked, store.key(asked), HOW, Redactor(["correct-horse-battery"]))

    assert ". It differs in what was cut out as secret.\n" in text


def test_an_empty_store(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store")

    assert (
        explain_miss(store, PLAIN, store.key(PLAIN), HOW).split("\n")[1]
        == "Nothing is recorded in this store yet."
    )


def test_a_store_whose_fixtures_hold_no_request(tmp_path: Path) -> None:
    """As those of crtx-llm."""
    builder = StoreBuilder(tmp_path)
    builder.add_fixture(replace(fixture_of(PLAIN, Answer("x")), request=None))
    store = Store.open(builder.write())
    asked = but(PLAIN, system="x")

    assert "None of its 1 recordings holds a request" in explain_miss(store, asked, store.key(asked), HOW)


def test_answers_that_are_used_up(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    builder.add_fixture(fixture_of(PLAIN, Answer("one"), Answer("two")))
    adapter = ReplayAdapter(builder.write())
    for _ in range(2):
        adapter.sync.complete(PLAIN)
    with pytest.raises(
        NoFixture, match=r"every answer that is recorded for m [0-9a-f]{16} was given"
    ) as caught:
        adapter.sync.complete(PLAIN)

    assert caught.value.exhausted
    assert "To record another: " in caught.value.explanation


def test_the_error_carries_it_whole_or_streamed_and_through_a_pickle(tmp_path: Path) -> None:
    adapter = ReplayAdapter(store_of(tmp_path, PLAIN))
    asked = but(PLAIN, messages="Hi!")

    async def streamed() -> None:
        async for _ in adapter.stream(asked):
            pass

    for call in (lambda: adapter.sync.complete(asked), lambda: asyncio.run(streamed())):
        with pytest.raises(NoFixture) as caught:
            call()
        again = pickle.loads(pickle.dumps(caught.value))
        for error in (caught.value, again):
            assert (error.model, error.prompt_hash) == adapter.store.key(asked)
            assert (error.exhausted, error.exit_code) == (False, 3)
            assert "message 1 (user): 'Hello!' → 'Hi!'" in error.explanation
            assert error.__notes__ == [error.explanation]
            assert "RecordingAdapter" in error.explanation


def test_a_caller_that_should_not_see_it(tmp_path: Path) -> None:
    with pytest.raises(NoFixture) as caught:
        ReplayAdapter(store_of(tmp_path, PLAIN), explain=False).sync.complete(but(PLAIN, messages="Hi!"))

    assert caught.value.explanation == ""
    assert "\n" not in str(caught.value)


def test_a_store_with_further_rules_is_the_same_store(tmp_path: Path) -> None:
    """What is committed through one is there for the other, and keys differ."""
    store = store_of(tmp_path, PLAIN)
    seen = store.with_normalisers(["builtin:uuid"])
    asked = [but(PLAIN, system=f"0000000{i}-4f89-11d3-9a0c-0305e82c3301") for i in range(2)]
    assert seen.key(asked[0]) == seen.key(asked[1])
    assert store.key(asked[0]) != store.key(asked[1])

    request, names = seen.normalise(asked[0])
    seen.add(fixture_of(request, Answer("found"), meta={"normalisers": list(names)}))
    seen.commit()
    assert (len(store), len(seen)) == (2, 2)
    assert ReplayAdapter(seen).sync.complete(asked[1]).text == "found"
    with pytest.raises(NoFixture, match="<uuid>"):
        ReplayAdapter(store).sync.complete(asked[1])
    assert Store.open(store.root).with_normalisers(["builtin:uuid"]).get(*seen.key(asked[0])).meta == {
        "normalisers": ["uuid"]
    }
    assert seen.with_normalisers({"n": "x+"}).normalise(but(asked[0], messages="xxx"))[1] == [
        "uuid",
        "n",
    ]


def test_the_guide_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    (block,) = re.findall(r"```python\n(.*?)```", (root / "docs/misses.md").read_text(), re.DOTALL)
    exec(compile(block, "misses.md", "exec"), {})


def test_a_miss_that_cannot_be_explained_is_still_a_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key and how to record it are told, whatever stands in the way of the rest."""
    store = store_of(tmp_path, PLAIN)
    asked = but(PLAIN, messages="Hi!")
    monkeypatch.setattr("cortex_replay.misses.explanation.nearest_fixture", lambda *_, **__: 1 / 0)

    text = explain_miss(store, asked, store.key(asked), HOW, Redactor([]))

    assert text == (
        f"cortex-replay: nothing is recorded for {asked.model} {asked.prompt_hash()[:16]}.\n"
        f"To record it: {HOW}"
    )
