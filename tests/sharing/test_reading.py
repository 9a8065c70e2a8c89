"""A listed file that is not in the work tree is had from the cache, else from the bucket."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterable
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Answer, LlmMessage, LlmRequest, Store, blake3_hex
from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.remote import Remote
from cortex_replay.sharing.pull import Selection, plan_pull
from cortex_replay.sharing.push import plan_push
from cortex_replay.sharing.shared_store import SharedStore
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.elsewhere import Elsewhere
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.index.forms import convert_index
from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import FixtureRow, Index, PartRow, Row
from cortex_replay.store.index.shards import shard_of_key
from cortex_replay.store.reindex import plan_reindex
from tests.builder import ask, fixture_of
from tests.cli.commands import record_tool, run
from tests.sharing.team import Team


def push(team: Team) -> None:
    plan_push(SharedStore.open(team.store)).apply()


@pytest.fixture
def clone(team: Team) -> Team:
    """What a colleague has: the index, and the bucket."""
    team.record("One?", "Two?", "Three?")
    team.record("One?", scope="test_a")
    record_tool(team.store)
    push(team)
    team.lose_files()
    return team


def test_a_missing_file_is_replayed_from_the_bucket_in_either_way_of_opening(clone: Team) -> None:
    assert clone.answer("One?") == "One? Yes, indeed."
    assert clone.answer("One?", scope="test_a") == "One? Yes, test_a."
    full = Store.open(clone.store)
    assert full.get("test-model", ask("Two?").prompt_hash()).answers[0].text == "Two? Yes, indeed."
    assert [full.exchange_content(stored) for stored in full.list_exchanges()]
    assert not clone.files(), "reading puts nothing into the work tree"


def test_everything_that_reads_finds_the_files(clone: Team) -> None:
    hashes = [ask(question).prompt_hash() for question in ("One?", "Two?")]
    for line in (
        "verify",
        "scan",
        f"show {hashes[0]}",
        "export --crtx ../out",
        "rekey",
        "prune --model other --dry-run",
        f"explain {hashes[1]}",
    ):
        done = run(*line.split())
        assert done.exit_code == 0, (line, done.output)
    assert len(list((clone.place / "out").glob("*.json"))) == 3


def test_the_second_look_is_at_the_cache_and_needs_no_bucket(clone: Team) -> None:
    assert check_store(DirectorySource(clone.store)).is_trusted
    clone.bucket.rename(clone.place / "gone")

    assert check_store(DirectorySource(clone.store)).is_trusted
    assert clone.answer("Three?") == "Three? Yes, indeed."


def test_the_work_tree_comes_before_the_cache_and_the_cache_before_the_bucket(clone: Team) -> None:
    clone.answer("One?")
    for path in clone.objects():
        path.write_bytes(b"{}")

    assert clone.answer("One?") == "One? Yes, indeed."


def test_a_damaged_cache_is_mended_from_the_bucket_and_never_served(clone: Team) -> None:
    assert check_store(DirectorySource(clone.store)).is_trusted
    cached = [path for path in (clone.place / "cache").rglob("*") if len(path.name) == 64]
    assert len(cached) == 5
    for path in cached:
        path.write_bytes(path.read_bytes().replace(b"Yes", b"No!") + b" ")

    assert check_store(DirectorySource(clone.store)).is_trusted
    assert clone.answer("One?") == "One? Yes, indeed."
    for path in cached:
        path.write_bytes(b"{}")
    clone.bucket.rename(clone.place / "gone")
    assert {finding.code for finding in check_store(DirectorySource(clone.store)).findings} == {"missing"}


def test_nothing_is_asked_where_nothing_is_missing(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team.record("One?")
    (team.project / "pyproject.toml").write_text(
        '[tool.cortex-replay]\nstore = "llm"\n[tool.cortex-replay.remote]\nurl = "s3://nobody-s-bucket/x"\n'
    )

    def refuse(*_: object) -> None:
        raise AssertionError("a socket was made")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr("cortex_replay.remote.bucket.Bucket.open", refuse)

    assert team.answer("One?") == "One? Yes, indeed."
    assert Store.open(team.store)


def test_a_file_that_cannot_be_had_is_missing_and_the_finding_says_where_it_was_sought(clone: Team) -> None:
    lost = next(path for path in clone.objects() if b"One?" in path.read_bytes())
    lost.unlink()

    findings = check_store(DirectorySource(clone.store)).findings

    assert [finding.code for finding in findings] == ["missing"]
    assert f"file://{clone.bucket}" in findings[0].reason
    assert "work tree" in findings[0].reason
    assert run("verify").exit_code == 5


def test_other_bytes_in_the_bucket_are_refused_wherever_they_are_read(clone: Team) -> None:
    """The worst that who can write to the bucket can do is to deny."""
    for path in clone.objects():
        path.write_bytes(path.read_bytes().replace(b"Yes", b"No!"))

    report = check_store(DirectorySource(clone.store))
    assert {finding.code for finding in report.findings} == {"mismatch"}
    assert run("verify").exit_code == 5
    with pytest.raises(FixtureIntegrityFailed):
        clone.answer("One?")


def test_a_link_in_the_place_of_a_file_is_not_looked_for_elsewhere(clone: Team, tmp_path: Path) -> None:
    row = SharedStore.open(clone.store).files[-1]
    (clone.store / row.path).parent.mkdir(parents=True)
    (clone.store / row.path).symlink_to(tmp_path / "anything")

    assert [finding.code for finding in check_store(DirectorySource(clone.store)).findings] == ["not-a-file"]


def test_rebuilding_the_index_keeps_rows_whose_files_are_elsewhere(clone: Team) -> None:
    plan = plan_reindex(DirectorySource(clone.store))

    assert not plan.missing
    assert plan.is_current()


def test_a_recording_joins_those_that_are_elsewhere(clone: Team) -> None:
    clone.record("Four?")
    clone.record("One?")

    assert len(clone.files()) == 1
    assert clone.answer("Four?") == "Four? Yes, indeed."
    assert run("verify").exit_code == 0


def test_many_files_are_fetched_together_once_some_were_asked_for(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [f"Question {number}?" for number in range(60)]
    team.record(*questions)
    push(team)
    team.lose_files()
    store = Store.open(team.store, verify="on-read")
    batches: list[int] = []
    fetch = Elsewhere.fetch

    def watch(self: Elsewhere, files: list[Row]) -> None:
        batches.append(len(files))
        fetch(self, files)

    monkeypatch.setattr(Elsewhere, "fetch", watch)

    for question in questions:
        store.get("test-model", ask(question).prompt_hash())

    assert batches == [16, 32, 12]


def test_a_request_is_put_together_from_files_that_are_elsewhere(team: Team) -> None:
    """What a fixture continues, and the part that it shares, are had by their own rows."""
    system = "Be brief. " * 10
    first, second = ask("One?", system=system), ask("One?", system=system)
    second = replace(second, messages=(*first.messages, *ask("And two?").messages))
    part = json.dumps({"system": system}).encode()
    files = {"part": part, "first": _linked(first, {"parts": {"system": blake3_hex(part)}}, 1)}
    files["second"] = _linked(second, {"continues": first.prompt_hash()}, 1)
    digests = {name: blake3_hex(data) for name, data in files.items()}
    rows: list[Row] = [
        PartRow("fixtures/part.json", digests["part"]),
        FixtureRow("fixtures/first.json", digests["first"], "test-model", first.prompt_hash()),
        FixtureRow(
            "fixtures/second.json", digests["second"], "test-model", second.prompt_hash(), first.prompt_hash()
        ),
    ]
    (team.store / "fixtures").mkdir(parents=True)
    (team.store / "INDEX.toml").write_text(render_index(Index.of(rows, {})))
    for name, data in files.items():
        (team.store / f"fixtures/{name}.json").write_bytes(data)
    push(team)
    team.lose_files()

    found = Store.open(team.store, verify="on-read").get("test-model", second.prompt_hash())
    assert found.request == second
    assert check_store(DirectorySource(team.store)).is_trusted
    model = plan_pull(SharedStore.open(team.store), Selection(model="test-model"))
    assert len(model.wanted) == 3
    (team.bucket / f"b3/{digests['first'][:2]}/{digests['first']}").unlink()
    shutil.rmtree(team.place / "cache")
    with pytest.raises(FixtureIntegrityFailed, match=r"first\.json"):
        Store.open(team.store, verify="on-read").get("test-model", second.prompt_hash())


def _linked(request: LlmRequest, link: dict[str, object], new: int) -> bytes:
    """A fixture that holds its last messages, and a link in place of the rest."""
    document = json.loads(render_fixture(fixture_of(request, Answer("Yes."))))
    messages = document["request"]["messages"][-new:]
    if "continues" in link:
        document["request"] = {**link, "messages": messages}
    else:
        del document["request"]["system"]
        document["request"] |= link
    return json.dumps(document).encode()


def test_a_hash_that_is_a_path_leads_nowhere(clone: Team, tmp_path: Path) -> None:
    """It comes from a stranger's index, and is neither read, nor fetched, nor taken for a damaged file."""
    victim = tmp_path / "mine.txt"
    victim.write_text("mine")
    clone.answer("One?")  # so that there is a cache
    row = FixtureRow("fixtures/evil.json", "../../mine.txt", "test-model", "0" * 64)
    index = clone.store / "INDEX.toml"
    index.write_text(render_index(Index.of([row], {})))
    elsewhere = DirectorySource(clone.store).elsewhere

    assert isinstance(elsewhere.get(row), Finding)
    assert elsewhere.get_cached(row) is None
    assert [type(found) for _, found in elsewhere.get_many([row])] == [Finding]
    assert [type(found) for _, found in elsewhere.read_many([row])] == [Finding]
    elsewhere.fetch([row])
    assert elsewhere.lacking([row]) == {row.blake3}
    for line in ("verify", "list", "push", "pull", "keep git", "index", "scan", "verify --remote"):
        assert run(*line.split()).exit_code in (1, 5), line
    assert victim.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bucket", "cache", "mine.txt", "project"]


@pytest.mark.parametrize("line", ["pull", "verify"])
def test_a_bucket_that_cannot_be_asked_is_one_error(
    clone: Team, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not one for each file, nor one of the store: it may be sound."""
    monkeypatch.setenv("CORTEX_REPLAY_OFFLINE", "1")

    done = run(line)

    assert done.exit_code == 1, done.output
    assert "5 files are not in the work tree" in done.stderr
    assert "was not asked, since CORTEX_REPLAY_OFFLINE is set" in done.stderr
    assert done.stderr.count("fixtures/") == 3
    assert " and 2 more)" in done.stderr
    assert "not what its index says" not in done.stderr


def test_what_is_wrong_is_told_although_a_bucket_cannot_be_asked(
    clone: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clone.store / "fixtures").mkdir()
    (clone.store / "fixtures/stray.json").write_text("{}")
    monkeypatch.setenv("CORTEX_REPLAY_OFFLINE", "1")

    done = run("verify")

    assert done.exit_code == 5
    assert "stray.json" in done.stderr + done.stdout
    assert "5 files are not in the work tree" in done.stderr + done.stdout


def watch_bucket(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many objects are asked for each time a bucket is."""
    looks: list[int] = []
    fetch = Remote.fetch

    def watch(remote: Remote, digests: Iterable[str], *options: Any, **more: Any) -> Any:
        lacking = remote.uncached(wanted := list(digests))
        looks.extend([len(lacking)] if lacking else [])
        return fetch(remote, wanted, *options, **more)

    monkeypatch.setattr(Remote, "fetch", watch)
    return looks


@pytest.mark.parametrize("form", ["single", "sharded"])
def test_what_a_request_continues_comes_with_it(
    team: Team, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last turn of a conversation is asked for first: one look at the bucket, not one for each turn."""
    request = ask("Turn 0?")
    store = Store.open_or_create(team.store)
    for turn in range(1, 30):
        store.add(fixture_of(request, Answer("Yes.")))
        said = [LlmMessage("assistant", "Yes."), LlmMessage("user", f"Turn {turn}?")]
        request = replace(request, messages=(*request.messages, *said))
    store.add(fixture_of(request, Answer("The end.")))
    store.commit()
    push(team)
    convert_index(DirectorySource(team.store), is_sharded=form == "sharded")
    team.lose_files()
    looks = watch_bucket(monkeypatch)

    opened = Store.open(team.store, verify="on-read")
    assert opened.get(*opened.key(request)).answers[0].text == "The end."

    assert looks == [30]


def test_what_stands_in_one_shard_is_fetched_together(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    def shard(question: str) -> str:
        return shard_of_key("test-model", ask(question).prompt_hash())

    numbered = (f"Number {number}?" for number in count())
    questions = list(islice((one for one in numbered if shard(one) == "3f"), 5))
    team.record(*questions)
    push(team)
    convert_index(DirectorySource(team.store), is_sharded=True)
    team.lose_files()
    looks = watch_bucket(monkeypatch)

    store = Store.open(team.store, verify="on-read")
    for question in questions:
        assert store.get("test-model", ask(question).prompt_hash()).answers

    assert looks == [5]


def test_where_nothing_can_be_cached_nothing_is_fetched_ahead_twice(
    clone: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clone.place / "file").touch()
    monkeypatch.setenv("CORTEX_REPLAY_CACHE", str(clone.place / "file/cache"))
    hashes = [ask(question).prompt_hash() for question in ("One?", "Two?", "Three?")]
    store = Store.open(clone.store, verify="on-read")
    looks = watch_bucket(monkeypatch)

    for prompt_hash in hashes:
        assert store.get("test-model", prompt_hash).answers

    assert looks == [5, 1, 1, 1]
