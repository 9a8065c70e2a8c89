"""What a journal says, and for how long it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay import Answer, Store, StoreIo
from cortex_replay.store.check import check_listing
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.index.index import ShardRow
from cortex_replay.store.journal import Journal, parse_journal, render_journal, trust_journal
from cortex_replay.store.marks import Marker, user_marker
from cortex_replay.store.source import Listing
from tests.builder import StoreBuilder, ask, fixture_of

STRANGER = Marker(b"s" * 32)
NAMES = {"added": ("fixtures/a.json",), "removed": ("fixtures/b.json",), "shards": {"0a": "c" * 64}}


def put(root: Path, journal: Journal, marker: Marker) -> None:
    (root / ".cortex-replay").mkdir(exist_ok=True)
    (root / ".cortex-replay/journal").write_bytes(render_journal(journal, marker))


def test_only_an_open_journal_says_what_is_moving() -> None:
    is_open, is_closed = Journal(1, is_open=True, **NAMES), Journal(2, **NAMES)  # type: ignore[arg-type]
    shard = ShardRow("0a", "c" * 64)

    assert is_open.moving == {"fixtures/a.json", "fixtures/b.json", "index/0a.toml"}
    assert is_open.promises(shard)
    assert not is_open.promises(ShardRow("0a", "d" * 64))
    assert is_closed.moving == frozenset()
    assert not is_closed.promises(shard)


@pytest.mark.parametrize(
    ("is_open", "is_ours", "codes"),
    [
        (True, True, []),
        (False, True, ["unlisted"]),
        (True, False, ["unlisted"]),
        (False, False, ["unlisted"]),
    ],
)
def test_an_unlisted_file_is_excused_while_our_own_commit_is_under_way(
    builder: StoreBuilder, is_open: bool, is_ours: bool, codes: list[str]
) -> None:
    (builder.root / "fixtures/moving.json").write_text("{}")
    marker = user_marker() if is_ours else STRANGER

    put(builder.root, Journal(3, is_open=is_open, added=("fixtures/moving.json",)), marker)

    assert builder.codes() == codes


@pytest.mark.parametrize("field", ["added", "removed", "overwriting", "derived", "spent"])
def test_a_mark_covers_every_list_of_a_journal(field: str) -> None:
    written = Journal(7, is_open=True, **{field: ("fixtures/a.json",)})  # type: ignore[arg-type]
    data = render_journal(written, user_marker())

    assert trust_journal(data) == written
    assert trust_journal(data.replace(b"fixtures/a", b"fixtures/z")) == Journal()


def test_a_mark_covers_the_shards_of_a_journal() -> None:
    written = Journal(7, is_open=True, shards={"0a": "c" * 64})
    data = render_journal(written, user_marker())

    assert trust_journal(data) == written
    assert trust_journal(data.replace(b"cccc", b"dddd")) == Journal()


def test_a_writer_stops_at_an_open_journal_of_somebody_else(builder: StoreBuilder) -> None:
    put(builder.root, Journal(3, is_open=True, added=("fixtures/a.json",)), STRANGER)
    before = (builder.root / ".cortex-replay/journal").read_bytes()
    store = builder.open()
    store.add(fixture_of(ask("q"), Answer("a")))

    with pytest.raises(StoreIo, match="not of one of yours"):
        store.commit()

    assert (builder.root / ".cortex-replay/journal").read_bytes() == before


def test_the_counter_rises_when_a_commit_starts_and_when_it_ends(tmp_path: Path) -> None:
    """By it a reader knows that nobody moved anything while it looked."""
    store = Store.create(tmp_path / "store")
    counters = []
    for question in ("one", "two"):
        store.add(fixture_of(ask(question), Answer("a")))
        store.commit()
        counters.append(parse_journal((store.root / ".cortex-replay/journal").read_bytes()).counter)

    assert counters == [2, 4]


def test_a_look_is_repeated_if_commits_came_and_went_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is the same before and after; only the counter tells that files came and went."""
    store = Store.create(tmp_path / "store")
    before = (store.root / "INDEX.toml").read_bytes()
    listed = DirectorySource.list_files
    looks: list[int] = []

    def list_between(source: DirectorySource, folder: str) -> Listing:
        if looks:
            return listed(source, folder)
        looks.append(1)
        store.add(fixture_of(ask("q"), Answer("a")))
        store.commit()
        found = listed(source, folder)
        store.remove(*store.key(ask("q")))
        store.commit()
        return found

    monkeypatch.setattr(DirectorySource, "list_files", list_between)

    assert check_listing(DirectorySource(store.root)).findings == []
    assert looks
    assert (store.root / "INDEX.toml").read_bytes() == before


@pytest.mark.parametrize(
    "journal", [Journal(2**70, is_open=True), Journal(1, is_open=True, added=("\ud800",))]
)
def test_what_no_journal_of_ours_can_say_is_nobodys(journal: Journal) -> None:
    assert not journal.is_marked_by(user_marker())
