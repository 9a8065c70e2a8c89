"""A request that is put together is trusted by the same rules as one that stands in its file whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from cortex_replay import FixtureIntegrityFailed, LlmRequest, Store, blake3_hex
from cortex_replay.errors import Finding
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.fixture import Answer, Fixture, RequestLink
from cortex_replay.store.fixture_json import FixtureError, parse_fixture, render_document, render_fixture
from cortex_replay.store.index.index import (
    FixtureRow,
    Index,
    IndexSyntaxError,
    PartRow,
    ScopedRow,
    parse_index,
)
from cortex_replay.store.index.named_file import NamedFile
from cortex_replay.store.requests import links as links_module
from cortex_replay.store.requests.links import Links, sort_by_links
from cortex_replay.store.trust import MAX_PART_BYTES, Layout, Untrusted, trust_content, trust_part, trust_rows
from tests.builder import StoreBuilder
from tests.store.conversations import MODEL, commit, index_of, put_index, rewrite, turns, without_part

BIG = "You know a lot. " * 200
TOOLS = [{"name": "look", "description": "d" * 3000}]
TURNS = turns(4, system=BIG, tools=TOOLS)
HEX = "0123456789abcdef" * 4

Document = dict[str, Any]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Four turns: the first has two parts, each of the others continues the one before."""
    store = Store.create(tmp_path / "store")
    commit(store, *TURNS)
    return store


def findings(root: Path) -> list[Finding]:
    return check_store(DirectorySource(root)).findings


def codes(root: Path) -> list[str]:
    return [finding.code for finding in findings(root)]


def refusal(root: Path, number: int, verify: Literal["full", "on-read"] = "on-read") -> str:
    """The code with which a turn is refused."""
    with pytest.raises(FixtureIntegrityFailed) as caught:
        Store.open(root, verify=verify).get(*TURNS[number].key)
    return caught.value.issues[0].code


def test_what_is_put_together_is_what_was_recorded(store: Store) -> None:
    """In full and on read, in any order."""
    assert findings(store.root) == []
    for verify in ("full", "on-read"):
        opened = Store.open(store.root, verify=verify)
        assert [opened.get(*turn.key) for turn in reversed(TURNS)] == TURNS[::-1]


def test_a_conversation_that_goes_on_in_several_ways(store: Store) -> None:
    """What one way adds is no part of another: neither in a check, nor when they are served."""
    said = [message.to_dict() for message in TURNS[1].request.messages] if TURNS[1].request else []
    ways = [
        Fixture.of(
            LlmRequest.from_dict(
                {
                    "model": MODEL,
                    "max_tokens": 16,
                    "system": BIG,
                    "tools": TOOLS,
                    "messages": [
                        *said,
                        {"role": "assistant", "content": "so"},
                        {"role": "user", "content": way},
                    ],
                }
            ),
            Answer(way),
        )
        for way in ("left", "right", "back")
    ]
    commit(store, *ways)
    assert {
        row.continues for row in index_of(store.root).fixtures if row.prompt_hash in {w.key[1] for w in ways}
    } == {TURNS[1].key.prompt_hash}

    assert findings(store.root) == []
    for verify in ("full", "on-read"):
        opened = Store.open(store.root, verify=verify)
        for order in (ways, ways[::-1], TURNS):
            assert [opened.get(*one.key) for one in order] == order


def nothing(_: Document) -> None:
    """Leave the file as it is."""


def other_parent(prompt_hash: str) -> Callable[[Document], object]:
    return lambda document: document["request"].update(continues=prompt_hash)


def in_row(prompt_hash: str | None) -> Callable[[FixtureRow], FixtureRow]:
    return lambda row: row._replace(continues=prompt_hash)


def to_whole(document: Document) -> None:
    document["request"] = TURNS[2].request.to_dict()  # type: ignore[union-attr]


def cut_secret(document: Document) -> None:
    document["meta"] = {"redactions": [{"kind": "value", "where": "request", "count": 1}]}


def change_word(document: Document) -> None:
    document["request"]["messages"][-1]["content"] = "another question"


def swap_parts(document: Document) -> None:
    """Each field is said to stand in the part that has the other one."""
    parts = document["request"]["parts"]
    document["request"]["parts"] = dict(zip(parts, reversed(parts.values()), strict=True))


def drop_request(document: Document) -> None:
    del document["request"]


@pytest.mark.parametrize(
    ("number", "change", "row", "code"),
    [
        pytest.param(2, other_parent(HEX), in_row(HEX), "link-broken", id="not-recorded"),
        pytest.param(
            2,
            other_parent(TURNS[2].key.prompt_hash),
            in_row(TURNS[2].key.prompt_hash),
            "link-broken",
            id="itself",
        ),
        pytest.param(
            1,
            lambda document: document.update(request={"continues": TURNS[3].key.prompt_hash, "messages": []}),
            in_row(TURNS[3].key.prompt_hash),
            "link-broken",
            id="circle",
        ),
        pytest.param(2, nothing, in_row(None), "link-broken", id="row-without"),
        pytest.param(2, nothing, in_row(TURNS[0].key.prompt_hash), "link-broken", id="row-with-another"),
        pytest.param(2, to_whole, in_row(TURNS[1].key.prompt_hash), "link-broken", id="row-of-a-whole-one"),
        pytest.param(
            2,
            other_parent(TURNS[0].key.prompt_hash),
            in_row(TURNS[0].key.prompt_hash),
            "request-mismatch",
            id="other-parent",
        ),
        pytest.param(2, change_word, in_row(TURNS[1].key.prompt_hash), "request-mismatch", id="other-words"),
        pytest.param(2, cut_secret, in_row(TURNS[1].key.prompt_hash), "link-broken", id="redacted-child"),
        pytest.param(0, cut_secret, in_row(None), "link-broken", id="redacted-parent"),
        pytest.param(0, drop_request, in_row(None), "link-broken", id="parent-without-request"),
        pytest.param(0, swap_parts, in_row(None), "link-broken", id="parts-without-these-fields"),
        pytest.param(
            2,
            lambda document: document["request"].update(system="Be long."),
            in_row(TURNS[1].key.prompt_hash),
            "fixture-invalid",
            id="further-field",
        ),
        pytest.param(
            2,
            lambda document: document["request"].pop("messages"),
            in_row(TURNS[1].key.prompt_hash),
            "fixture-invalid",
            id="no-messages",
        ),
        pytest.param(
            2, other_parent("A" * 64), in_row(TURNS[1].key.prompt_hash), "hash-spelling", id="spelling"
        ),
    ],
)
def test_a_broken_link_is_found(
    store: Store,
    number: int,
    change: Callable[[Document], object],
    row: Callable[[FixtureRow], FixtureRow],
    code: str,
) -> None:
    """By a check of everything, and when what hangs on it is first served. The rest is served."""
    rewrite(store.root, store.path(*TURNS[number].key), change, row)

    assert code in codes(store.root)
    assert refusal(store.root, 3) == code
    with pytest.raises(FixtureIntegrityFailed):
        Store.open(store.root)
    if number == 2:
        assert Store.open(store.root, verify="on-read").get(*TURNS[1].key) == TURNS[1]


def test_a_parent_of_another_model_is_none(store: Store) -> None:
    """Two models have one prompt hash for one request: the model of the child counts."""
    first = TURNS[0]
    other = LlmRequest.from_dict({**first.request.to_dict(), "model": "other"})  # type: ignore[union-attr]
    assert other.prompt_hash() == first.key.prompt_hash
    commit(store, Fixture.of(other, Answer("hm")))
    index = index_of(store.root)
    gone = next(row for row in index.fixtures if (row.model, row.prompt_hash) == first.key)
    (store.root / gone.path).unlink()
    index.fixtures.remove(gone)
    put_index(store.root, index)

    assert refusal(store.root, 1) == "link-broken"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda part: part.update(tools=[]), "fixture-invalid"),
        (lambda part: part.update(system=1), "link-broken"),
        (lambda part: (part.clear(), part.update(tools=[])), "link-broken"),
        (lambda part: part.update(system="Be bold."), "request-mismatch"),
        (lambda part: (part.clear(), part.update(messages=[])), "fixture-invalid"),
    ],
)
def test_a_part_is_one_field_and_the_right_one(
    store: Store, change: Callable[[Document], object], code: str
) -> None:
    """Also if the fixture names it by its right hash."""
    part = next(row for row in index_of(store.root).parts if "system" in row.path)
    rewrite(store.root, part.path, change)
    now = next(row for row in index_of(store.root).parts if row.path == part.path)
    first = store.path(*TURNS[0].key)
    rewrite(store.root, first, lambda document: document["request"]["parts"].update(system=now.blake3))

    assert refusal(store.root, 0) == refusal(store.root, 3) == code
    assert code in codes(store.root)


def test_a_part_has_a_size_that_many_can_name() -> None:
    """Whatever the index says of it."""
    data = render_document({"system": "x" * MAX_PART_BYTES})

    with pytest.raises(Untrusted) as refusal:
        trust_part(PartRow("fixtures/parts/p.json", blake3_hex(data)), data)
    assert refusal.value.finding.code == "too-large"


def test_a_part_that_is_not_there_or_not_listed_or_has_other_bytes(store: Store) -> None:
    """Each is found, wherever it is needed."""
    index = index_of(store.root)
    part = index.parts[0]
    data = (store.root / part.path).read_bytes()

    (store.root / part.path).write_bytes(data.replace(b"k", b"K", 1))
    assert refusal(store.root, 3) == "mismatch"
    assert codes(store.root) == ["mismatch"]

    (store.root / part.path).unlink()
    with pytest.raises(FixtureIntegrityFailed):
        Store.open(store.root, verify="on-read")
    assert codes(store.root) == ["missing"]

    put_index(store.root, without_part(index, part))
    assert refusal(store.root, 3) == "link-broken"
    (store.root / part.path).write_bytes(data)
    assert set(codes(store.root)) == {"unlisted", "link-broken"}


def test_a_parent_that_changed_on_disk_serves_nobody(store: Store) -> None:
    """Not what continues it, either: opened before, read after. It is one finding, not one per child."""
    opened = Store.open(store.root, verify="on-read")
    path = store.root / store.path(*TURNS[1].key)
    path.write_bytes(path.read_bytes().replace(b"question 1", b"question 7"))

    with pytest.raises(FixtureIntegrityFailed) as caught:
        opened.get(*TURNS[3].key)
    assert caught.value.issues[0].code == "mismatch"
    assert [(finding.code, finding.path) for finding in findings(store.root)] == [
        ("mismatch", store.path(*TURNS[1].key))
    ]


def test_a_parent_that_was_recorded_again_meanwhile(store: Store) -> None:
    """Its file has another name now, and what continues it is the same."""
    opened = Store.open(store.root, verify="on-read")
    store.replace(Fixture.of(TURNS[1].request, Answer("another")))  # type: ignore[arg-type]
    store.commit()

    assert opened.get(*TURNS[2].key) == TURNS[2]


@pytest.mark.parametrize(
    "row",
    [
        '[[exchange]]\npath = "fixtures/e.json"\nblake3 = "{0}"\nkey = "{0}"\ncontinues = "{0}"\n',
        '[[part]]\npath = "fixtures/e.json"\nblake3 = "{0}"\ncontinues = "{0}"\n',
    ],
)
def test_only_a_fixture_continues_another(row: str) -> None:
    """In the index, too."""
    with pytest.raises(IndexSyntaxError, match="not that of a fixture"):
        parse_index(row.format(HEX))


@pytest.mark.parametrize(
    "index",
    [
        Index(scoped=[ScopedRow("fixtures/e.json", HEX, key=HEX, scope="s", continues=HEX)]),
        Index(scoped=[ScopedRow("fixtures/e.json", HEX, "m", HEX, n="1", scope="s", continues=HEX)]),
        Index([FixtureRow("fixtures/f.json", HEX, "m", HEX, "x")]),
        Index([FixtureRow("fixtures/f.json", HEX, None, None, HEX)]),
    ],
)
def test_rows_that_cannot_be_meant(index: Index) -> None:
    """Exchanges of scopes, a hash that is none, a fixture without a key of its own."""
    assert [finding.code for finding in trust_rows(index, Layout.NESTED)] == ["key-spelling"]


@pytest.mark.parametrize(
    "request_",
    [
        {"continues": None, "messages": []},
        {"continues": HEX, "messages": "hello"},
        {"continues": HEX, "messages": [{"role": "user"}]},
        {"continues": HEX, "messages": [], "parts": {}},
        {"messages": [], "parts": {}},
        {"messages": [], "parts": {"system": 1}},
        {"messages": [], "parts": {"messages": HEX}},
        {"messages": [], "system": "s", "parts": {"system": HEX}},
        {"messages": [], "other": 1, "parts": {"system": HEX}},
        {"parts": [HEX]},
    ],
)
def test_requests_that_are_neither_whole_nor_linked(request_: Document) -> None:
    """Half of a form is none."""
    document = json.loads(render_fixture(TURNS[0])) | {"request": request_}

    with pytest.raises(FixtureError):
        parse_fixture(json.dumps(document).encode())


def test_a_system_message_may_be_the_first_that_is_new(tmp_path: Path) -> None:
    """Only a conversation cannot start with one."""
    messages = [{"role": role, "content": role} for role in ("user", "assistant", "system", "user")]
    requests = [LlmRequest.from_dict({"model": MODEL, "messages": messages[:count]}) for count in (2, 4)]
    store = Store.create(tmp_path / "store")
    commit(store, *(Fixture.of(request, Answer("a")) for request in requests))

    assert store.get(MODEL, requests[1].prompt_hash()).request == requests[1]
    assert index_of(store.root).fixtures[0].continues or index_of(store.root).fixtures[1].continues


def test_a_very_long_conversation(tmp_path: Path) -> None:
    """Depth is no call stack, each message is hashed once, and each file is read once."""
    count = 3_000
    builder = StoreBuilder(tmp_path / "store")
    request = LlmRequest(model=MODEL)
    hasher, before = request.hasher(), None
    message = LlmRequest(model=MODEL, messages="go on").messages[0]
    for _ in range(count):
        hasher.add(message)
        key = (MODEL, hasher.prompt_hash())
        if before is None:
            fixture = Fixture(key, (Answer("a"),), request.continue_with((message,)))  # type: ignore[arg-type]
        else:
            fixture = Fixture(key, (Answer("a"),), link=RequestLink(before, (message,)))  # type: ignore[arg-type]
        builder.add_fixture(fixture)
        builder.fixtures[-1] = builder.fixtures[-1]._replace(continues=before)
        before = key[1]
    index = Index(builder.fixtures)
    reads: list[str] = []

    def read(file: NamedFile) -> bytes:
        reads.append(file.path)
        return builder.files[file.path]

    links = Links.of(index, read)
    for row in sort_by_links(index.rows):
        assert isinstance(row, FixtureRow)
        links.check(row, parse_fixture(builder.files[row.path]))
    assert len(reads) == 1

    reads.clear()
    links = Links.of(index, read)
    # In any order: those on the way to one that is remembered are remembered with it.
    for length in (count, 1_000, 10, 1_001, 1_000):
        row = builder.fixtures[length - 1]
        whole = links.complete(row, parse_fixture(builder.files[row.path]))
        assert whole.request is not None
        assert len(whole.request.messages) == length
        assert len(reads) == count - 1


@pytest.mark.parametrize("number", [0, 20])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_long_conversation_that_is_broken_is_gone_over_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_gone: bool
) -> None:
    """A stranger's repository has no check take the square of its size."""
    talk = turns(40)
    store = Store.create(tmp_path / "store")
    commit(store, *talk)
    index = index_of(store.root)
    [broken] = [row for row in index.fixtures if row.prompt_hash == talk[number].key.prompt_hash]
    if is_gone:
        rest = [row for row in index.fixtures if row != broken]
        put_index(store.root, Index(rest, index.exchanges, index.header))
        (store.root / broken.path).unlink()
    else:
        rewrite(store.root, broken.path, lambda said: said["request"]["messages"][0].update(content="?"))
    read: list[str] = []

    def note(row: FixtureRow, data: bytes) -> Fixture:
        read.append(row.path)
        return trust_content(row, data)

    monkeypatch.setattr(links_module, "trust_content", note)

    assert {*codes(store.root)} == {"link-broken" if is_gone else "request-mismatch"}
    assert len(read) <= 3 * len(talk)


def test_few_requests_are_remembered(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    """What is forgotten is read again."""
    monkeypatch.setattr(links_module, "_MOST_KNOWN", 1)

    opened = Store.open(store.root, verify="on-read")
    assert [opened.get(*turn.key) for turn in TURNS] == TURNS
    assert findings(store.root) == []
