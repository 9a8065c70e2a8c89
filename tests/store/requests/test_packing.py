"""What a commit writes of a conversation, and that nothing of it is lost whatever goes or changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cortex_replay import LlmRequest, Store, blake3_hex
from cortex_replay.canonical import JsonValue
from cortex_replay.store.changes import fixture_path
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.index.index import Index, ScopedRow
from cortex_replay.store.lock import LockedStore
from cortex_replay.store.requests import packing
from cortex_replay.store.requests.forms import shorten
from cortex_replay.store.trust import MAX_PART_BYTES
from tests.builder import StoreBuilder
from tests.store.conversations import MODEL, commit, document, index_of, put_index, turns

TURNS = turns(5)
LARGE = "s" * 2047
TOOLS = [{"name": "look", "description": "d" * 3000}]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def parents(store: Store) -> list[int | None]:
    """Which turn each turn continues, as rows and files say it."""
    numbers = {turn.key.prompt_hash: number for number, turn in enumerate(TURNS)}
    rows = {row.prompt_hash: row.continues for row in index_of(store.root).fixtures}
    found: list[int | None] = []
    for turn in TURNS:
        if turn.key.prompt_hash in rows:
            continues = rows[turn.key.prompt_hash]
            assert document(store, turn)["request"].get("continues") == continues
            found.append(None if continues is None else numbers[continues])
    return found


def assert_sound(store: Store, *fixtures: Fixture) -> None:
    """Every reader gets just these, with their whole requests."""
    assert check_store(DirectorySource(store.root)).findings == []
    for verify in ("full", "on-read"):
        opened = Store.open(store.root, verify=verify)
        assert [opened.get(*fixture.key) for fixture in fixtures] == list(fixtures)
        assert len(opened) == len(fixtures)
    files = {path.relative_to(store.root).as_posix() for path in (store.root / "fixtures").rglob("*.json")}
    assert files == {row.path for row in index_of(store.root).rows}


def again(turn: Fixture, text: str) -> Fixture:
    """Another answer to the same."""
    return replace(turn, answers=(Answer(text),))


def numbered(turn: Fixture, ids: str) -> Fixture:
    """The same turn, as a client asked for it that makes up other ids of tool calls."""
    request = turn.request
    assert request is not None
    data = json.dumps(request.to_dict()).replace("call-", f"{ids}-")
    other = Fixture.of(LlmRequest.from_dict({"model": MODEL, **json.loads(data)}), *turn.answers)
    assert other.key == turn.key
    return other


def test_a_turn_holds_what_is_new(store: Store) -> None:
    """Whatever the order in which one commit gets them."""
    commit(store, *reversed(TURNS))

    assert parents(store) == [None, 0, 1, 2, 3]
    assert [len(document(store, turn)["request"]["messages"]) for turn in TURNS] == [1, 3, 3, 3, 3]
    assert_sound(store, *TURNS)


def test_turns_that_come_one_by_one(store: Store) -> None:
    """In commits of their own, by stores of their own."""
    for turn in TURNS:
        commit(Store.open(store.root, verify="on-read"), turn)

    store = Store.open(store.root)
    assert parents(store) == [None, 0, 1, 2, 3]
    assert_sound(store, *TURNS)


def test_what_came_before_its_parent_stays_as_it_is(store: Store) -> None:
    """A committed file is not touched. What comes later continues the longest that is there."""
    commit(store, TURNS[2])
    commit(store, TURNS[0], TURNS[1])
    commit(store, TURNS[4])

    assert parents(store) == [None, 0, None, 2]
    assert_sound(store, *TURNS[:3], TURNS[4])


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"system": "Be long."},
        {"max_tokens": 17},
        {"temperature": 0.5},
        {"tools": TOOLS},
        {"seed": 1},
    ],
)
def test_only_the_same_request_is_continued(store: Store, change: dict[str, object]) -> None:
    """Of the same model, with the same system text, tools and parameters."""
    request = TURNS[1].request
    assert request is not None
    other = LlmRequest.from_dict({"model": MODEL, **request.to_dict(), **change})
    commit(store, TURNS[0], Fixture.of(other, Answer("a")))

    assert all(row.continues is None for row in index_of(store.root).fixtures)
    assert_sound(store, TURNS[0], Fixture.of(other, Answer("a")))


def test_other_ids_of_tool_calls_are_no_prefix(store: Store) -> None:
    """One key stands for both. What is read back has the ids with which it was recorded."""
    other = numbered(TURNS[3], "own")
    commit(store, *TURNS[:3], other)

    assert document(store, other)["request"]["continues"] == TURNS[0].key.prompt_hash
    assert_sound(store, *TURNS[:3], other)


def test_another_order_of_fields_is_no_prefix(store: Store) -> None:
    """It has the same key, and would come back in another order."""
    tools = {"name": "look", "strict": True}
    first, second = turns(2, tools=[tools]), turns(2, tools=[dict(reversed(tools.items()))])
    assert first[0].key == second[0].key
    commit(store, first[0], second[1])

    assert all(row.continues is None for row in index_of(store.root).fixtures)
    assert render_fixture(store.get(*second[1].key)) == render_fixture(second[1])


def test_a_request_that_a_secret_was_cut_out_of(store: Store) -> None:
    """Neither continues another nor is continued."""
    redacted: dict[str, JsonValue] = {"redactions": [{"kind": "value", "where": "request", "count": 1}]}
    for number in (0, 2):
        commit(store, replace(TURNS[number], meta=redacted))
    commit(store, TURNS[1], TURNS[3])

    assert parents(store) == [None, None, None, 1]
    assert_sound(
        store, replace(TURNS[0], meta=redacted), TURNS[1], replace(TURNS[2], meta=redacted), TURNS[3]
    )


def test_a_file_that_we_would_not_write_so_stays_as_it_is() -> None:
    """Or nobody could turn it back."""
    data = render_fixture(TURNS[1]).replace(b"\n", b"\n ")
    requests = {TURNS[0].key: TURNS[0].request}

    assert shorten(TURNS[1], data, requests.get).data == data
    assert shorten(TURNS[1], render_fixture(TURNS[1]), requests.get).continues == TURNS[0].key.prompt_hash


def test_large_texts_stand_in_parts_once(store: Store) -> None:
    """Of requests that continue none; up to 2 KiB they stay where they are."""
    small = [turns(1, system=LARGE[:2046])[0], turns(1, system="x")[0]]
    large = [turns(2, system=LARGE, tools=TOOLS, seed=seed)[0] for seed in range(3)]
    commit(store, *small, *large[:2])
    commit(Store.open(store.root), large[2])
    store = Store.open(store.root)

    assert sorted(row.path.split("-")[0] for row in index_of(store.root).parts) == [
        "fixtures/parts/system",
        "fixtures/parts/tools",
    ]
    assert all("parts" not in document(store, one)["request"] for one in small)
    assert all(document(store, one)["request"]["parts"].keys() == {"system", "tools"} for one in large)
    assert_sound(store, *small, *large)


def test_of_a_conversation_with_parts_only_the_first_turn_names_them(store: Store) -> None:
    """The others have them from there."""
    talk = turns(3, system=LARGE, tools=TOOLS)
    commit(store, *talk)

    assert ["parts" in document(store, turn)["request"] for turn in talk] == [True, False, False]
    assert_sound(store, *talk)


def test_what_is_too_large_for_a_part_stays_where_it_is(store: Store) -> None:
    """Else one file could make the check of thousands of small ones take hours."""
    request = LlmRequest(MODEL, "x" * MAX_PART_BYTES, "What?")
    commit(store, Fixture.of(request, "That."))

    assert index_of(store.root).parts == []
    assert Store.open(store.root).get(MODEL, request.prompt_hash()).request == request


def test_two_writers_write_a_part_once(store: Store) -> None:
    """Who comes second finds it listed."""
    one, two = Store.open(store.root), Store.open(store.root)
    talks = [turns(1, system=LARGE, seed=seed)[0] for seed in range(2)]
    for writer, talk in zip((one, two), talks, strict=True):
        writer.add(talk)
    one.commit()
    two.commit()

    assert len(index_of(store.root).parts) == 1
    assert_sound(Store.open(store.root), *talks)


def test_what_loses_its_parent_gets_another_or_becomes_whole(store: Store) -> None:
    """A turn in the middle goes, then the first one."""
    commit(store, *TURNS)
    store.remove(*TURNS[2].key)
    store.commit()
    assert parents(store) == [None, 0, 1, 3]
    assert_sound(store, *TURNS[:2], *TURNS[3:])

    store.remove(*TURNS[0].key)
    store.commit()
    assert parents(store) == [None, 1, 3]
    assert_sound(store, TURNS[1], *TURNS[3:])


def test_all_but_the_last_turn_go_at_once(store: Store) -> None:
    """It is whole then, with the parts that the first one had named."""
    talk = turns(4, system=LARGE, tools=TOOLS)
    commit(store, *talk)
    for turn in talk[:3]:
        store.remove(*turn.key)
    store.commit()

    assert document(store, talk[3])["request"]["parts"].keys() == {"system", "tools"}
    assert_sound(store, talk[3])


def test_every_orphan_of_a_large_commit_becomes_whole(store: Store) -> None:
    """In whatever order a commit goes over its keys: others come, go or change, and leave no orphan."""
    lost, answered, lone = ([turns(2, system=f"{kind} {n}") for n in range(6)] for kind in ("a", "b", "c"))
    commit(store, *(turn for talk in (*lost, *answered, *lone) for turn in talk))
    for n in range(6):
        store.remove(*lost[n][0].key)
        store.replace(again(answered[n][0], "another"))
        store.remove(*lone[n][1].key)
    new = [turns(1, system=f"d {n}")[0] for n in range(6)]
    commit(store, *new)

    kept = [turn for talk in answered for turn in (again(talk[0], "another"), talk[1])]
    assert_sound(store, *(talk[1] for talk in lost), *kept, *(talk[0] for talk in lone), *new)


def test_another_answer_to_a_parent_changes_nothing_else(store: Store) -> None:
    """It is continued by what was asked."""
    commit(store, *TURNS)
    before = {turn.key: store.path(*turn.key) for turn in TURNS}
    store.replace(again(TURNS[1], "another"))
    store.commit()

    assert [turn.key for turn in TURNS if store.path(*turn.key) != before[turn.key]] == [TURNS[1].key]
    assert_sound(store, TURNS[0], again(TURNS[1], "another"), *TURNS[2:])


def test_a_parent_that_comes_back_with_other_ids(store: Store) -> None:
    """What continued it keeps the ids that it was recorded with: its own new messages may name them."""
    commit(store, *TURNS[:4])
    other = numbered(again(TURNS[2], "another"), "own")
    store.replace(other)
    store.commit()

    assert document(store, TURNS[3])["request"]["continues"] == TURNS[1].key.prompt_hash
    assert_sound(store, *TURNS[:2], other, TURNS[3])


def test_a_parent_that_loses_its_request(store: Store) -> None:
    """Whoever continued it can no longer."""
    commit(store, *TURNS[:2])
    bare = replace(again(TURNS[0], "another"), request=None)
    store.replace(bare)
    store.commit()

    assert document(store, TURNS[1])["request"].keys() == {"system", "messages", "temperature", "max_tokens"}
    assert_sound(store, bare, TURNS[1])


def test_the_same_file_comes_back_in_one_commit(store: Store) -> None:
    """It is neither written nor removed."""
    commit(store, *TURNS[:3])
    before = (store.root / "INDEX.toml").read_bytes()
    store.remove(*TURNS[1].key)
    store.add(TURNS[1])
    summary = store.commit()

    assert summary.removed == []
    assert (store.root / "INDEX.toml").read_bytes() == before
    assert_sound(store, *TURNS[:3])


def test_a_file_that_is_there_already_outlives_a_failed_commit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What becomes whole may be what a scope has: it is not written, so it is not taken back, either."""
    commit(store, *TURNS[:2])
    data = render_fixture(TURNS[1])
    row = ScopedRow("", blake3_hex(data), *TURNS[1].key, scope="mine")
    row = row._replace(path=fixture_path(store.layout, TURNS[1].key, row.blake3))
    (store.root / row.path).write_bytes(data)
    index = index_of(store.root)
    put_index(store.root, Index(index.fixtures, scoped=[row]))
    store = Store.open(store.root)
    store.remove(*TURNS[0].key)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(LockedStore, "put_index", fail)
        with pytest.raises(Exception, match="No space left"):
            store.commit()
    assert Store.open(store.root).get(*TURNS[1].key, "mine") == TURNS[1]
    store.commit()
    assert {one.path for one in index_of(store.root).rows} == {row.path}
    assert_sound(store, TURNS[1])


def test_answers_of_scopes_continue_what_is_there(store: Store) -> None:
    """Each scope has its own; the parent may be shared, or of any scope."""
    mine = [replace(turn, answers=(Answer(f"mine {number}"),)) for number, turn in enumerate(TURNS[:3])]
    mine = [replace(turn, meta={"scope": "mine"}) for turn in mine]
    commit(store, *TURNS[:3])
    for turn in mine:
        store.add(turn, scope="mine")
    store.commit()
    assert [store.get(*turn.key, "mine") for turn in mine] == mine
    assert document(store, mine[2], "mine")["request"]["continues"] == TURNS[1].key.prompt_hash

    for turn in TURNS[:2]:  # the shared ones; those of the scope stay, and are what is continued now
        store.remove(*turn.key)
    store.commit()
    opened = Store.open(store.root)
    assert [opened.get(*turn.key, "mine") for turn in mine] == mine
    assert opened.get(*TURNS[2].key) == TURNS[2]

    for turn in mine:
        opened.remove(*turn.key, "mine")
    opened.commit()
    assert_sound(opened, TURNS[2])


def test_a_pin_names_the_short_form(store: Store) -> None:
    """Also if another process wrote it down."""
    commit(store, *TURNS[:2])
    store.pin("mine", *TURNS[1].key)
    store.commit()
    writer = Store.open(store.root)
    writer.pin("theirs", *TURNS[1].key)
    writer._writer.abandon()
    store.adopt_abandoned()
    store.commit()

    assert {row.continues for row in index_of(store.root).scoped} == {TURNS[0].key.prompt_hash}
    assert len(index_of(store.root).scoped) == 2
    assert check_store(DirectorySource(store.root)).findings == []


def test_a_pin_holds_if_the_file_changes_its_form_meanwhile(store: Store) -> None:
    """The parent goes, so the turn is written whole: at another path, with another hash."""
    commit(store, *TURNS[:2])
    writer = Store.open(store.root)
    writer.pin("theirs", *TURNS[1].key)
    store.remove(*TURNS[0].key)
    store.commit()
    writer.commit()

    shared = index_of(store.root).fixtures[0]
    assert shared.continues is None
    assert [(row.scope, row.blake3) for row in index_of(store.root).scoped] == [("theirs", shared.blake3)]
    assert check_store(DirectorySource(store.root)).findings == []


def test_a_flat_store(tmp_path: Path) -> None:
    """Parts stand in a folder there, as exchanges do."""
    builder = StoreBuilder(tmp_path / "flat", is_flat=True, has_keys=False)
    builder.add("q", "a")
    store = Store.open(builder.write())
    talk = turns(2, system=LARGE)
    commit(store, *talk)
    store.add(replace(again(talk[1], "mine"), meta={"scope": "mine"}), scope="mine")
    store.commit()

    index = index_of(store.root)
    assert [row.path.split("-")[0] for row in index.parts] == ["parts/system"]
    assert all("/" not in row.path for row in index.fixtures)
    assert [row.path.split("/")[0] for row in index.scoped] == ["scopes"]
    assert index.scoped[0].continues == talk[0].key.prompt_hash
    assert check_store(DirectorySource(store.root)).findings == []


def test_what_a_dead_run_staged_is_whole_and_gets_its_form_when_it_is_adopted(store: Store) -> None:
    """Also if the turns before it are another's."""
    commit(store, *TURNS[:2])
    dead = Store.open(store.root)
    for turn in TURNS[2:]:
        dead.add(turn)
    dead._writer.abandon()

    assert store.adopt_abandoned() == 3
    store.commit()
    assert parents(store) == [None, 0, 1, 2, 3]
    assert_sound(store, *TURNS)


def test_a_commit_that_fails_can_be_made_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it stays; what is staged is still whole."""
    commit(store, *TURNS[:2])
    before = sorted(path.name for path in (store.root / "fixtures").rglob("*.json"))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for turn in TURNS[2:]:
        store.add(turn)
    with monkeypatch.context() as patch:
        patch.setattr(LockedStore, "put_index", fail)
        with pytest.raises(Exception, match="No space left"):
            store.commit()
    assert sorted(path.name for path in (store.root / "fixtures").rglob("*.json")) == before
    store.commit()

    assert_sound(store, *TURNS)
    assert store.abandoned().answers == 0


def test_memory_is_that_of_the_text(store: Store) -> None:
    """Requests of one conversation share their messages while they are packed."""
    for turn in turns(30):
        store.add(turn)
    store.commit()
    kept: list[packing._Packer] = []
    original = packing._Packer.finish

    def finish(packer: packing._Packer) -> packing.Packing:
        kept.append(packer)
        return original(packer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing._Packer, "finish", finish)
        commit(store, *turns(30, seed=1))
    requests = [request for request in kept[0]._requests.values() if request is not None]
    messages = {id(message) for request in requests for message in request.messages}
    assert len(messages) == 30 + 2 * 29


def test_what_is_written_is_turned_back_to_the_byte(store: Store) -> None:
    """The file with the whole request is a function of the short one and the store."""
    talk = turns(3, system=LARGE, tools=TOOLS, temperature=0.1, extra={"b": 1, "a": [1.0, 1]})
    commit(store, *talk)

    opened = Store.open(store.root)
    assert [render_fixture(opened.get(*turn.key)) for turn in talk] == [render_fixture(turn) for turn in talk]


def test_a_request_finds_what_it_continues_by_hash() -> None:
    """The prefixes of a request, the longest first, down to none of its messages."""
    request = TURNS[2].request
    assert request is not None
    prefixes = dict(request.prefix_hashes())

    assert list(prefixes) == [6, 5, 4, 3, 2, 1, 0]
    for count, prompt_hash in prefixes.items():
        assert replace(request, messages=request.messages[:count]).prompt_hash() == prompt_hash
    assert FixtureKey(MODEL, prefixes[4]) == TURNS[1].key


def test_a_long_request_finds_also_what_ended_long_ago() -> None:
    """The first look is at the last few messages alone."""
    request = turns(20)[-1].request
    assert request is not None
    prefixes = list(request.prefix_hashes())

    assert [count for count, _ in prefixes] == list(range(len(request.messages) - 1, -1, -1))
    for count, prompt_hash in prefixes:
        assert replace(request, messages=request.messages[:count]).prompt_hash() == prompt_hash
