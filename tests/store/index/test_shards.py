"""An index in many files: what stands where, and what is refused."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from cortex_replay import blake3_hex
from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.fixture import FixtureKey
from cortex_replay.store.index import sharded_rows
from cortex_replay.store.index.grid import render_root, render_shard
from cortex_replay.store.index.index import (
    ExchangeRow,
    FixtureRow,
    Index,
    PartRow,
    Row,
    ScopedRow,
    ShardRow,
    parse_index,
)
from cortex_replay.store.index.rows import Rows
from cortex_replay.store.index.shard_reading import read_index, read_root
from cortex_replay.store.index.sharded_rows import ShardedRows
from cortex_replay.store.index.shards import (
    join_shards,
    render_files,
    replace_shards,
    shard_of,
    split_index,
)
from tests.builder import StoreBuilder

A, B, C = "a" * 64, "b" * 64, "c" * 64
ABOUT_ONE_KEY: tuple[Row, ...] = (
    FixtureRow("fixtures/m/1.json", A, "m", B),
    ExchangeRow("fixtures/exchanges/1.json", B, "m", B, "2"),
    ScopedRow("fixtures/m/2.json", C, "m", B, scope="a test"),
    ScopedRow("fixtures/m/3.json", C, "m", B, "3", scope="another"),
)


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    builder = StoreBuilder(tmp_path / "store", is_sharded=True)
    for number in range(20):
        builder.add(f"question {number}", f"answer {number}")
    builder.write()
    return builder


def test_all_that_may_answer_a_question_stands_in_one_shard() -> None:
    assert {shard_of(row) for row in ABOUT_ONE_KEY} == {"0c"}
    opaque = ExchangeRow("fixtures/exchanges/2.json", B, key=C)
    own = ScopedRow("fixtures/exchanges/3.json", B, key=C, scope="a test")
    assert shard_of(opaque) == shard_of(own) != shard_of(ABOUT_ONE_KEY[0])
    assert shard_of(PartRow("fixtures/parts/1.json", C)) == "cc"


def test_an_index_survives_being_split() -> None:
    rows = [
        FixtureRow(f"fixtures/m/q{n}.json", blake3_hex(b"%d" % n), "m", blake3_hex(b"k%d" % n))
        for n in range(999)
    ]
    index = Index.of([*rows, *ABOUT_ONE_KEY, PartRow("fixtures/parts/1.json", C)], {"store_id": "x"})
    shards = {name: parse_index(render_shard(shard)) for name, shard in split_index(index).items()}
    root = parse_index(render_root(index.header, [ShardRow(name, A) for name in shards]))

    joined = join_shards(root, shards.values())

    assert joined.rows == index.rows
    assert joined.header == {"format": 1, "key": 1, "store_id": "x"}
    assert [shard.name for shard in root.shards] == sorted(shards)
    assert 240 < len(shards) <= 256


def test_only_shards_that_change_are_written() -> None:
    """One that has the rows it had is not, and one without rows is no shard any more."""
    index = Index.of([FixtureRow(f"fixtures/{i}.json", A, "m", f"{i:064x}") for i in range(9)], {})
    shards = split_index(index)
    root, _ = replace_shards(Index(), shards)
    first, *others = sorted(shards)

    assert replace_shards(root, shards)[1].shards == {}
    new, files = replace_shards(root, shards | {first: Index()})
    assert files.shards == {first: b""}
    assert [shard.name for shard in new.shards] == others
    assert replace_shards(new, {first: Index()})[1].shards == {}
    assert replace_shards(new, shards)[1].shards.keys() == {first}


def test_every_toml_reader_reads_the_same_shards() -> None:
    index = Index.of(ABOUT_ONE_KEY, {}, [ShardRow("00", A)])
    files = render_files(index)

    assert tomllib.loads(files["INDEX.toml"].decode())["shard"] == [
        {"name": "0c", "blake3": blake3_hex(files["index/0c.toml"])}
    ]
    assert set(tomllib.loads(files["index/0c.toml"].decode())) == {
        "format",
        "key",
        "fixture",
        "exchange",
        "scoped",
    }


def test_a_sharded_store_reads_as_a_whole(builder: StoreBuilder) -> None:
    source = DirectorySource(builder.root)
    index, data = read_index(source)

    assert builder.findings() == []
    assert sorted(index.fixtures) == sorted(builder.fixtures)
    assert data == (builder.root / "INDEX.toml").read_bytes()
    assert render_files(index) == {
        "INDEX.toml": data,
        **{shard.path: (builder.root / shard.path).read_bytes() for shard in read_root(source)[0].shards},
    }
    assert builder.check().files_checked == 20
    assert len(builder.open()) == 20


def _relist(builder: StoreBuilder, name: str, text: str) -> None:
    """Put another shard in place, and its hash into the root."""
    (builder.root / f"index/{name}.toml").write_text(text)
    root = read_root(DirectorySource(builder.root))[0]
    shards = [shard for shard in root.shards if shard.name != name]
    builder.write_index(render_root(root.header, [*shards, ShardRow(name, blake3_hex(text.encode()))]))


def _first(builder: StoreBuilder) -> ShardRow:
    return read_root(DirectorySource(builder.root))[0].shards[0]


def _change_bytes(builder: StoreBuilder) -> None:
    path = builder.root / _first(builder).path
    path.write_bytes(path.read_bytes() + b"\n")


def _remove(builder: StoreBuilder) -> None:
    (builder.root / _first(builder).path).unlink()


def _add_unlisted(builder: StoreBuilder) -> None:
    names = {shard.name for shard in read_root(DirectorySource(builder.root))[0].shards}
    free = next(name for name in (f"{n:02x}" for n in range(256)) if name not in names)
    (builder.root / f"index/{free}.toml").write_text(render_shard(Index()))


def _link(builder: StoreBuilder) -> None:
    path = builder.root / _first(builder).path
    path.rename(builder.root / "elsewhere.toml")
    path.symlink_to(builder.root / "elsewhere.toml")


def _move_row(builder: StoreBuilder) -> None:
    one, other = read_root(DirectorySource(builder.root))[0].shards[:2]
    texts = [(builder.root / shard.path).read_text() for shard in (one, other)]
    rows = [parse_index(text).rows for text in texts]
    _relist(builder, one.name, render_shard(Index.of(rows[0] + rows[1][:1], {})))
    _relist(builder, other.name, render_shard(Index.of(rows[1][1:], {})))


def _nest(builder: StoreBuilder) -> None:
    _relist(builder, _first(builder).name, f'[[shard]]\nname = "00"\nblake3 = "{A}"\n')


def _put_rows_beside(builder: StoreBuilder) -> None:
    builder.write_index(f'{builder.index_text()}[[fixture]]\npath = "fixtures/x.json"\nblake3 = "{A}"\n')


def _list_twice(builder: StoreBuilder) -> None:
    shard = _first(builder)
    builder.write_index(
        f'{builder.index_text()}[[shard]]\nname = "{shard.name}"\nblake3 = "{shard.blake3}"\n'
    )


def _name_a_path(builder: StoreBuilder) -> None:
    builder.write_index(f'{builder.index_text()}[[shard]]\nname = "../../x"\nblake3 = "{A}"\n')


def _drop_keys(builder: StoreBuilder) -> None:
    text = (builder.root / _first(builder).path).read_text()
    lines = [line for line in text.splitlines() if not line.startswith(("model", "prompt_hash"))]
    _relist(builder, _first(builder).name, "\n".join([*lines, ""]))


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        (_change_bytes, ["mismatch"]),
        (_remove, ["missing"]),
        (_add_unlisted, ["unlisted"]),
        (_link, ["not-a-file"]),
        (_move_row, ["row-misplaced"]),
        (_nest, ["index-malformed"]),
        (_put_rows_beside, ["index-malformed"]),
        (_list_twice, ["index-malformed"]),
        (_name_a_path, ["index-malformed"]),
        (_drop_keys, ["row-misplaced"]),
    ],
)
def test_what_is_refused(
    builder: StoreBuilder, change: Callable[[StoreBuilder], None], codes: list[str]
) -> None:
    change(builder)

    found = builder.findings()

    # What a shard lists that nobody can trust is unlisted; that follows from the first finding.
    first = [finding for finding in found if not finding.path.startswith("fixtures/")]
    assert [finding.code for finding in first][: len(codes)] == codes
    assert all(finding.path.startswith("index/") or finding.path == "INDEX.toml" for finding in first)


def _ask_both(builder: StoreBuilder) -> None:
    """Whether shards answer as an index in one file does, whatever is asked for."""
    source = DirectorySource(builder.root)
    index = read_index(source)[0]
    whole, sharded = Rows(index), ShardedRows(read_root(source)[0], source)
    keys = [FixtureKey(row.model or "", row.prompt_hash or "") for row in index.fixtures]
    for _ in range(2):
        for key in [*keys, FixtureKey("m", A), FixtureKey("x", keys[0].prompt_hash)]:
            assert sharded.fixture(key) == whole.fixture(key)
            assert sharded.failures(key) == whole.failures(key)
            assert sharded.parent(key) == whole.parent(key)
            for scope in ("a test", "another", "nobody's"):
                assert sharded.own(key, scope) == whole.own(key, scope)
        for call in [row.key or "" for row in index.exchanges]:
            assert sharded.opaque(call) == whole.opaque(call)
            assert sharded.own_opaque(call, "a test") == whole.own_opaque(call, "a test")
        for digest in (A, B, C):
            assert sharded.part(digest) == whole.part(digest)
    assert dict(sharded.fixtures()) == dict(whole.fixtures())
    assert dict(sharded.fixtures("m")) == dict(whole.fixtures("m"))
    assert [key[0] == "m" for key, _ in sharded.fixtures("m")] == [
        key[0] == "m" for key, _ in whole.fixtures("m")
    ]
    assert dict(sharded.opaques()) == dict(whole.opaques())
    assert dict(sharded.owns()) == dict(whole.owns())
    assert sharded.scopes == whole.scopes
    assert len(sharded) == len(whole)
    assert sharded.count_failures() == whole.count_failures()
    assert sharded.count_own() == whole.count_own()


@pytest.fixture
def mixed(tmp_path: Path) -> StoreBuilder:
    """Rows of all tables, some of which need escapes."""
    rows: list[Row] = [
        *ABOUT_ONE_KEY,
        *(FixtureRow(f"fixtures/o/{n}.json", A, 'say "o"', blake3_hex(b"%d" % n)) for n in range(3)),
        *(FixtureRow(f"fixtures/n/{n}.json", A, "n", blake3_hex(b"n%d" % n)) for n in range(30)),
        ExchangeRow("fixtures/exchanges/2.json", B, key=C),
        ScopedRow("fixtures/exchanges/3.json", B, key=C, scope="a test"),
        PartRow("fixtures/parts/1.json", C),
    ]
    builder = StoreBuilder(tmp_path / "store", is_sharded=True)
    builder.root.mkdir()
    for path, data in render_files(Index.of(rows, {}, [ShardRow("00", A)])).items():
        (builder.root / path).parent.mkdir(exist_ok=True)
        (builder.root / path).write_bytes(data)
    return builder


def test_shards_answer_as_one_file_does(mixed: StoreBuilder) -> None:
    _ask_both(mixed)


@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        (r"prompt_hash = ", "  prompt_hash="),
        (r"prompt_hash = \"b", r'prompt_hash = "\\u0062'),
        (r"model = \"m\"", 'model="m" '),
        (r"(?s)^.*?\[\[", "[["),
        (r"# end", '# \nnote = "x"'),
        (r"format = 1", 'prompt_hash = "x"\nformat = 1'),
    ],
)
def test_so_they_do_however_somebody_wrote_them(mixed: StoreBuilder, pattern: str, by: str) -> None:
    for shard in read_root(DirectorySource(mixed.root))[0].shards:
        text = (mixed.root / shard.path).read_text()
        _relist(mixed, shard.name, re.sub(pattern, by, text))

    _ask_both(mixed)


def test_what_is_kept_in_memory_is_bounded(mixed: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharded_rows, "_MOST_BYTES", 3000)
    monkeypatch.setattr(sharded_rows, "_MOST_FOUND", 5)
    _ask_both(mixed)
    source = DirectorySource(mixed.root)
    rows = ShardedRows(read_root(source)[0], source)
    for row in read_index(source)[0].fixtures:
        assert rows.fixture(FixtureKey(row.model or "", row.prompt_hash or "")) == row

    assert rows._size == sum(len(kept.data) for kept in rows._kept.values()) <= 3000
    assert len(rows._found) == 5


def test_a_lookup_reads_one_shard(mixed: StoreBuilder) -> None:
    source = DirectorySource(mixed.root)
    root = read_root(source)[0]
    wanted = shard_of(ABOUT_ONE_KEY[0])
    for shard in root.shards:
        if shard.name != wanted:
            (mixed.root / shard.path).unlink()
    rows = ShardedRows(root, source)
    key = FixtureKey("m", B)

    assert rows.fixture(key) == ABOUT_ONE_KEY[0]
    assert rows.failures(key) == [ABOUT_ONE_KEY[1]]
    assert rows.own(key, "a test") == (ABOUT_ONE_KEY[2], [])
    with pytest.raises(FixtureIntegrityFailed):
        len(rows)
