"""``cortex-replay repack``: the same recordings in the short form, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Fixture, LlmRequest, Store, StoreIo
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.reader import Verify
from cortex_replay.store.repack import plan_repack
from cortex_replay.store.writer import StoreWriter
from tests.builder import StoreBuilder
from tests.cli.commands import run
from tests.linked import MODEL, make_short, talk, turns, write_whole


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write_whole(tmp_path / "whole")


@pytest.fixture
def short(whole: Path, tmp_path: Path) -> Path:
    return make_short(whole, tmp_path / "short")


def files_of(root: Path) -> dict[str, bytes]:
    """Everything that is in git."""
    paths = (path for path in root.rglob("*") if path.is_file())
    found = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    return {path: data for path, data in found.items() if not path.startswith(".")}


def size_of(root: Path) -> int:
    return sum(map(len, files_of(root).values()))


def test_a_store_becomes_what_a_conversation_stored_once_is_and_back(whole: Path, short: Path) -> None:
    """To the byte, files and index; ``make_short`` knows nothing of the code that does it here."""
    before = files_of(whole)

    there = run("repack", "--store", whole)

    assert there.exit_code == 0
    assert files_of(whole) == files_of(short)
    assert run("verify", whole).exit_code == 0

    assert run("repack", "--whole", "--store", whole).exit_code == 0
    assert files_of(whole) == before


def test_it_says_how_large_the_store_was_and_is(whole: Path) -> None:
    before = size_of(whole)

    result = run("repack", "--store", whole, "--json")

    told = json.loads(result.stdout)
    assert (told["bytes_before"], told["bytes_after"]) == (before, size_of(whole))
    assert told["form"] == "short"
    assert len(told["rewritten"]) == 9
    assert [Path(path).name[:6] for path in told["new_parts"]] == ["system", "tools-"]
    assert f"{before:,} bytes before, {size_of(whole):,} bytes after" in result.stderr
    for item in told["rewritten"]:
        assert (whole / item["new_path"]).stat().st_size == item["new_size"]


@pytest.mark.parametrize("form", ["short", "whole"])
def test_a_dry_run_changes_nothing_and_tells_the_same(form: str, whole: Path, short: Path) -> None:
    root = whole if form == "short" else short
    options = ["--whole"] if form == "whole" else []
    before = files_of(root)

    planned = run("repack", "--store", root, "--dry-run", "--json", *options)
    assert files_of(root) == before
    done = run("repack", "--store", root, "--json", *options)

    assert json.loads(planned.stdout) | {"dry_run": False} == json.loads(done.stdout)


def test_a_very_large_store_is_converted_in_several_commits(
    whole: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of which leaves a sound store."""
    monkeypatch.setattr("cortex_replay.store.repack.MOST_AT_ONCE", 2)
    put = StoreWriter.put_index
    commits: list[bool] = []

    def put_and_look(writer: StoreWriter, *arguments: Any, **options: Any) -> bytes:
        written = put(writer, *arguments, **options)
        commits.append(run("verify", root).exit_code == 0)
        return written

    monkeypatch.setattr(StoreWriter, "put_index", put_and_look)
    before, wanted = files_of(whole), files_of(short)
    root = whole
    assert run("repack", "--store", root).exit_code == 0
    assert files_of(root) == wanted
    assert run("repack", "--whole", "--store", root).exit_code == 0

    assert files_of(root) == before
    assert commits == [True] * 10


def test_a_second_time_there_is_nothing_to_do(short: Path) -> None:
    before = files_of(short)

    result = run("repack", "--store", short)

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("nothing to do: 10 recordings")
    assert files_of(short) == before


@pytest.mark.parametrize("options", [(), ("--whole",), ("--dry-run",)])
def test_a_store_that_is_not_trusted_is_refused(short: Path, options: tuple[str, ...]) -> None:
    part = next(short.glob("fixtures/parts/*.json"))
    part.write_bytes(part.read_bytes().replace(b"brief", b"bread").replace(b"list", b"lost"))
    before = files_of(short)

    assert run("repack", "--store", short, *options).exit_code == 5
    assert files_of(short) == before


def test_a_file_with_a_name_of_its_own_stays_and_can_be_continued(whole: Path) -> None:
    """The way back would not lead to its name."""
    (named,) = whole.glob(f"fixtures/*/{turns()[0].prompt_hash()[:16]}-*.json")
    named.rename(whole / "fixtures/begin.json")
    assert run("index", "--store", whole).exit_code == 0
    before = files_of(whole)

    run("repack", "--store", whole)

    assert files_of(whole)["fixtures/begin.json"] == before["fixtures/begin.json"]
    assert size_of(whole) < sum(map(len, before.values())) / 2
    run("repack", "--store", whole, "--whole")
    assert files_of(whole) == before


def test_a_file_in_another_layout_stays_as_it_is(tmp_path: Path) -> None:
    """What comes back must be these bytes."""
    root = write_whole(tmp_path / "store", talk()[:2])
    for path in root.glob("fixtures/*/*.json"):
        path.write_bytes(json.dumps(json.loads(path.read_bytes())).encode())
    run("index", "--accept-changed", "--store", root)
    before = files_of(root)

    assert "nothing to do" in run("repack", "--store", root).stderr
    assert files_of(root) == before


def test_an_empty_store_and_one_without_requests_have_nothing_to_do(tmp_path: Path) -> None:
    Store.create(tmp_path / "empty")

    assert "nothing to do: 0 recordings" in run("repack", "--store", tmp_path / "empty").stderr


def test_an_index_without_keys_stays_as_it_is(tmp_path: Path) -> None:
    """That of crtx-llm: only who looks into a file knows what it answers."""
    builder = StoreBuilder(tmp_path / "store", has_keys=False)
    for fixture, _ in talk()[:3]:
        builder.add_fixture(fixture)
    before = files_of(builder.write())

    assert "nothing to do: 3 recordings" in run("repack", "--store", builder.root).stderr
    assert files_of(builder.root) == before


def test_a_part_that_no_recording_names_goes(short: Path) -> None:
    store = Store.open(short)
    for stored in store.list(scoped=True):
        if stored.model == MODEL and stored.prompt_hash != LlmRequest(MODEL, messages="Alone.").prompt_hash():
            store.remove(stored.model, stored.prompt_hash, stored.scope)
    store.commit()
    assert len(list(short.glob("fixtures/parts/*"))) == 2

    told = json.loads(run("repack", "--store", short, "--json").stdout)

    assert len(told["old_parts"]) == 2
    assert not list(short.glob("fixtures/parts/*"))
    assert run("verify", short).exit_code == 0


def test_what_somebody_committed_in_the_meantime_is_not_lost(whole: Path) -> None:
    source = DirectorySource(whole)
    plan = plan_repack(source)
    store = Store.open(whole)
    store.add(Fixture.of(LlmRequest(MODEL, messages="New."), "New."))
    store.commit()
    before = files_of(whole)

    with pytest.raises(StoreIo, match="changed in the meantime"):
        plan.apply(source)
    assert files_of(whole) == before


def test_what_is_replayed_is_the_same(whole: Path, short: Path) -> None:
    forms: tuple[Verify, ...] = ("full", "on-read")
    stores = [Store.open(root, verify=verify) for root in (whole, short) for verify in forms]
    for stored in stores[0].list(scoped=True):
        found = [store.get(*stored[:2], stored.scope) for store in stores]
        assert found[1:] == found[:-1]


def test_a_place_without_a_store_is_refused_as_verify_refuses_it(tmp_path: Path) -> None:
    (tmp_path / "link").mkdir()
    (tmp_path / "link/INDEX.toml").symlink_to(tmp_path / "elsewhere")
    for root in (tmp_path, tmp_path / "link"):
        refused = run("repack", "--store", root)
        assert refused.exit_code == 5
        assert refused.stderr.splitlines()[0].endswith(run("verify", root).stdout.splitlines()[0])


def test_nothing_is_written_behind_a_link(whole: Path, tmp_path: Path) -> None:
    """Not even if it appears after the look: parts would go there."""
    away = tmp_path / "away"
    away.mkdir()
    source = DirectorySource(whole)
    plan = plan_repack(source)
    (whole / "fixtures/parts").symlink_to(away)
    assert run("repack", "--store", whole).exit_code == 5

    with pytest.raises(StoreIo):
        plan.apply(source)
    assert not list(away.iterdir())
    (whole / "fixtures/parts").unlink()
    assert run("verify", whole).exit_code == 0


def test_a_journal_that_a_stranger_left_open_stops_it(whole: Path) -> None:
    (whole / ".cortex-replay").mkdir(mode=0o700)
    journal = {"counter": 1, "is_open": True, "old_index": "", "new_index": "", "added": [], "removed": []}
    (whole / ".cortex-replay/journal").write_text(json.dumps(journal))
    before = files_of(whole)

    assert run("repack", "--store", whole).exit_code == 1
    assert files_of(whole) == before


def failing(_: StoreWriter, *__: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_the_store_as_it_was(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files_of(whole)
    with monkeypatch.context() as patch:
        patch.setattr("cortex_replay.store.lock.LockedStore.put_index", failing)
        result = run("repack", "--store", whole)

    assert result.exit_code == 1
    assert "No space left" in result.stderr
    assert files_of(whole) == before
    assert not list(whole.glob(".cortex-replay/staging/*/*"))
    assert run("repack", "--store", whole).exit_code == 0
    assert run("verify", whole).exit_code == 0


def test_an_index_gets_shards_and_back_and_nothing_else_changes(whole: Path) -> None:
    before = files_of(whole)

    planned = run("repack", "--store", whole, "--index", "sharded", "--dry-run", "--json")
    assert json.loads(planned.stdout) == {"dry_run": True, "index": "sharded", "changed": True}
    assert files_of(whole) == before

    there = run("repack", "--store", whole, "--index", "sharded")
    assert (there.exit_code, there.stderr) == (0, "the index is now shards; no recording changes\n")
    shards = {path for path in files_of(whole) if path.startswith("index/")}
    assert shards
    assert run("verify", whole).exit_code == 0
    again = run("repack", "--store", whole, "--index", "sharded")
    assert (again.exit_code, again.stderr[:13]) == (0, "nothing to do")

    assert run("repack", "--store", whole, "--index", "single").exit_code == 0
    assert files_of(whole) == before


def test_an_index_of_a_store_that_is_not_trusted_stays(whole: Path) -> None:
    (whole / "fixtures/stray.json").write_text("{}")
    before = files_of(whole)

    assert run("repack", "--store", whole, "--index", "sharded").exit_code == 5
    assert files_of(whole) == before


def test_the_index_and_the_files_are_converted_one_after_the_other(whole: Path) -> None:
    result = run("repack", "--store", whole, "--index", "single", "--whole")

    assert result.exit_code == 2
    assert "--index changes the index alone" in result.stderr
