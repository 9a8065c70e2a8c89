"""Commits to an index that has shards: what they read, what they write, and what they leave alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

import pytest

from cortex_replay import Store, StoreIo, blake3_hex
from cortex_replay.errors import FixtureConflict, FixtureIntegrityFailed, NoFixture
from cortex_replay.store.changes import Remove
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.export import export_crtx
from cortex_replay.store.fixture import Answer, Fixture
from cortex_replay.store.git.attributes import SHARDS_ATTRIBUTE
from cortex_replay.store.index import shards
from cortex_replay.store.index.files import read_touched, render_commit
from cortex_replay.store.index.forms import convert_index
from cortex_replay.store.index.index import Index, PartRow, parse_index
from cortex_replay.store.index.shard_reading import read_index, read_root, read_shard
from cortex_replay.store.index.sharded_rows import ShardedRows
from cortex_replay.store.index.shards import render_files, shard_of, shard_of_key
from cortex_replay.store.lock import LockedStore, lock_store
from tests.builder import ask, fixture_of
from tests.cli.commands import run as run_cli
from tests.torture.plans import SCRATCH

LIMIT = 8


@pytest.fixture(autouse=True)
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MOST_ROWS_IN_ONE_FILE", LIMIT)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: these commits sync many files."""
    with TemporaryDirectory(dir=SCRATCH) as folder:
        yield Path(folder)


def fixture(question: str, text: str = "an answer") -> Fixture:
    return fixture_of(ask(question), Answer(text))


def record(store: Store, *questions: str, text: str = "an answer") -> None:
    for question in questions:
        store.replace(fixture(question, text))
    store.commit()


def make_store(root: Path, count: int) -> Store:
    store = Store.create(root)
    record(store, *(f"question {number}" for number in range(count)))
    return store


def files_of(root: Path) -> dict[str, bytes]:
    return {f"{path.relative_to(root)}": path.read_bytes() for path in root.glob("index/*.toml")}


def assert_sound(root: Path, count: int) -> None:
    report = check_store(DirectorySource(root))
    assert report.findings == []
    assert len(report.index.fixtures) == count
    assert not (root / ".cortex-replay/shards").exists()


def test_a_store_goes_over_when_a_commit_passes_the_number(tmp_path: Path) -> None:
    store = make_store(tmp_path, LIMIT)
    assert not (tmp_path / "index").exists()
    assert SHARDS_ATTRIBUTE not in (tmp_path / ".gitattributes").read_text()

    record(store, "one more")

    root = read_root(DirectorySource(tmp_path))[0]
    assert root.rows == []
    assert {shard.path for shard in root.shards} == files_of(tmp_path).keys()
    assert SHARDS_ATTRIBUTE in (tmp_path / ".gitattributes").read_text().splitlines()
    assert_sound(tmp_path, LIMIT + 1)
    assert store.is_sharded
    for opened in (store, Store.open(tmp_path), Store.open(tmp_path, verify="on-read")):
        assert len(opened) == LIMIT + 1
        assert opened.get(*fixture("one more").key).answers[0].text == "an answer"


def test_it_does_not_go_back_by_itself(tmp_path: Path) -> None:
    store = make_store(tmp_path, LIMIT + 1)
    for number in range(LIMIT):
        store.remove(*fixture(f"question {number}").key)
    store.commit()

    assert len(files_of(tmp_path)) == 1
    assert_sound(tmp_path, 1)


def test_the_last_row_takes_the_last_shard_with_it(tmp_path: Path) -> None:
    store = make_store(tmp_path, LIMIT + 1)
    for stored in store.list():
        store.remove(stored.model, stored.prompt_hash)
    store.commit()

    assert not (tmp_path / "index").exists()
    assert_sound(tmp_path, 0)
    record(store, "again")
    assert_sound(tmp_path, 1)


def test_a_folder_of_the_same_name_is_left_alone(tmp_path: Path) -> None:
    """A project may have one: the index stays in one file, as long as that is possible at all."""
    (tmp_path / "index").mkdir()
    (tmp_path / "index/notes.md").write_text("mine")

    make_store(tmp_path, LIMIT + 1)

    assert [path.name for path in (tmp_path / "index").iterdir()] == ["notes.md"]
    assert_sound(tmp_path, LIMIT + 1)


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("elsewhere")])
def test_so_is_whatever_else_is_called_so(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "index")
    before = (tmp_path / "index").lstat()

    make_store(tmp_path, LIMIT + 1)

    assert (tmp_path / "index").lstat()[:8] == before[:8]
    assert_sound(tmp_path, LIMIT + 1)


def test_a_recording_touches_one_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store(tmp_path, 40)
    before = files_of(tmp_path)
    read: list[str] = []
    real = DirectorySource.read

    def note(source: DirectorySource, path: str, most: int) -> object:
        read.append(path)
        return real(source, path, most)

    def note_many(source: DirectorySource, paths: list[str], most: int) -> object:
        return ((path, note(source, path, most)) for path in paths)

    monkeypatch.setattr(DirectorySource, "read", note)
    monkeypatch.setattr(DirectorySource, "read_many", note_many)
    store.add(fixture("another"))
    store.commit()

    shard = f"index/{shard_of_key(*fixture('another').key)}.toml"
    assert {path for path in read if path.startswith("index/")} <= {shard}
    after = files_of(tmp_path)
    assert {path for path in after if after[path] != before.get(path)} == {shard}
    assert before.keys() <= after.keys()
    monkeypatch.undo()
    assert_sound(tmp_path, 41)


def test_the_same_rows_are_the_same_bytes_however_they_came(tmp_path: Path) -> None:
    at_once = make_store(tmp_path / "at once", 30)
    one_by_one = Store.create(tmp_path / "one by one")
    for number in reversed(range(30)):
        record(one_by_one, f"question {number}")
    record(one_by_one, "too many")
    one_by_one.remove(*fixture("too many").key)
    one_by_one.commit()

    assert files_of(at_once.root) == files_of(one_by_one.root)
    assert (at_once.root / "INDEX.toml").read_bytes() == (one_by_one.root / "INDEX.toml").read_bytes()


def test_what_a_reader_may_ask(tmp_path: Path) -> None:
    """Answers are those of a store in one file, for every question."""
    names = [f"question {number}" for number in range(LIMIT + 20)]
    store = make_store(tmp_path, len(names))
    store.add(fixture(names[0], "my own"), scope="a test")
    store.pin("another test", *fixture(names[1]).key)
    store.commit()

    opened = Store.open(tmp_path, verify="on-read")
    whole = Store.open(tmp_path)

    assert opened.is_sharded
    assert opened.get(*fixture(names[0]).key, "a test").answers[0].text == "my own"
    assert opened.get(*fixture(names[0]).key).answers[0].text == "an answer"
    assert opened.has_own(*fixture(names[1]).key, "another test")
    assert opened.scopes == {"a test", "another test"}
    assert opened.list(scoped=True) == whole.list(scoped=True)
    assert dict(opened.scan()).keys() == dict(whole.scan()).keys()
    assert (opened.count_scoped(), opened.count_failures(), len(opened)) == (2, 0, len(names))
    assert opened.exchange_keys() == {}
    assert opened.has_fixtures
    assert not opened.has_exchanges("a test")
    assert fixture(names[2]).key in opened
    with pytest.raises(NoFixture):
        opened.get(*fixture("never asked").key)


def test_a_reader_follows_the_commits_of_others(tmp_path: Path) -> None:
    make_store(tmp_path, 20)
    writer = Store.open(tmp_path, verify="on-read")
    reader = Store.open(tmp_path, verify="on-read")
    for number in range(20):
        record(writer, f"question {number}", text="another answer")
        assert reader.get(*fixture(f"question {number}").key).answers[0].text == "another answer"


def test_conflicts_change_nothing(tmp_path: Path) -> None:
    store = make_store(tmp_path, 20)
    before = files_of(tmp_path)
    store.add(fixture("question 1", "another answer"))

    with pytest.raises(FixtureConflict):
        store.commit()

    assert files_of(tmp_path) == before
    assert_sound(tmp_path, 20)


def test_a_damaged_shard_stops_who_asks_for_it_and_nobody_else(tmp_path: Path) -> None:
    store = make_store(tmp_path, 20)
    name = shard_of_key(*fixture("question 1").key)
    path = tmp_path / f"index/{name}.toml"
    path.write_bytes(path.read_bytes().replace(b'path = "fixtures/', b'path = "fixtures/x/'))
    opened = Store.open(tmp_path, verify="on-read")
    others = [n for n in range(20) if shard_of_key(*fixture(f"question {n}").key) != name]

    assert all(opened.get(*fixture(f"question {n}").key) for n in others)
    with pytest.raises(FixtureIntegrityFailed, match="index/"):
        opened.get(*fixture("question 1").key)
    store.replace(fixture("question 1", "another answer"))
    with pytest.raises(FixtureIntegrityFailed, match="index/"):
        store.commit()
    store.discard()
    with pytest.raises(FixtureIntegrityFailed):
        Store.open(tmp_path)


def test_a_shard_is_not_believed_because_it_waits(tmp_path: Path) -> None:
    """A repository may bring a state folder along: what it has in it takes no part."""
    make_store(tmp_path, 20)
    shard = read_root(DirectorySource(tmp_path))[0].shards[0]
    data = (tmp_path / shard.path).read_bytes()
    waiting = tmp_path / ".cortex-replay/shards"
    waiting.mkdir()
    (waiting / shard.blake3).write_bytes(data)
    (tmp_path / shard.path).write_bytes(data + b"# what a reviewer saw\n")

    assert [f.code for f in check_store(DirectorySource(tmp_path)).findings][:1] == ["mismatch"]


def test_a_writer_that_dies_before_the_shards_are_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers see the new set all the same, and the next writer puts them there."""
    store = make_store(tmp_path, 20)

    def die(*_: object) -> None:
        raise OSError("killed")

    monkeypatch.setattr(LockedStore, "_place_shards", die)
    record(store, "question 1", text="another answer")
    name = shard_of_key(*fixture("question 1").key)
    shard = next(s for s in read_root(DirectorySource(tmp_path))[0].shards if s.name == name)

    assert blake3_hex((tmp_path / shard.path).read_bytes()) != shard.blake3
    assert check_store(DirectorySource(tmp_path)).findings == []
    for opened in (store, Store.open(tmp_path), Store.open(tmp_path, verify="on-read")):
        assert opened.get(*fixture("question 1").key).answers[0].text == "another answer"

    monkeypatch.undo()
    record(Store.open(tmp_path, verify="on-read"), "question 2", text="another answer")
    assert blake3_hex((tmp_path / shard.path).read_bytes()) == shard.blake3 or name == shard_of_key(
        *fixture("question 2").key
    )
    assert_sound(tmp_path, 20)


def test_a_shard_that_waits_is_held_to_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the journal promises it: a crash may leave it damaged."""
    store = make_store(tmp_path, 20)

    def die(*_: object) -> None:
        raise OSError("killed")

    monkeypatch.setattr(LockedStore, "_place_shards", die)
    record(store, "question 1", text="another answer")
    name = shard_of_key(*fixture("question 1").key)
    shard = next(s for s in read_root(DirectorySource(tmp_path))[0].shards if s.name == name)
    waiting = tmp_path / ".cortex-replay/shards" / shard.blake3
    waiting.write_bytes(waiting.read_bytes() + b"# damaged\n")

    assert "mismatch" in [finding.code for finding in check_store(DirectorySource(tmp_path)).findings]
    with pytest.raises(FixtureIntegrityFailed):
        Store.open(tmp_path, verify="on-read").get(*fixture("question 1").key)


def test_a_link_in_the_place_of_the_shards_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = make_store(root, 20)
    (root / "index").rename(tmp_path / "elsewhere")
    (root / "index").symlink_to(tmp_path / "elsewhere")
    before = sorted(path.read_bytes() for path in (tmp_path / "elsewhere").iterdir())

    store.add(fixture("another"))
    with pytest.raises((StoreIo, FixtureIntegrityFailed)):
        store.commit()

    assert sorted(path.read_bytes() for path in (tmp_path / "elsewhere").iterdir()) == before


def test_export_gives_the_same_bytes_for_both_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sharded = make_store(tmp_path / "sharded", 30)
    monkeypatch.setattr(shards, "MOST_ROWS_IN_ONE_FILE", 1000)
    single = make_store(tmp_path / "single", 30)
    assert (sharded.is_sharded, single.is_sharded) == (True, False)

    exported = []
    for store in (Store.open(sharded.root, verify="on-read"), single):
        target = tmp_path / f"{store.root.name} crtx"
        export_crtx(store, target)
        exported.append({path.name: path.read_bytes() for path in target.iterdir()})

    assert exported[0] == exported[1]
    assert len(exported[0]) == 31


def test_a_flat_store_has_no_shards(tmp_path: Path) -> None:
    make_store(tmp_path / "nested", 3)
    export_crtx(Store.open(tmp_path / "nested"), tmp_path / "flat")
    store = Store.open(tmp_path / "flat")

    record(store, *(f"new {number}" for number in range(LIMIT + 1)))

    assert not (tmp_path / "flat/index").exists()
    assert len(Store.open(tmp_path / "flat")) == LIMIT + 4


def test_an_empty_commit_says_what_there_is(tmp_path: Path) -> None:
    store = make_store(tmp_path, 20)

    assert store.commit().index.shards == read_root(DirectorySource(tmp_path))[0].shards
    assert len(store) == 20


def test_a_commit_reads_what_continues_the_request_of_a_key(tmp_path: Path) -> None:
    """In whatever shard that stands: its rows may have to change, too."""
    make_store(tmp_path, 20)
    source = DirectorySource(tmp_path)
    index = read_index(source)[0]
    parent, child = index.fixtures[0], index.fixtures[1]._replace(continues=index.fixtures[0].prompt_hash)
    files = render_files(Index.of([parent, child, *index.fixtures[2:]], {}, index.shards))
    for path, data in files.items():
        (tmp_path / path).write_bytes(data)
    root = read_root(source)[0]
    rows = ShardedRows(root, source)
    removal = Remove((parent.model, parent.prompt_hash, None, None))
    other = Remove((child.model, child.prompt_hash, None, None))

    assert read_touched(source, root, rows, [removal]).names == {shard_of(parent), shard_of(child)}
    assert set(read_touched(source, root, rows, [removal]).rows.rows) >= {parent, child}
    assert read_touched(source, root, rows, [other]).names == {shard_of(child)}


def test_parts_come_in_shards_that_nobody_has_read(tmp_path: Path) -> None:
    store = make_store(tmp_path, 20)
    source = DirectorySource(tmp_path)
    root, index = read_root(source)[0], read_index(source)[0]
    shard = root.shards[0]
    part = PartRow("fixtures/parts/1.json", f"{shard.name}{'0' * 62}")

    with lock_store(source, store.layout) as locked:
        new, files = render_commit(locked, source, store.layout, root, frozenset(), Index.of([part], {}))
        with pytest.raises(RuntimeError):
            render_commit(locked, source, store.layout, root, frozenset(), Index.of(index.fixtures[:1], {}))

    assert files.shards.keys() == {shard.name}
    before = read_shard(source, shard).rows
    assert parse_index(files.shards[shard.name].decode()).rows == [*before, part]
    assert len(new.shards) == len(root.shards)


def test_both_ways_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_store(tmp_path, 20)
    source = DirectorySource(tmp_path)
    before = {**files_of(tmp_path), "INDEX.toml": (tmp_path / "INDEX.toml").read_bytes()}
    monkeypatch.setattr(shards, "MOST_ROWS_IN_ONE_FILE", 1000)
    single = make_store(tmp_path.with_name(f"{tmp_path.name} single"), 20)

    assert convert_index(source, is_sharded=False)
    assert not (tmp_path / "index").exists()
    assert (tmp_path / "INDEX.toml").read_bytes() == (single.root / "INDEX.toml").read_bytes()
    assert_sound(tmp_path, 20)
    assert not convert_index(source, is_sharded=False)

    assert convert_index(source, is_sharded=True)
    assert {**files_of(tmp_path), "INDEX.toml": (tmp_path / "INDEX.toml").read_bytes()} == before
    assert_sound(tmp_path, 20)
    rmtree(single.root)


def test_a_reader_notices_that_shards_became_one_file(tmp_path: Path) -> None:
    make_store(tmp_path, 20)
    reader = Store.open(tmp_path, verify="on-read")

    convert_index(DirectorySource(tmp_path), is_sharded=False)

    assert reader.get(*fixture("question 1").key).answers[0].text == "an answer"
    assert len(reader) == 20


def test_what_cannot_have_shards_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MOST_ROWS_IN_ONE_FILE", 1000)
    store = make_store(tmp_path / "nested", 3)
    export_crtx(store, tmp_path / "flat")
    (tmp_path / "nested/index").mkdir()
    (tmp_path / "nested/index/mine.md").touch()

    with pytest.raises(StoreIo, match="something else stands in index/"):
        convert_index(DirectorySource(tmp_path / "nested"), is_sharded=True)
    with pytest.raises(StoreIo, match="cortex-replay index"):
        convert_index(DirectorySource(tmp_path / "flat"), is_sharded=True)
    record(Store.open(tmp_path / "flat"), "another")
    with pytest.raises(StoreIo, match="flat layout"):
        convert_index(DirectorySource(tmp_path / "flat"), is_sharded=True)


def damage_root(root: Path) -> None:
    (root / "INDEX.toml").write_text("[[shard]")


def damage_shard(root: Path) -> None:
    path = next(root.glob("index/*.toml"))
    path.write_bytes(path.read_bytes().replace(b"# end", b"# changed"))


def remove_shard(root: Path) -> None:
    next(root.glob("index/*.toml")).unlink()


@pytest.mark.parametrize("damage", [damage_root, damage_shard, remove_shard])
def test_an_index_that_is_listed_anew_keeps_its_form(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """And what nobody vouches for any more is listed only if that is asked for."""
    make_store(tmp_path, 20)
    before = files_of(tmp_path)
    damage(tmp_path)

    assert run_cli("index", "--store", tmp_path, "--check").exit_code != 0
    assert run_cli("index", "--store", tmp_path).exit_code != 0
    assert files_of(tmp_path) != before or damage is damage_root
    done = run_cli("index", "--store", tmp_path, "--accept-changed")

    assert done.exit_code == 0, done.output
    assert files_of(tmp_path) == before
    assert_sound(tmp_path, 20)
    assert run_cli("index", "--store", tmp_path, "--check").exit_code == 0


def test_a_changed_file_of_a_sharded_store_is_not_adopted(tmp_path: Path) -> None:
    store = make_store(tmp_path, 20)
    path = tmp_path / store.list()[0].path
    path.write_bytes(path.read_bytes().replace(b"an answer", b"something else"))

    assert run_cli("index", "--store", tmp_path).exit_code != 0
    assert "mismatch" in [finding.code for finding in check_store(DirectorySource(tmp_path)).findings]
