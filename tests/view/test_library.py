"""The documents of a store: each has its shape, and no secret; what the index does not vouch for is named."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from cortex_replay import Answer, Fixture, LlmRequest, Store
from cortex_replay.config import Price
from cortex_replay.engine.money import PriceList
from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.history.calls import read_calls
from cortex_replay.history.mcp_calls import read_mcp_calls
from cortex_replay.history.runs import UnknownRun
from cortex_replay.history.story import tell_story
from cortex_replay.store.fixture import FixtureKey
from cortex_replay.view import shapes
from cortex_replay.view.export import export_page
from cortex_replay.view.ids import call_id, story_id
from cortex_replay.view.library import Library, Shelf
from cortex_replay.view.recordings import LookedAt
from tests.builder import StoreBuilder
from tests.engine.mcp import scenario
from tests.view.stores import MODEL, RUN, SECRET, TEST, fixture_of, library_of, make_store

CLEAN = "My key is [REDACTED:known-value], keep it."
SHAPES = {
    "page": shapes.PageDocument,
    "store": shapes.StoreDocument,
    "texts": shapes.TextsDocument,
    "stories": shapes.StoryDocument,
    "calls": shapes.CallDocument,
    "raw": shapes.RawDocument,
}


def misfits(value: object, shape: Any, place: str = "") -> list[str]:
    """Where a value is not of its type: every field is there, and no other."""
    if is_typeddict(shape):
        if not isinstance(value, dict):
            return [f"{place}: no object"]
        hints = get_type_hints(shape, include_extras=True)
        needed = {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}
        wrong = [f"{place}.{name} is missing" for name in needed - value.keys()]
        wrong += [f"{place}.{name} has no shape" for name in value.keys() - hints.keys()]
        known = get_type_hints(shape)
        return wrong + [
            one
            for name in value.keys() & known.keys()
            for one in misfits(value[name], known[name], f"{place}.{name}")
        ]
    origin, arguments = get_origin(shape), get_args(shape)
    if shape is Any:
        return []
    if origin in (UnionType, Union):
        tries = [misfits(value, one, place) for one in arguments]
        return [] if [] in tries else min(tries, key=len)
    if origin is Literal:
        return [] if value in arguments else [f"{place}: {value!r}"]
    if origin is list:
        wrong_items = (
            [misfits(item, arguments[0], f"{place}[]") for item in value]
            if isinstance(value, list)
            else [[place]]
        )
        return [one for found in wrong_items for one in found]
    if origin is tuple:
        return [] if isinstance(value, tuple | list) and len(value) == len(arguments) else [place]
    expected: Any = (int, float) if shape is float else origin or shape
    return [] if isinstance(value, expected) else [f"{place}: {type(value).__name__} is no {shape}"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("store") / "llm")


@pytest.fixture(scope="module")
def library(root: Path) -> Library:
    return library_of(root, prices=PriceList({MODEL: Price(input=1, output=2)}, "EUR"))


def store_of(library: Library) -> Any:
    return library.document("store")


def test_each_document_has_exactly_its_shape(library: Library) -> None:
    documents = dict(library.all())

    assert {name.partition("/")[0] for name in documents} == SHAPES.keys()
    assert [
        f"{name}{wrong}"
        for name, document in documents.items()
        for wrong in misfits(document, SHAPES[name.partition("/")[0]])
    ] == []
    found = library.document("search", "q=oslo")
    assert misfits(found, shapes.SearchDocument) == []


def test_the_check_sees_what_does_not_fit() -> None:
    page = {"title": "t", "version": "1", "made_at": "", "screens": ["store"], "is_file": True}

    assert misfits(page, shapes.PageDocument) == []
    assert misfits({**page, "more": 1}, shapes.PageDocument) == [".more has no shape"]
    assert misfits({**page, "is_file": 0}, shapes.PageDocument) != []
    assert misfits({**page, "screens": ["shop"]}, shapes.PageDocument) == [".screens[]: 'shop'"]
    assert misfits({"title": "t"}, shapes.PageDocument) != []


def test_no_document_has_a_secret(library: Library) -> None:
    assert SECRET in "".join(path.read_text() for path in library.read().store.root.rglob("*.json"))
    assert [name for name, document in library.all() if SECRET in json.dumps(document)] == []
    assert SECRET not in json.dumps(library.document("search", "q=my+key"))


def test_a_secret_is_cut_out_before_a_line_is(tmp_path: Path) -> None:
    """Half of one would not be known for one."""
    store = Store.create(tmp_path)
    store.add(fixture_of(f"{'x' * 180} {SECRET}", Answer(f"{'y' * 180} {SECRET}")))
    store.commit()

    assert SECRET[:8] not in json.dumps(library_of(tmp_path).document("store"))


def test_a_file_that_several_tests_have_is_one_recording(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    store.add(fixture_of("Is it?", Answer("Yes.")))
    for scope in ("a", "b"):
        store.add(fixture_of("Is it?", Answer("No.")), scope=scope)
    store.commit()
    key = fixture_of("Is it?").key.prompt_hash
    library = library_of(tmp_path, looked_at=LookedAt(unused=frozenset([(MODEL, key, "a")])))
    rows = {row["answer"]: row for row in store_of(library)["calls"]}
    call: Any = library.document(f"calls/{rows['No.']['id']}")

    assert {answer: row["scopes"] for answer, row in rows.items()} == {"Yes.": [], "No.": ["a", "b"]}
    assert [fact for fact in call["facts"] if fact[0] == "given to"] == [("given to", "a"), ("given to", "b")]
    assert call["index_line"].count("[[scoped]]") == 2
    assert rows["No."]["is_unused"] is False, "b used it"


def test_a_search_for_a_secret_finds_nothing(library: Library) -> None:
    assert library.document("search", f"q={SECRET}") == {"found": [], "is_cut": False}


def test_every_kind_of_recording_has_a_row(library: Library) -> None:
    rows = store_of(library)["calls"]

    assert [(row["kind"], row["who"], row["question"], row["answer"], row["answers"]) for row in rows] == [
        ("model", MODEL, "What is the weather in Oslo?", "calls get_weather", 1),
        ("model", MODEL, CLEAN, f"{CLEAN} Yes.", 1),
        ("model", MODEL, "Count.", "One.", 2),
        ("mcp", "files", 'read_file(path="a.txt")', "result: the words of a file", 1),
        ("exchange", "openai", "POST /v1/embeddings", "status 200", 1),
        ("exchange", MODEL, "answer 2 was an error", "status 429", 1),
    ]
    assert rows[0]["scopes"] == [TEST]
    assert all(row["bytes"] == (library.read().store.root / row["path"]).stat().st_size for row in rows)


def test_what_was_spent_is_counted_by_model_run_and_test(library: Library) -> None:
    document = store_of(library)

    assert document["spent"] == {
        "prompt": 10,
        "completion": 2,
        "cached": 0,
        "cache_write": 0,
        "money": "at least less than 0.0001 EUR",
    }
    [model] = document["models"]
    assert (model["name"], model["calls"], model["spent"]["prompt"]) == (MODEL, 3, 10)
    assert [(run["name"], run["calls"], run["mcp_calls"]) for run in document["runs"]] == [
        (RUN, 3, 0),
        ("before", 1, 1),
    ]
    assert [(test["id"], test["name"], test["calls"]) for test in document["tests"]] == [
        (story_id("test", TEST), TEST, 1)
    ]


def test_each_recording_shows_the_row_that_vouches_for_it(library: Library) -> None:
    for row in store_of(library)["calls"]:
        call: Any = library.document(f"calls/{row['id']}")
        raw: Any = library.document(f"raw/{row['id']}")

        assert f'blake3 = "{call["blake3"]}"' in call["index_line"]
        assert call["index_line"] in (library.read().store.root / "INDEX.toml").read_text()
        assert raw["is_redacted"] is ("My key" in row["question"])
        if not raw["is_redacted"]:
            assert raw["text"] == (library.read().store.root / row["path"]).read_text()


def test_what_came_back_is_shown_whatever_was_asked(library: Library) -> None:
    *_, tool, embedding, failure = store_of(library)["calls"]
    shown: list[Any] = [library.document(f"calls/{row['id']}") for row in (tool, embedding, failure)]

    assert shown[0]["mcp"]["messages"][0]["result"]["content"][0]["text"] == "the words of a file"
    assert (shown[1]["answers"][0]["status"], shown[1]["answers"][0]["text"]) == (200, '{"data": []}')
    assert "fjord" in shown[1]["messages"][0]["text"]
    assert shown[2]["answers"][0]["status"] == 429


@pytest.mark.parametrize(
    "name",
    [
        "",
        "stores",
        "store/x",
        "calls",
        "calls/",
        "calls/../INDEX.toml",
        "raw/INDEX.toml",
        "raw/..%2fINDEX.toml",
        "raw//etc/passwd",
        "stories/run-0",
        "change",
        "report",
        "__init__",
    ],
)
def test_a_name_that_is_none_leads_nowhere(library: Library, name: str) -> None:
    assert library.document(name) is None


def test_names_say_nothing_of_what_is_recorded(tmp_path: Path) -> None:
    """A model, a scope and a path may be called anything; what a document is called leads nowhere."""
    evil = "../../<img src=x>\x1b[2J\u202e"
    store = Store.create(tmp_path)
    request = LlmRequest(evil, evil, [{"role": "user", "content": evil}])
    store.add(Fixture.of(request, Answer(evil), meta={"scope": evil, "run": evil, "recorded_at": evil}))
    store.commit()
    library = library_of(tmp_path)
    documents = dict(library.all())

    assert [
        name for name in documents if not re.fullmatch(r"[a-z]+(/((run|test)-)?[0-9a-f]{32})?", name)
    ] == []
    [row] = store_of(library)["calls"]
    assert (row["who"], row["scopes"], row["runs"], row["at"]) == (evil, [evil], ["before"], None)
    page = export_page(library).decode()
    assert "<img" not in page
    assert "\x1b" not in page


def test_a_path_is_no_id(library: Library) -> None:
    row = store_of(library)["calls"][0]

    assert library.document(f"raw/{row['path']}") is None
    assert call_id(row["path"]) == row["id"]


def test_a_broken_file_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    for question in ("one", "two", "three"):
        builder.add(question, "Yes.")
    builder.write()
    library = library_of(tmp_path)
    rows = store_of(library)["calls"]
    spoiled = next(row for row in rows if row["question"] == "two")
    path = tmp_path / spoiled["path"]
    path.write_bytes(path.read_bytes().replace(b"Yes.", b"No!!"))

    with pytest.raises(FixtureIntegrityFailed):
        library.document(f"calls/{spoiled['id']}")
    with pytest.raises(FixtureIntegrityFailed):
        library.document(f"raw/{spoiled['id']}")

    again = library_of(tmp_path)
    assert sorted(row["question"] for row in store_of(again)["calls"]) == ["one", "three"]
    assert [spoiled["path"] in text for text in store_of(again)["findings"]] == [True]
    assert again.document(f"raw/{spoiled['id']}") is None


@pytest.mark.parametrize(
    "layout",
    [{"is_sharded": True}, {"is_flat": True}, {"has_keys": False}],
    ids=lambda layout: next(iter(layout)),
)
def test_every_layout_of_a_store_can_be_looked_at(tmp_path: Path, layout: dict[str, Any]) -> None:
    """Also one by crtx-llm, which does not say what was asked."""
    builder = StoreBuilder(tmp_path, **layout)
    builder.add("one", "Yes.")
    builder.add_fixture(Fixture(FixtureKey(MODEL, "a" * 64), (Answer("Only\nan answer."),)))
    builder.write()
    library = library_of(tmp_path)

    assert sorted((row["question"], row["answer"]) for row in store_of(library)["calls"]) == [
        ("", "Only"),
        ("one", "Yes."),
    ]
    assert [
        wrong
        for name, document in library.all()
        for wrong in misfits(document, SHAPES[name.partition("/")[0]])
    ] == []


def test_an_empty_store_has_an_empty_page(tmp_path: Path) -> None:
    Store.create(tmp_path)

    assert [name for name, _ in library_of(tmp_path).all()] == ["page", "store", "texts"]


def test_the_next_document_is_of_the_store_as_it_is_then(tmp_path: Path) -> None:
    root = make_store(tmp_path / "llm")
    library = library_of(root)
    before = library.read()
    assert library.read() is before
    assert library.document("search", "q=brand+new") == {"found": [], "is_cut": False}
    store = Store.open(root)
    store.add(fixture_of("A brand new question?"))
    store.commit()

    assert len(store_of(library)["calls"]) == len(before.files) + 1
    assert len(library.document("search", "q=brand+new")["found"]) == 2  # type: ignore[index]


def test_a_story_finds_the_calls_of_servers_that_its_answers_made(tmp_path: Path) -> None:
    """The same ones as a look through all of them."""
    asyncio.run(scenario.record(tmp_path))
    library = library_of(tmp_path)
    [run] = store_of(library)["runs"]
    story: Any = library.document(f"stories/{run['id']}")
    store = Store.open(tmp_path)
    told = tell_story(read_calls(store).calls, read_mcp_calls(store))

    assert [
        [tool["made"] for tool in step["tools"]] for step in story["steps"] if step["kind"] == "model"
    ] == [
        [None if use.made is None else call_id(use.made.path) for use in step.uses]
        for step in told.model_steps
    ]
    assert any(tool["made"] for step in story["steps"] for tool in step["tools"])


def test_a_run_chooses_what_is_shown(root: Path) -> None:
    chosen = library_of(root, TEST)

    assert [row["question"] for row in store_of(chosen)["calls"]] == ["What is the weather in Oslo?"]
    assert len([name for name, _ in chosen.all() if name.startswith("calls/")]) == 1
    with pytest.raises(UnknownRun):
        library_of(root, "tests/nothing").read()


def test_old_and_unused_recordings_are_marked(root: Path) -> None:
    keys = {row["question"]: row["key"] for row in store_of(library_of(root))["calls"]}
    unused = frozenset([(MODEL, keys["Count."], "")])
    looked_at = LookedAt(unused=unused, unused_calls=frozenset())
    rows = store_of(library_of(root, looked_at=looked_at, max_age_days=0.0))["calls"]

    assert {row["question"]: row["is_unused"] for row in rows if row["kind"] != "exchange"} == {
        "What is the weather in Oslo?": False,
        "Count.": True,
        CLEAN: False,
        'read_file(path="a.txt")': False,
    }
    assert [row["is_old"] for row in rows] == [row["at"] is not None for row in rows]
    assert not any(row["is_old"] for row in store_of(library_of(root))["calls"])


def test_what_was_asked_for_opens_in_front(root: Path) -> None:
    shelf = Shelf("A title", "1.2", {"report": lambda: {"text": SECRET}})
    library = library_of(root, shelf=shelf)

    assert library.page(is_file=True)["screens"] == ["run", "store", "conversation"]
    assert library.document("report") == {"text": "[REDACTED:known-value]"}


def test_an_index_of_the_same_size_is_another_index(tmp_path: Path) -> None:
    """One answer takes the place of another: the index has other hashes, and not one byte more."""
    store = Store.create(tmp_path)
    store.add(fixture_of("What is it?", Answer("first")))
    store.commit()
    index = tmp_path / "INDEX.toml"
    library, size = library_of(tmp_path), index.stat().st_size
    assert "first" in json.dumps(library.document("texts"))

    store.replace(fixture_of("What is it?", Answer("other")))
    store.commit()

    assert index.stat().st_size == size
    assert "other" in json.dumps(library.document("texts"))
