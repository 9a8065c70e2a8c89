"""``cortex-replay index``."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from cortex_replay import Answer, Store
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.index.index import parse_index
from cortex_replay.store.journal import Journal, render_journal
from cortex_replay.store.marks import user_marker
from tests.builder import StoreBuilder, ask, fixture_of
from tests.cli.commands import (
    first_file,
    key_of,
    run,
)


def index(builder: StoreBuilder, *options: str) -> Result:
    return run("index", "--store", builder.root, *options)


def test_index_of_a_sound_store_changes_nothing(builder: StoreBuilder) -> None:
    """Byte for byte, and --check agrees."""
    before = builder.index_text()

    assert index(builder, "--check").exit_code == 0
    assert index(builder).exit_code == 0
    assert builder.index_text() == before


def test_index_adopts_new_files_after_showing_them(builder: StoreBuilder) -> None:
    """Found by --check first, shown by --dry-run, then listed with their keys."""
    new = builder.root / "fixtures/by-hand.json"
    new.write_bytes(render_fixture(fixture_of(ask("What is three?"), Answer("Three."))))
    before = builder.index_text()

    check = index(builder, "--check")
    assert (check.exit_code, builder.index_text()) == (4, before)
    dry = index(builder, "--dry-run")
    assert (dry.exit_code, builder.index_text()) == (0, before)
    real = index(builder)
    assert real.exit_code == 0
    assert check.stdout == dry.stdout == real.stdout == "new       fixtures/by-hand.json\n"
    store = Store.open(builder.root, verify="on-read")
    assert store.get(*store.key(ask("What is three?"))).answers[0].text == "Three."


def test_index_refuses_a_changed_file_without_a_word(builder: StoreBuilder) -> None:
    """It stays refused; with --accept-changed it is another answer."""
    path = first_file(builder)
    path.write_bytes(path.read_bytes().replace(b"One.", b"Uno."))
    refused = index(builder)
    assert refused.exit_code == 5
    assert "--accept-changed" in refused.stdout
    assert builder.codes() == ["mismatch"]

    assert index(builder, "--check").exit_code == 5
    assert index(builder, "--accept-changed").exit_code == 0
    assert builder.findings() == []
    assert "Uno." in [answer.text for answer in Store.open(builder.root).get(*key_of("What is one?")).answers]


def test_index_after_a_re_record_under_a_new_name(builder: StoreBuilder) -> None:
    """The old file is gone, a new one has its key: that is a change too."""
    first_file(builder).unlink()
    new = builder.root / "fixtures/new.json"
    new.write_bytes(render_fixture(fixture_of(ask("What is one?"), Answer("Uno."))))

    assert index(builder).exit_code == 5
    assert index(builder, "--accept-changed").exit_code == 0
    assert builder.findings() == []


def test_index_follows_a_moved_file(builder: StoreBuilder) -> None:
    """Same bytes, other name."""
    first_file(builder).rename(builder.root / "fixtures/moved.json")
    result = index(builder)

    assert (result.exit_code, builder.findings()) == (0, [])
    assert "moved" in result.stdout


def test_index_drops_a_missing_row_only_when_told(builder: StoreBuilder) -> None:
    """A deletion may be an accident."""
    first_file(builder).unlink()
    assert index(builder).exit_code == 5
    assert len(builder.findings()) == 1
    assert index(builder, "--drop-missing").exit_code == 0
    assert len(Store.open(builder.root)) == 1


def test_index_puts_line_ends_back(builder: StoreBuilder) -> None:
    """What git changed on checkout is no other answer."""
    path = first_file(builder)
    before = path.read_bytes()
    path.write_bytes(before.replace(b"\n", b"\r\n"))
    result = index(builder)

    assert (result.exit_code, builder.findings()) == (0, [])
    assert "line ends" in result.stdout
    assert path.read_bytes() == before


def test_index_mends_its_own_line_ends(builder: StoreBuilder) -> None:
    """A clone with autocrlf and no .gitattributes: nothing that was trusted is forgotten."""
    text = builder.index_text()
    spoiled = "\ufeff" + text.replace("\n", "\r\n")
    builder.write_index(spoiled)
    path = first_file(builder)
    path.write_bytes(path.read_bytes().replace(b"One.", b"Bad."))

    assert index(builder).exit_code == 5  # the forged answer is still noticed
    builder.write()
    builder.write_index(spoiled)
    assert index(builder).exit_code == 0
    assert builder.index_text() == text


def test_index_never_adopts_what_is_no_fixture(builder: StoreBuilder) -> None:
    """Nor a second answer to a key, nor a link; each is named, the rest is done."""
    (builder.root / "fixtures/broken.json").write_bytes(b"{")
    (builder.root / "fixtures/link.json").symlink_to("broken.json")
    second = builder.root / "fixtures/second.json"
    second.write_bytes(render_fixture(fixture_of(ask("What is one?"), Answer("Uno."))))
    good = builder.root / "fixtures/good.json"
    good.write_bytes(render_fixture(fixture_of(ask("What is three?"), Answer("Three."))))
    result = index(builder)

    assert result.exit_code == 5
    for code in ("json-malformed", "not-a-file", "key-duplicate"):
        assert code in result.stdout
    listed = {Path(row.path).name for row in parse_index(builder.index_text()).rows}
    assert "good.json" in listed
    assert not {"broken.json", "second.json", "link.json"} & listed


def test_index_adopts_neither_of_two_new_files_with_one_key(builder: StoreBuilder) -> None:
    """It could not say which of the two is wanted."""
    for name in ("one", "other"):
        data = render_fixture(fixture_of(ask("What is three?"), Answer(name)))
        (builder.root / f"fixtures/{name}.json").write_bytes(data)
    before = builder.index_text()

    result = index(builder)

    assert result.exit_code == 5
    assert "key-duplicate" in result.stdout
    assert all(f"fixtures/{name}.json" in result.stdout for name in ("one", "other"))
    assert builder.index_text() == before


def test_index_of_a_malformed_index_needs_a_word(builder: StoreBuilder) -> None:
    """Nothing says any more what was trusted."""
    builder.write_index("[table]\n")
    assert index(builder).exit_code == 5
    assert builder.index_text() == "[table]\n"
    assert index(builder, "--accept-changed").exit_code == 0
    assert builder.findings() == []


def test_index_from_nothing(builder: StoreBuilder) -> None:
    """A folder of fixtures becomes a store, as with crtx-llm's signer."""
    (builder.root / "INDEX.toml").unlink()

    assert index(builder).exit_code == 0
    assert builder.findings() == []


@pytest.mark.parametrize("option", [(), ("--accept-changed",)])
def test_index_leaves_a_conflict_to_resolve(builder: StoreBuilder, option: tuple[str, ...]) -> None:
    """It would take what one side has removed for new, or for missing."""
    text = f"{builder.index_text()}<<<<<<< HEAD\n=======\n>>>>>>> other\n"
    builder.write_index(text)
    done = index(builder, *option)

    assert done.exit_code == 5
    assert "run: cortex-replay resolve" in done.stderr
    assert builder.index_text() == text


def test_index_leaves_a_commit_that_was_cut_short_to_its_end(builder: StoreBuilder) -> None:
    """A file that its open journal names is not adopted, but goes back to staging."""
    data = render_fixture(fixture_of(ask("What is three?"), Answer("Three.")))
    (builder.root / "fixtures/moving.json").write_bytes(data)
    (builder.root / "fixtures/new.json").write_bytes(
        data.replace(b"three", b"three").replace(b"Three.", b"Drei.")
    )
    (builder.root / ".cortex-replay").mkdir()
    journal = Journal(1, is_open=True, added=("fixtures/moving.json",))
    (builder.root / ".cortex-replay/journal").write_bytes(render_journal(journal, user_marker()))
    result = index(builder)

    assert (result.exit_code, result.stdout) == (0, "new       fixtures/new.json\n")
    assert builder.findings() == []
    assert not (builder.root / "fixtures/moving.json").exists()
    assert Store.open(builder.root).abandoned().answers == 1


def test_index_for_programs(builder: StoreBuilder) -> None:
    """The plan as JSON."""
    first_file(builder).unlink()
    plan = json.loads(index(builder, "--json", "--dry-run").stdout)

    assert plan["missing"] == [next(iter(builder.files))]
    assert not plan["written"]
    assert plan["kept"] == 1


def test_index_lists_exchanges_too(tmp_path: Path) -> None:
    """In their own table."""
    builder = StoreBuilder(tmp_path)
    wire = {"status": 429, "body": ""}
    failure = {"request_match": {"model": "m", "prompt_hash": "0" * 64}, "n": 1, "wire": wire}
    opaque = {"request": {"upstream": "x", "method": "GET", "path": "/", "query": []}, "wire": wire}
    for name, document in (("f.json", failure), ("o.json", opaque)):
        builder.files[f"fixtures/exchanges/{name}"] = json.dumps(document).encode()
    builder.write()

    assert index(builder).exit_code == 0
    assert builder.findings() == []
    assert builder.index_text().count("[[exchange]]") == 2


@pytest.mark.parametrize(
    "command", ["index --drop-missing", "prune --model '*'", "index --drop-missing --json"]
)
def test_a_reader_that_leaves_early_does_not_stop_the_work(builder: StoreBuilder, command: str) -> None:
    """The plan is carried out whoever reads it."""
    first_file(builder).unlink() if "index" in command else None
    line = f"{sys.executable} -m cortex_replay {command} --store {builder.root} | true"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)

    assert "Traceback" not in done.stderr
    assert len(Store.open(builder.root)) == (1 if "index" in command else 0)


def test_what_a_run_that_died_left_is_explained_and_taken_over(builder: StoreBuilder) -> None:
    """verify tells, index --adopt-staged commits, and then there is nothing more to tell."""
    script = (
        "import os, sys\n"
        "from cortex_replay import Store\n"
        "from cortex_replay.store.fixture import Answer\n"
        "from tests.builder import ask, fixture_of\n"
        "store = Store.open(sys.argv[1])\n"
        "store.add(fixture_of(ask('What is three?'), Answer('Three.')))\n"
        "os._exit(1)\n"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", script, builder.root], cwd=root, check=False)
    told = run("verify", builder.root)
    assert told.exit_code == 0
    assert "left 1 recorded answer in staging" in told.stderr
    assert json.loads(run("verify", "--json", builder.root).stdout)["leftovers"] == {
        "sessions": 1,
        "answers": 1,
        "notes": 0,
        "unmarked": 0,
    }

    assert run("index", "--adopt-staged", "--discard-staged").exit_code == 2
    assert "committed 1 answer" in index(builder, "--adopt-staged").stderr
    assert len(Store.open(builder.root)) == 3
    assert run("verify", builder.root).output == ""


def test_what_a_run_that_died_left_can_be_dropped(builder: StoreBuilder) -> None:
    """And another answer to a key that is taken gives way to the one that is there."""
    for command, said in (("--adopt-staged", "1 of them dropped"), ("--discard-staged", "dropped 1 answer")):
        store = Store.open(builder.root)
        store.add(fixture_of(ask("What is one?"), Answer("Uno.")))
        del store
        gc.collect()
        assert said in index(builder, command).stderr
    assert run("verify", builder.root).output == ""
    assert Store.open(builder.root).get(*key_of("What is one?")).answers[0].text == "One."
