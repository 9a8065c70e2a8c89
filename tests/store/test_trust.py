"""Each test changes exactly one thing in a sound store and expects exactly one finding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortex_replay import (
    FixtureIntegrityFailed,
    LlmRequest,
    NoFixture,
    Store,
    StoreIo,
    TokenUsage,
    blake3_hex,
)
from cortex_replay.store import trust
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey, TimedChunk
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.index.index import FixtureRow
from cortex_replay.types import StreamChunk, ToolCall, ToolCallDelta
from tests.builder import MODEL, StoreBuilder, ask, fixture_of

KEY = FixtureKey(MODEL, "0" * 64)


def minimal(**changes: object) -> bytes:
    """A fixture as crtx-llm would write it, with some fields changed."""
    document = {"request_match": KEY._asdict(), "response": {"text": "t"}} | changes
    return json.dumps(document).encode()


def only_finding(builder: StoreBuilder) -> str:
    """The code of the one finding, once both ways of opening have refused the store."""
    (finding,) = builder.findings()
    with pytest.raises(FixtureIntegrityFailed) as caught:
        builder.open()
    assert (finding,) == caught.value.issues
    return finding.code


def test_a_sound_store_has_no_finding(builder: StoreBuilder) -> None:
    """It opens both ways and gives what was put in."""
    report = builder.check()
    one = ask("What is one?")

    assert report.is_trusted
    assert report.files_checked == 2
    for store in (Store.open(builder.root), Store.open(builder.root, verify="on-read")):
        assert store.get(*store.key(one)).answers[0].text == "One."
        assert one == store.get(*store.key(one)).request
        assert len(store) == 2
        assert sorted(builder.files) == [stored.path for stored in store.list()]
        assert builder.files[store.list()[0].path] == store.content(*store.list()[0][:2])
        with pytest.raises(NoFixture):
            store.get(MODEL, "0" * 64)


def test_changed_bytes(builder: StoreBuilder) -> None:
    """One byte of one fixture."""
    path = builder.root / next(iter(builder.files))
    path.write_bytes(path.read_bytes().replace(b"One.", b"Two!"))

    assert only_finding(builder) == "mismatch"


@pytest.mark.parametrize("place", [0, 15, 16, 31, 32, 47, 48, 63])
def test_every_digit_of_a_hash_counts(builder: StoreBuilder, place: int) -> None:
    row = builder.fixtures[0]
    digit = "0" if row.blake3[place] != "0" else "1"
    changed = row.blake3[:place] + digit + row.blake3[place + 1 :]
    builder.write_index(builder.index_text().replace(row.blake3, changed))

    assert only_finding(builder) == "mismatch"
    store = Store.open(builder.root, verify="on-read")
    with pytest.raises(FixtureIntegrityFailed, match="its bytes differ"):
        store.content(*store.key(ask("What is one?")))


def test_a_truncated_and_an_extended_file(builder: StoreBuilder) -> None:
    """Length is no hint of truth."""
    path = builder.root / next(iter(builder.files))
    whole = path.read_bytes()
    for data in (whole[:-1], whole + b"\n", b""):
        path.write_bytes(data)
        assert only_finding(builder) == "mismatch"


def test_two_files_swapped(builder: StoreBuilder) -> None:
    """Both are named."""
    one, two = (builder.root / path for path in builder.files)
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)

    assert builder.codes() == ["mismatch", "mismatch"]


def test_a_missing_file(builder: StoreBuilder) -> None:
    """Listed, but gone."""
    (builder.root / next(iter(builder.files))).unlink()

    assert only_finding(builder) == "missing"


@pytest.mark.parametrize(
    "name",
    [
        *("x.json", "x.JSON", ".x.json", "deep/er/x.json", ".hidden/x.json", "sub/schema.json"),
        *(".git/x.json", "deep/.git/x.json", ".cortex-replay/x.json"),
    ],
)
def test_an_unlisted_file(builder: StoreBuilder, name: str) -> None:
    """Anywhere below fixtures/, hidden or not, in any letter case."""
    path = builder.root / "fixtures" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"{}")

    assert only_finding(builder) == "unlisted"


@pytest.mark.parametrize(
    "name", ["fixtures/schema.json", "fixtures/notes.txt", "other.json", "fixtures/x.json.tmp"]
)
def test_files_that_need_not_be_listed(builder: StoreBuilder, name: str) -> None:
    """The schema, other names, and what stands outside fixtures/."""
    (builder.root / name).write_bytes(b"{}")

    assert builder.findings() == []


def test_all_findings_come_in_one_report(builder: StoreBuilder) -> None:
    """Nobody has to repair a store one refusal at a time."""
    first, second = (builder.root / path for path in builder.files)
    first.write_bytes(b"changed")
    second.unlink()
    (builder.root / "fixtures/extra.json").write_bytes(b"{}")

    assert builder.codes() == ["missing", "unlisted", "mismatch"]


def test_the_schema_can_never_be_a_fixture(tmp_path: Path) -> None:
    """In either layout."""
    for is_flat, path in ((True, "schema.json"), (False, "fixtures/schema.json")):
        builder = StoreBuilder(tmp_path / str(is_flat), is_flat=is_flat)
        builder.add_bytes(minimal(), KEY, path)
        builder.write()

        assert only_finding(builder) == "path-reserved"


@pytest.mark.parametrize(
    "path",
    ["../a.json", "fixtures/../a.json", "/a.json", "fixtures//a.json", "fixtures/a\\b.json", "./a.json"],
)
def test_a_path_that_leaves_the_root(builder: StoreBuilder, path: str) -> None:
    """Refused in the index, before anything is opened."""
    row = f'\n[[fixture]]\npath = {json.dumps(path)}\nblake3 = "{"0" * 64}"\n'
    builder.write_index(builder.index_text() + row)

    assert "path-unsafe" in builder.codes()
    with pytest.raises(FixtureIntegrityFailed):
        Store.open(builder.root, verify="on-read")


def test_paths_listed_twice(builder: StoreBuilder) -> None:
    """In the same spelling, or in one that is the same file elsewhere."""
    text = builder.index_text()
    first = next(iter(builder.files))
    row = "\n" + next(block for block in text.split("\n\n") if first in block) + "\n"
    for again in (
        row,
        row.replace("fixtures/", "fixtures/").replace(first, first.upper().replace("FIXTURES", "fixtures")),
    ):
        builder.write_index(text + again)
        assert "path-duplicate" in builder.codes()


def test_a_key_twice(builder: StoreBuilder) -> None:
    """Two answers to one question, found with and without keys in the index."""
    fixture = fixture_of(ask("What is one?"), Answer("Uno."))
    builder.add_fixture(fixture)
    builder.write()
    assert only_finding(builder) == "key-duplicate"

    builder.fixtures = [row._replace(model=None, prompt_hash=None) for row in builder.fixtures]
    builder.write()
    assert only_finding(builder) == "key-duplicate"


def test_a_key_twice_when_only_one_row_says_it(builder: StoreBuilder) -> None:
    """A keyed row and one without a key: the files tell."""
    builder.add_fixture(fixture_of(ask("What is one?"), Answer("Uno.")))
    builder.fixtures[-1] = builder.fixtures[-1]._replace(model=None, prompt_hash=None)
    builder.write()

    assert only_finding(builder) == "key-duplicate"


def test_an_empty_model_is_half_a_key(builder: StoreBuilder) -> None:
    """Empty is not absent."""
    builder.fixtures[0] = builder.fixtures[0]._replace(model="", prompt_hash=None)
    builder.write()

    assert only_finding(builder) == "key-spelling"


def test_hashes_are_spelled_in_one_way(builder: StoreBuilder) -> None:
    """Upper-case hex in the index, in a key of the index, or in a fixture, is refused."""
    text = builder.index_text()
    row = builder.fixtures[0]
    assert row.prompt_hash is not None
    for digest, code in ((row.blake3, "hash-spelling"), (row.prompt_hash, "key-spelling")):
        builder.write_index(text.replace(f'"{digest}"', f'"{digest.upper()}"'))
        assert code in builder.codes()

    builder.write()
    key = FixtureKey(MODEL, "ABCDEF" + "0" * 58)
    builder.has_keys = False
    builder.add_bytes(minimal(request_match=key._asdict()), key)
    builder.write()
    assert only_finding(builder) == "hash-spelling"


def test_a_row_with_half_a_key(builder: StoreBuilder) -> None:
    """A model without a hash, or the other way round, is damage, not an old index."""
    text = builder.index_text()
    builder.write_index(text.replace(f'model = "{MODEL}"\n', "", 1))

    assert only_finding(builder) == "key-spelling"


def test_a_row_with_another_key_than_its_file(builder: StoreBuilder) -> None:
    """Also on read: the row must not answer for another question."""
    first, second = builder.fixtures
    swapped = [first._replace(prompt_hash=second.prompt_hash), second._replace(prompt_hash=first.prompt_hash)]
    builder.fixtures = [first._replace(model="another-model"), second]
    builder.write()
    assert only_finding(builder) == "key-mismatch"

    builder.fixtures = swapped
    builder.write()

    assert builder.codes() == ["key-mismatch", "key-mismatch"]
    store = Store.open(builder.root, verify="on-read")
    with pytest.raises(FixtureIntegrityFailed, match="request_match"):
        store.get(*store.key(ask("What is one?")))


def test_a_request_that_does_not_hash_to_its_key(tmp_path: Path) -> None:
    """A valid answer under another question's key is refused, with keys in the index or without."""
    builder = StoreBuilder(tmp_path)
    other = Fixture(FixtureKey(MODEL, ask("Q").prompt_hash()), (Answer("a"),), ask("another question"))
    builder.add_fixture(other)
    builder.write()

    assert only_finding(builder) == "request-mismatch"


def test_a_request_with_a_secret_cut_out_is_exempt_and_counted(tmp_path: Path) -> None:
    """It cannot hash to its key any more; only a redaction by value in the request exempts."""
    request = ask("my key is [redacted]")
    for meta, codes in (
        ({"redactions": [{"kind": "value", "where": "request", "count": 1}]}, []),
        ({"redactions": [{"kind": "pattern", "where": "request", "count": 1}]}, ["request-mismatch"]),
        ({"redactions": [{"kind": "value", "where": "response", "count": 1}]}, ["request-mismatch"]),
        ({"redactions": "value"}, ["request-mismatch"]),
    ):
        builder = StoreBuilder(tmp_path / str(len(list(tmp_path.iterdir()))))
        builder.add_fixture(Fixture(KEY, (Answer("a"),), request, meta))  # type: ignore[arg-type]
        builder.write()
        report = builder.check()

        assert codes == [finding.code for finding in report.findings]
        assert len(report.redacted_requests) == (not codes)


MALFORMED = {
    "no JSON": (b"{", "json-malformed"),
    "duplicate keys": (minimal().replace(b'"text"', b'"text": "s", "text"'), "json-malformed"),
    "not UTF-8": (minimal().replace(b'"t"', b'"\xff"'), "json-malformed"),
    "an array": (b'[["m", "' + b"0" * 64 + b'"], ["t"]]', "fixture-invalid"),
    "no response": (json.dumps({"request_match": KEY._asdict()}).encode(), "fixture-invalid"),
    "no request_match": (b'{"response": {"text": "t"}}', "fixture-invalid"),
    "no text": (minimal(response={}), "fixture-invalid"),
    "text null": (minimal(response={"text": None}), "fixture-invalid"),
    "text a number": (minimal(response={"text": 5}), "fixture-invalid"),
    "model a number": (minimal(response={"text": "", "model": 5}), "fixture-invalid"),
    "usage an array": (minimal(response={"text": "", "usage": [1, 2]}), "fixture-invalid"),
    "usage incomplete": (minimal(response={"text": "", "usage": {"prompt_tokens": 1}}), "fixture-invalid"),
    "usage negative": (
        minimal(response={"text": "", "usage": {"prompt_tokens": -1, "completion_tokens": 0}}),
        "fixture-invalid",
    ),
    "usage too large": (
        minimal(response={"text": "", "usage": {"prompt_tokens": 2**32, "completion_tokens": 0}}),
        "fixture-invalid",
    ),
    "a tool call without a name": (
        minimal(response={"text": "", "tool_calls": [{"id": "a"}]}),
        "fixture-invalid",
    ),
    "then an object": (minimal(then={}), "fixture-invalid"),
    "then with a bad answer": (minimal(then=[{"response": {"text": "a"}}, {}]), "fixture-invalid"),
    "a stream without times": (minimal(stream=[{"delta": "t"}]), "fixture-invalid"),
    "a stream with negative times": (minimal(stream=[{"at_ms": -1, "delta": "t"}]), "fixture-invalid"),
    "a request with an unknown field": (minimal(request={"messages": [], "topp": 1}), "fixture-invalid"),
    "a request with a model of its own": (minimal(request={"messages": [], "model": "x"}), "fixture-invalid"),
    "a request with a bad role": (
        minimal(request={"messages": [{"role": "hunter2", "content": ""}]}),
        "fixture-invalid",
    ),
    "an unknown field 300 levels deep": (
        minimal()[:-1] + b', "x": ' + b"[" * 300 + b"]" * 300 + b"}",
        "json-malformed",
    ),
    "a request that is a text": (minimal(request="hi"), "fixture-invalid"),
    "meta a list": (minimal(meta=[]), "fixture-invalid"),
    "a wire of an unknown protocol": (
        minimal(wire={"protocol": "telepathy", "status": 200, "body": ""}),
        "wire-undecodable",
    ),
    "a stream that is not the text": (minimal(stream=[{"at_ms": 0, "delta": "x"}]), "stream-mismatch"),
}


@pytest.mark.parametrize(("data", "code"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_listed_file_that_is_no_fixture(tmp_path: Path, data: bytes, code: str) -> None:
    """Its bytes are the listed ones, but they do not say what a fixture must."""
    builder = StoreBuilder(tmp_path)
    builder.add_bytes(data, KEY)
    builder.write()

    assert code == only_finding(builder)
    store = Store.open(builder.root, verify="on-read")
    with pytest.raises(FixtureIntegrityFailed) as caught:
        store.get(*KEY)
    assert [code] == [issue.code for issue in caught.value.issues]


def test_nulls_and_unknown_fields_are_as_in_the_reference(tmp_path: Path) -> None:
    """Null means absent; what is unknown is ignored; an empty model is kept."""
    builder = StoreBuilder(tmp_path)
    response = {
        "text": "t",
        "parsed_json": None,
        "usage": None,
        "model": "",
        "extra": [1],
        "finish_reason": None,
    }
    builder.add_bytes(minimal(response=response, then=None, stream=None, meta=None, v=1), KEY)
    builder.write()
    answer = builder.open().get(*KEY).answers[0]

    assert Answer("t", model="") == answer
    assert answer.response("asked").model == ""


def test_null_and_unknown_fields_of_calls_and_lists(tmp_path: Path) -> None:
    """Null is absent in a stored request too; a call may say more than we know."""
    request = ask("q")
    builder = StoreBuilder(tmp_path)
    stored = request.to_dict() | {"tools": None, "stop": None, "seed": None}
    response = {"text": "", "tool_calls": [{"id": None, "name": "f", "arguments": None, "type": "function"}]}
    match = {"model": MODEL, "prompt_hash": request.prompt_hash()}
    data = minimal(request_match=match, request=stored, response=response)
    builder.add_bytes(data, FixtureKey(MODEL, request.prompt_hash()))
    builder.write()

    assert builder.open().get(*match.values()).answers[0].tool_calls == (ToolCall(name="f"),)


def call(arguments: object = None) -> ToolCall:
    return ToolCall(id="a", name="f", arguments=arguments)  # type: ignore[arg-type]


STREAMS = {
    "other text": Answer("ab", stream=(TimedChunk(0, StreamChunk("a", "stop")),)),
    "other reason": Answer("a", finish_reason="length", stream=(TimedChunk(0, StreamChunk("a", "stop")),)),
    "other reasoning": Answer("a", reasoning="x", stream=(TimedChunk(0, StreamChunk("a", "stop")),)),
    "other tool calls": Answer("a", tool_calls=(call(),), stream=(TimedChunk(0, StreamChunk("a", "stop")),)),
    "other arguments": Answer(
        "",
        tool_calls=(call(1),),
        stream=(TimedChunk(0, StreamChunk("", "stop", (ToolCallDelta(0, "a", "f", "2"),))),),
    ),
    "arguments that only Python takes for equal": Answer(
        "",
        tool_calls=(call({"a": True}),),
        stream=(TimedChunk(0, StreamChunk("", "stop", (ToolCallDelta(0, "a", "f", '{"a": 1}'),))),),
    ),
    "an early end": Answer(
        "ab", stream=(TimedChunk(0, StreamChunk("a", "stop")), TimedChunk(1, StreamChunk("b")))
    ),
}


@pytest.mark.parametrize("answer", STREAMS.values(), ids=STREAMS.keys())
@pytest.mark.parametrize("is_second", [False, True])
def test_a_stream_that_does_not_add_up_to_its_answer(tmp_path: Path, answer: Answer, is_second: bool) -> None:
    """What a reviewer reads is what a client gets, for every answer."""
    builder = StoreBuilder(tmp_path)
    answers = (Answer("first"), answer) if is_second else (answer,)
    builder.add_fixture(fixture_of(ask("q"), *answers))
    builder.write()

    assert only_finding(builder) == "stream-mismatch"


def test_a_fixture_survives_writing_and_reading(tmp_path: Path) -> None:
    """Everything it can hold comes back."""
    request = LlmRequest.from_dict({"model": MODEL, "messages": "q", "tools": [{"name": "f"}], "seed": 7})
    first = Answer(
        "a",
        {"x": [1, None]},
        "answered",
        TokenUsage(1, 2, 3, 4),
        "stop",
        (call({"city": "Paris"}),),
        "because",
        (
            TimedChunk(0, StreamChunk("", None, (), "because")),
            TimedChunk(1.5, StreamChunk("a", "stop", (ToolCallDelta.whole(0, call({"city": "Paris"})),))),
        ),
    )
    fixture = fixture_of(request, first, Answer("b", meta={"x": 1}), meta={"adapter": "x"})
    builder = StoreBuilder(tmp_path)
    builder.add_fixture(fixture)
    builder.write()

    assert fixture == builder.open().get(*fixture.key)
    assert render_fixture(fixture) == render_fixture(builder.open().get(*fixture.key))


@pytest.mark.parametrize(
    "header", ["format = 2\n", "key = 2\n", 'format = "1"\n', "key = true\n", "format = 0\n"]
)
def test_an_unknown_version(builder: StoreBuilder, header: str) -> None:
    """Of the format or of the key: refused, with the advice to upgrade."""
    name = header.partition(" ")[0]
    builder.write_index(builder.index_text().replace(f"{name} = 1\n", header))
    (finding,) = builder.findings()

    assert finding.code == "index-version"
    assert "upgrade" in (finding.hint or "")


def test_no_index_and_no_folder(tmp_path: Path) -> None:
    """A folder without an index is not a store, nor is a file; nothing at all is another error."""
    with pytest.raises(FixtureIntegrityFailed, match=r"INDEX\.toml"):
        Store.open(tmp_path)
    with pytest.raises(StoreIo, match="No such file"):
        Store.open(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    for opened in (Store.open, Store.open_or_create):
        with pytest.raises(FixtureIntegrityFailed, match="file: is no folder"):
            opened(tmp_path / "file")
    with pytest.raises(ValueError, match="on-read"):
        Store.open(tmp_path, verify="never")  # type: ignore[arg-type]


def test_layouts(tmp_path: Path) -> None:
    """A row outside fixtures/ makes a root flat; without rows, format or fixtures/ make it nested."""
    flat = StoreBuilder(tmp_path / "flat", is_flat=True)
    flat.add("q", "a")
    flat.write()
    assert flat.open().layout == "flat"
    (flat.root / "sub").mkdir()
    (flat.root / "sub/x.json").write_bytes(b"{}")
    assert flat.codes() == ["unlisted"]

    for name, index, folder, layout in (
        ("bare", "", False, "flat"),
        ("with-format", "format = 1\n", False, "nested"),
        ("with-folder", "", True, "nested"),
    ):
        root = tmp_path / name
        root.mkdir()
        (root / "INDEX.toml").write_text(index)
        if folder:
            (root / "fixtures").mkdir()
        assert layout == Store.open(root).layout


def test_a_flat_root_may_be_the_top_of_a_repository(tmp_path: Path) -> None:
    """What belongs to git and to writers is no part of it, whatever it is called."""
    builder = StoreBuilder(tmp_path, is_flat=True)
    builder.add("q", "a")
    builder.write()
    for folder in (".git/refs/heads", ".cortex-replay"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.json").write_bytes(b"{}")
        (tmp_path / folder / "link").symlink_to("nowhere")

    assert builder.findings() == []


def test_an_index_without_keys_is_checked_in_full(tmp_path: Path) -> None:
    """On-read cannot find anything in it, so everything is read at once, and refused at once."""
    builder = StoreBuilder(tmp_path, is_flat=True, has_keys=False)
    path = builder.add("q", "a")
    builder.write()
    store = Store.open(tmp_path, verify="on-read")
    assert store.get(*store.key(ask("q"))).answers[0].text == "a"

    (tmp_path / path).write_bytes(b"{}")
    with pytest.raises(FixtureIntegrityFailed):
        Store.open(tmp_path, verify="on-read")


def test_full_serves_what_it_checked_and_on_read_checks_what_it_serves(builder: StoreBuilder) -> None:
    """Bytes that change after opening are never served."""
    full = Store.open(builder.root)
    on_read = Store.open(builder.root, verify="on-read")
    path = builder.root / next(iter(builder.files))
    path.write_bytes(path.read_bytes().replace(b"One.", b"Two!"))
    key = full.key(ask("What is one?"))

    assert full.get(*key).answers[0].text == "One."
    with pytest.raises(FixtureIntegrityFailed):
        on_read.get(*key)


def exchange(**document: object) -> bytes:
    return json.dumps({"wire": {"status": 200, "body": "x"}, **document}).encode()


OPAQUE = {
    "upstream": "openai",
    "method": "POST",
    "path": "/v1/embeddings",
    "query": [],
    "body": {"input": "x"},
}
OPAQUE_KEY = blake3_hex(b'cortex-replay/exchange/1\n["openai","POST","/v1/embeddings",[],{"input":"x"}]')


def test_exchanges(tmp_path: Path) -> None:
    """A failure and an opaque call are checked like fixtures, in their own table."""
    builder = StoreBuilder(tmp_path)
    builder.add("q", "a")
    key = ask("q").prompt_hash()
    failure = exchange(request_match={"model": MODEL, "prompt_hash": key}, n=1)
    builder.add_exchange(failure, "f.json", model=MODEL, prompt_hash=key, n="1")
    opaque = builder.add_exchange(exchange(request=OPAQUE), "o.json", key=OPAQUE_KEY)
    builder.write()
    assert builder.findings() == []
    assert len(builder.open()) == 1

    (tmp_path / opaque).write_bytes(b"{}")
    assert only_finding(builder) == "mismatch"


BAD_EXCHANGES = {
    "another key": (exchange(request=OPAQUE), {"key": "0" * 64}, "key-mismatch"),
    "another n": (
        exchange(request_match=KEY._asdict(), n=2),
        {"model": MODEL, "prompt_hash": "0" * 64, "n": "1"},
        "key-mismatch",
    ),
    "no kind": (exchange(), {"key": OPAQUE_KEY}, "fixture-invalid"),
    "no wire": (json.dumps({"request": OPAQUE}).encode(), {"key": OPAQUE_KEY}, "fixture-invalid"),
    "two bodies": (
        json.dumps({"request": OPAQUE, "wire": {"status": 200, "body": "", "events": []}}).encode(),
        {"key": OPAQUE_KEY},
        "fixture-invalid",
    ),
    "a bad query": (exchange(request=OPAQUE | {"query": [["a"]]}), {"key": OPAQUE_KEY}, "fixture-invalid"),
    "no path": (exchange(request={"upstream": "x"}), {"key": OPAQUE_KEY}, "fixture-invalid"),
    "no JSON": (b"[", {"key": OPAQUE_KEY}, "json-malformed"),
    "an array": (b"[]", {"key": OPAQUE_KEY}, "fixture-invalid"),
    "n of nothing": (
        exchange(request_match=KEY._asdict()),
        {"model": MODEL, "prompt_hash": "0" * 64, "n": "1"},
        "fixture-invalid",
    ),
    "a bad match": (
        exchange(request_match=[]),
        {"model": MODEL, "prompt_hash": "0" * 64, "n": "1"},
        "fixture-invalid",
    ),
    "half a key": (exchange(request=OPAQUE), {"key": OPAQUE_KEY, "n": "1"}, "key-spelling"),
}


@pytest.mark.parametrize(("data", "key", "code"), BAD_EXCHANGES.values(), ids=BAD_EXCHANGES.keys())
def test_bad_exchanges(tmp_path: Path, data: bytes, key: dict[str, str], code: str) -> None:
    """Each is refused by name."""
    builder = StoreBuilder(tmp_path)
    builder.add_exchange(data, "x.json", **key)
    builder.write()

    assert code == only_finding(builder)


def test_a_shard_needs_a_hash() -> None:
    text = f'version = 1\n\n[[shard]]\nname = "00"\nblake3 = "{"0" * 64}"\n'
    assert [shard.name for shard in trust.trust_index(text.encode()).shards] == ["00"]

    with pytest.raises(trust.Untrusted) as refused:
        trust.trust_index(text.replace("0" * 64, "0" * 63).encode())
    assert refused.value.finding.code == "hash-spelling"


def test_nothing_larger_than_it_may_be_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    row = FixtureRow("fixtures/a.json", blake3_hex(b"12345"), "m", "1" * 64)
    trust.check_bytes(row, b"12345")
    monkeypatch.setattr(trust, "MAX_FIXTURE_BYTES", 4)
    monkeypatch.setattr(trust, "MAX_INDEX_BYTES", 4)

    with pytest.raises(trust.Untrusted) as refused:
        trust.check_bytes(row, b"12345")
    assert refused.value.finding.code == "too-large"
    with pytest.raises(trust.Untrusted) as refused:
        trust.trust_index(b"#####")
    assert refused.value.finding.code == "too-large"
