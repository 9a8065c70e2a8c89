"""What changes a store in which a conversation is stored once loses no request: prune, rekey, index."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cortex_replay import Answer, Fixture, LlmRequest, Store, StoreIo
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.fixture_json import is_short, parse_fixture
from cortex_replay.store.index.index import Index
from cortex_replay.store.index.shard_reading import read_index
from cortex_replay.store.repack import plan_repack
from tests.cli.commands import run
from tests.linked import MODEL, OTHER, TEST, make_short, talk, turns, write_whole

ALONE = LlmRequest(MODEL, messages="Alone.")


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write_whole(tmp_path / "whole")


@pytest.fixture
def short(whole: Path, tmp_path: Path) -> Path:
    return make_short(whole, tmp_path / "short")


def file_of(root: Path, request: LlmRequest) -> Path:
    return root / Store.open(root).path(MODEL, request.prompt_hash())


def said(root: Path) -> dict[tuple[str, str], tuple[LlmRequest | None, str]]:
    """What was asked and answered, by prompt hash and scope."""
    store = Store.open(root)
    found = {}
    for stored in store.list(scoped=True):
        fixture = store.get(stored.model, stored.prompt_hash, stored.scope)
        found[stored.prompt_hash, stored.scope] = fixture.request, fixture.answers[0].text
    return found


def parts_of(root: Path) -> list[str]:
    return sorted(path.name.partition("-")[0] for path in root.glob("fixtures/parts/*"))


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_turn_that_is_pruned_leaves_the_others_whole(number: int, short: Path) -> None:
    """Whichever it is: what continues it gets what it needs in the same commit."""
    gone = turns()[number]
    before = said(short)

    path = file_of(short, gone).relative_to(short).as_posix()
    assert run("prune", "--path", path, "--store", short).exit_code == 0

    assert said(short) == {key: value for key, value in before.items() if key != (gone.prompt_hash(), "")}
    assert run("verify", short).exit_code == 0
    assert parts_of(short) == ["system", "tools"]


def test_a_part_goes_with_the_last_recording_that_names_it(short: Path) -> None:
    """And not before: the other conversation still has it."""
    begin = (turns()[0], turns(1, "letters")[0])
    store = Store.open(short)
    keys = [
        (item.prompt_hash, item.scope)
        for item in store.list(scoped=True)
        if item.prompt_hash != ALONE.prompt_hash()
    ]
    report = short.parent / "unused.json"
    letters = {request.prompt_hash() for request in turns(3, "letters")}

    def prune(chosen: list[tuple[str, str]]) -> str:
        unused = [{"model": MODEL, "prompt_hash": key, "scope": scope} for key, scope in chosen]
        report.write_text(json.dumps({"used": [], "unused": unused}))
        return run("prune", "--unused-from", report, "--store", short).stderr

    assert "part" not in prune([key for key in keys if key[0] not in letters])
    assert parts_of(short) == ["system", "tools"]
    assert run("verify", short).exit_code == 0
    assert "2 parts that no recording names any more removed" in prune(
        [key for key in keys if key[0] in letters]
    )
    assert parts_of(short) == []
    assert said(short) == {(ALONE.prompt_hash(), ""): (ALONE, "Alone.")}
    assert len({request.prompt_hash() for request in begin}) == 2


def test_an_answer_that_is_recorded_again_changes_its_own_file_only(short: Path) -> None:
    before = {path.name: path.read_bytes() for path in short.glob("fixtures/*/*.json")}
    asked = said(short)
    store = Store.open(short)
    store.replace(Fixture.of(turns()[0], Answer("Something else."), meta={"scope": TEST}), scope=TEST)
    store.commit()

    after = {path.name: path.read_bytes() for path in short.glob("fixtures/*/*.json")}
    assert len(before.items() - after.items()) == 1
    now = said(short)
    assert {key: request for key, (request, _) in now.items()} == {
        key: one for key, (one, _) in asked.items()
    }
    assert now[turns()[0].prompt_hash(), ""][1] == "Something else."


def test_rekey_moves_both_forms_to_the_same_keys(whole: Path, short: Path) -> None:
    """All keys change, and links follow them."""
    rule = '[tool.cortex-replay.normalisers]\nturns = "Turn [0-9]+"\n'
    for root in (whole, short):
        (root / "pyproject.toml").write_text(rule)
        done = run("rekey", "--store", root)
        assert done.exit_code == 0, done.output
        assert "9 fixtures got another key, 1 keep theirs" in done.stderr
        assert run("verify", root).exit_code == 0

    assert said(whole) == said(short)
    assert not {request.prompt_hash() for request in turns()} & {key for key, _ in said(short)}
    files = list(short.glob(f"fixtures/{MODEL}/*.json"))
    assert sum(is_short(path.read_bytes()) for path in files) == 9
    assert sum(path.stat().st_size for path in files) < 10_000


def test_an_edit_by_hand_is_made_for_all_that_continue_it(short: Path) -> None:
    """Who edits a conversation that is stored once edits it for every turn."""
    path = file_of(short, turns()[0])
    path.write_bytes(path.read_bytes().replace(b"Turn 1, about numbers", b"Turn one, about numbers"))
    assert run("verify", short).exit_code == 5
    assert run("rekey", "--store", short).exit_code == 5

    done = run("rekey", "--accept-changed", "--store", short)

    assert done.exit_code == 0, done.output
    assert run("verify", short).exit_code == 0
    texts = [request.messages[0].content for request, _ in said(short).values() if request is not None]
    assert sum(text.startswith("Turn one, about numbers") for text in texts) == 6
    assert not any(text.startswith("Turn 1, about numbers") for text in texts)


def test_an_edit_of_a_part_is_made_for_all_that_name_it(short: Path) -> None:
    (path,) = short.glob("fixtures/parts/system-*")
    path.write_bytes(path.read_bytes().replace(b"briefly", b"at length"))
    refused = run("index", "--accept-changed", "--store", short)
    assert refused.exit_code == 5
    assert "rekey --accept-changed" in refused.stdout

    assert run("rekey", "--accept-changed", "--store", short).exit_code == 0

    assert run("verify", short).exit_code == 0
    systems = [request.system for request, _ in said(short).values() if request not in (None, ALONE)]
    assert len(systems) == 9
    assert all("at length" in system and "briefly" not in system for system in systems)
    assert parts_of(short) == ["system", "tools"]


def rename_all(root: Path, name: str) -> None:
    """Give the files names in another order."""
    for path in sorted(root.glob("fixtures/*/*.json")):
        path.rename(path.with_name(f"{name}{path.stem[::-1]}.json"))


@pytest.mark.parametrize("renamed", ["", "a", "z"])
def test_an_index_is_rebuilt_from_the_files_in_whatever_order_they_come(short: Path, renamed: str) -> None:
    """All at once: what is continued may stand in any of the files."""
    run("prune", "--scope", OTHER, "--store", short)  # which nobody could tell without an index
    before = said(short)
    (short / "INDEX.toml").unlink()
    if renamed:
        rename_all(short, renamed)

    done = run("index", "--store", short)

    assert done.exit_code == 0, done.output
    assert run("verify", short).exit_code == 0
    assert said(short) == before
    assert "continues = " in (short / "INDEX.toml").read_text()


def test_a_conversation_is_adopted_into_a_store_that_knows_nothing_of_it(short: Path, tmp_path: Path) -> None:
    target = write_whole(tmp_path / "other", [(Fixture.of(ALONE, "Alone."), "")])
    shutil.copytree(short / "fixtures/parts", target / "fixtures/parts")
    for request in turns():
        shutil.copy(file_of(short, request), target / "fixtures" / MODEL)

    assert run("index", "--store", target).exit_code == 0

    store = Store.open(target)
    assert [store.get(MODEL, request.prompt_hash()).request for request in turns()] == turns()
    assert run("index", "--check", "--store", target).exit_code == 0


def test_a_short_answer_of_a_scope_is_adopted_for_it(short: Path) -> None:
    before, text = said(short), (short / "INDEX.toml").read_text()
    listed = re.search(r"\[\[scoped\]\]\n(.+\n)+", text)
    assert listed is not None
    (short / "INDEX.toml").write_text(text.replace(listed[0], ""))

    assert run("index", "--store", short).exit_code == 0
    assert said(short) == before
    assert (short / "INDEX.toml").read_text() == text


def test_what_lost_what_it_continues_is_refused_by_name(short: Path) -> None:
    gone = file_of(short, turns()[1])
    saved = gone.read_bytes()
    gone.unlink()

    refused = run("index", "--store", short)

    assert refused.exit_code == 5
    broken = [line for line in refused.stdout.splitlines() if "[link-broken]" in line]
    assert len(broken) == 4  # two turns, one of them also of a scope, and the fork
    assert "bring back the recording that it continues" in refused.stdout
    gone.write_bytes(saved)
    assert run("index", "--store", short).exit_code == 0


def test_an_answer_that_was_edited_by_hand_is_accepted_in_a_short_file(short: Path) -> None:
    path = file_of(short, turns()[2])
    path.write_bytes(path.read_bytes().replace(b"Answer 2.", b"Answer two."))
    assert run("index", "--store", short).exit_code == 5

    assert run("index", "--accept-changed", "--store", short).exit_code == 0
    assert said(short)[turns()[2].prompt_hash(), ""] == (turns()[2], "Answer two.")
    assert said(short)[turns()[3].prompt_hash(), OTHER][0] == turns()[3]


def test_a_part_that_no_recording_names_is_not_adopted(short: Path) -> None:
    stray = short / "fixtures/parts/system-stray.json"
    stray.write_text('{"system": "Somebody else."}')

    refused = run("index", "--store", short)

    assert refused.exit_code == 5
    assert "no recording names this part" in refused.stdout
    assert "system-stray" not in (short / "INDEX.toml").read_text()


def test_files_of_a_short_store_are_as_short_as_they_look(short: Path) -> None:
    """Else the tests here would prove nothing."""
    links = [parse_fixture(path.read_bytes()).link for path in short.glob(f"fixtures/{MODEL}/*.json")]

    assert sum(link is not None and link.continues is not None for link in links) == 7
    assert sum(link is not None and bool(link.parts) for link in links) == 2
    assert len(links) == len(talk())


def test_a_repack_is_not_planned_on_a_store_that_changed_meanwhile(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it has as many rows as before."""

    def read_later(source: DirectorySource) -> tuple[Index, bytes]:
        store = Store.open(short)
        stored = store.list()[0]
        fixture = store.get(stored.model, stored.prompt_hash)
        store.replace(replace(fixture, answers=(Answer("another"),)))
        store.commit()
        return read_index(source)

    monkeypatch.setattr("cortex_replay.store.repack.read_index", read_later)
    with pytest.raises(StoreIo, match="changed in the meantime"):
        plan_repack(DirectorySource(short))
