"""The commands that change a store: index, prune, init, rekey, export."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cortex_replay import Store
from cortex_replay.cli.main import main
from cortex_replay.store.fixture import Answer
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.journal import Journal, render_journal
from cortex_replay.store.marks import user_marker
from tests.builder import StoreBuilder, ask, fixture_of


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def index(builder: StoreBuilder, *options: str) -> Result:
    return run("index", "--store", builder.root, *options)


def first_file(builder: StoreBuilder) -> Path:
    return builder.root / next(iter(builder.files))


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
    assert "Uno." in [answer.text for answer in Store.open(builder.root).get(*_key("What is one?")).answers]


def _key(question: str) -> tuple[str, str]:
    return ask(question).model, ask(question).prompt_hash()


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
    assert "good.json" in builder.index_text()
    assert not {"broken.json", "second.json", "link.json"} & set(builder.index_text().split('"'))


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


def test_index_takes_both_sides_of_a_conflict(builder: StoreBuilder) -> None:
    """Rows that git could not merge by line are no contradiction."""
    head, one, two = builder.index_text().split("\n\n")
    text = f"{head}\n\n<<<<<<< HEAD\n{one}\n=======\n{two.rstrip()}\n>>>>>>> other\n"
    builder.write_index(text)

    assert index(builder).exit_code == 0
    assert builder.findings() == []


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


def prune(builder: StoreBuilder, *options: str | Path) -> Result:
    return run("prune", "--store", builder.root, *options)


def test_prune_wants_a_criterion(builder: StoreBuilder) -> None:
    """Nothing at all would be everything."""
    assert prune(builder).exit_code == 2
    assert prune(builder, "--older-than", "soon").exit_code == 2


def test_prune_prints_the_plan_then_acts(builder: StoreBuilder) -> None:
    """Dry and real run print the same; the store is sound afterwards."""
    pattern = f"*{next(iter(builder.files)).rpartition('/')[2]}"
    dry = prune(builder, "--path", pattern, "--dry-run")
    assert len(Store.open(builder.root)) == 2
    real = prune(builder, "--path", pattern)

    assert dry.stdout == real.stdout == f"remove  {next(iter(builder.files))}\n"
    assert "1 fixture" in real.stderr
    assert "1 stay" in real.stderr
    assert builder.findings() == []
    assert len(Store.open(builder.root)) == 1
    assert not first_file(builder).exists()


def test_prune_by_model_and_for_programs(builder: StoreBuilder) -> None:
    """Counts and bytes."""
    builder.add_fixture(fixture_of(ask("q", model="other"), Answer("a")))
    builder.write()
    plan = json.loads(prune(builder, "--model", "test-*", "--json").stdout)

    assert (len(plan["removed"]), plan["staying"]) == (2, 1)
    assert plan["removed_bytes"] > 100
    assert [item.model for item in Store.open(builder.root).list()] == ["other"]


def test_prune_by_age(tmp_path: Path) -> None:
    """What has no date stays, and is counted."""
    builder = StoreBuilder(tmp_path)
    now = datetime.now(UTC)
    for question, recorded in (
        ("old", (now - timedelta(days=40)).isoformat()),
        ("new", now.strftime("%Y-%m-%dT%H:%M:%SZ")),
        ("odd", "some time ago"),
        ("none", None),
    ):
        builder.add_fixture(fixture_of(ask(question), Answer("a"), meta={"recorded_at": recorded}))
    builder.write()
    result = prune(builder, "--older-than", "30d")

    assert result.exit_code == 0
    assert "2 of them because nobody knows" in result.stderr
    assert len(Store.open(tmp_path)) == 3


def test_prune_by_reports_of_unused_fixtures(builder: StoreBuilder, tmp_path: Path) -> None:
    """Several are merged: what one run used is used."""
    keys = [{"model": item.model, "prompt_hash": item.prompt_hash} for item in builder.open().list()]
    one, two, bad = (tmp_path / name for name in ("one.json", "two.json", "bad.json"))
    one.write_text(json.dumps({"used": [], "unused": keys}))
    two.write_text(json.dumps({"used": keys[:1], "unused": keys[1:]}))
    for text in ("{", "[]", '{"unused": [5]}', '{"unused": {}}', '{"used": 1, "unused": []}'):
        bad.write_text(text)
        assert prune(builder, "--unused-from", bad).exit_code == 2
    assert len(Store.open(builder.root)) == 2

    prune(builder, "--unused-from", one, "--unused-from", two)
    assert [item.prompt_hash for item in Store.open(builder.root).list()] == [keys[0]["prompt_hash"]]


def test_prune_leaves_a_broken_store_alone(builder: StoreBuilder) -> None:
    """It is refused, and nothing goes."""
    (builder.root / "fixtures/x.json").write_bytes(b"{}")
    before = builder.index_text()

    assert prune(builder, "--model", "*").exit_code == 5
    assert builder.index_text() == before


def example(root: Path, framework: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest" if framework == "pytest" else "unittest", "test_llm_example.py"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("framework", ["pytest", "unittest"])
@pytest.mark.parametrize("place", [".", "tests/llm"])
def test_init(tmp_path: Path, framework: str, place: str) -> None:
    """A sound store, git settings, a hook, the merge driver, and an example that passes."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    root = tmp_path / place
    chosen = [] if framework == "pytest" else ["--framework", framework]  # pytest is installed here
    result = run("init", "--store", root, *chosen)

    assert result.exit_code == 0, result.output
    assert StoreBuilder(root).findings() == []
    assert "INDEX.toml -text merge=cortex-replay" in (root / ".gitattributes").read_text()
    assert (root / ".gitignore").read_text() == ".cortex-replay/\n"
    assert f"--store {place}" in (tmp_path / ".pre-commit-config.yaml").read_text()
    driver = subprocess.run(
        ["git", "config", "merge.cortex-replay.driver"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert " -I " in driver.stdout
    assert driver.stdout.endswith("/__main__.py merge-driver -- %O %A %B %P\n")
    done = example(root, framework)
    assert done.returncode == 0, done.stdout + done.stderr
    tracked = subprocess.run(
        ["git", "add", "-A", "-v"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ".cortex-replay" not in tracked.stdout


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    """An index or an example that is there stops it; lists of lines are added to."""
    (tmp_path / ".gitignore").write_text("*.log")
    (tmp_path / ".pre-commit-config.yaml").write_text("repos: []\n")
    result = run("init", "--store", tmp_path)
    assert result.exit_code == 0
    assert "not in a git repository" in result.stderr
    assert "cortex-replay verify --staged" in result.stderr
    assert (tmp_path / ".gitignore").read_text() == "*.log\n.cortex-replay/\n"
    assert (tmp_path / ".pre-commit-config.yaml").read_text() == "repos: []\n"

    before = (tmp_path / "INDEX.toml").read_bytes()
    assert run("init", "--store", tmp_path).exit_code == 1
    assert (tmp_path / "INDEX.toml").read_bytes() == before
    (tmp_path / "INDEX.toml").unlink()
    assert run("init", "--store", tmp_path).exit_code == 1
    assert not (tmp_path / "INDEX.toml").exists()
    assert run("init", "--driver-only", "--store", tmp_path).exit_code == 1


def test_rekey_gives_edited_requests_their_key(builder: StoreBuilder) -> None:
    """A request that was changed by hand answers to what it says now."""
    path = first_file(builder)
    edited = path.read_bytes().replace(b"What is one?", b"What is uno?")
    rows = builder.fixtures
    builder.files.clear()
    builder.fixtures = rows[1:]
    key = builder.fixtures[0]
    builder.add_bytes(
        edited, type(fixture_of(ask("x"), Answer("")).key)(str(rows[0].model), str(rows[0].prompt_hash))
    )
    path.unlink()
    builder.write()
    assert builder.codes() == ["request-mismatch"]
    dry = run("rekey", "--dry-run", "--store", builder.root)
    assert dry.exit_code == 0
    assert builder.codes() == ["request-mismatch"]
    real = run("rekey", "--store", builder.root)

    assert dry.stdout == real.stdout
    assert "1 fixture got another key, 1 keep theirs" in real.stderr
    assert builder.findings() == []
    assert Store.open(builder.root).get(*_key("What is uno?")).answers[0].text == "One."
    assert key in builder.fixtures


def test_rekey_takes_a_request_that_was_edited_in_place_only_when_told(builder: StoreBuilder) -> None:
    """The way out of every hint that leads here."""
    path = first_file(builder)
    path.write_bytes(path.read_bytes().replace(b"What is one?", b"What is uno?"))
    assert run("rekey", "--store", builder.root).exit_code == 5
    refused = index(builder, "--accept-changed")
    assert refused.exit_code == 5
    assert "rekey --accept-changed" in refused.stdout
    assert run("rekey", "--accept-changed", "--store", builder.root).exit_code == 0
    assert builder.findings() == []
    assert Store.open(builder.root).get(*_key("What is uno?")).answers[0].text == "One."


def test_rekey_of_a_sound_store_changes_nothing(builder: StoreBuilder) -> None:
    """And says how many keep theirs; what has no request is listed."""
    before = builder.index_text()
    result = json.loads(run("rekey", "--json", "--store", builder.root).stdout)

    assert (result["moving"], result["unchanged"]) == ([], 2)
    assert builder.index_text() == before
    golden = Path(__file__).parents[1] / "vectors/replay_fixtures"
    listed = json.loads(run("rekey", "--json", "--dry-run", "--store", golden).stdout)
    assert len(listed["without_request"]) == 13


def test_rekey_refuses_two_answers_under_one_key(builder: StoreBuilder) -> None:
    """Nothing is lost."""
    row = builder.fixtures[0]
    assert row.prompt_hash is not None
    other = fixture_of(ask("What is two?"), Answer("Deux."))
    builder.add_bytes(
        render_fixture(other).replace(other.key.prompt_hash.encode(), b"0" * 64),
        type(other.key)("test-model", "0" * 64),
    )
    builder.write()
    before = builder.index_text()
    result = run("rekey", "--store", builder.root)

    assert result.exit_code == 1
    assert "collision" in result.stdout
    assert builder.index_text() == before
    (builder.root / "fixtures/x.json").write_bytes(b"{")
    assert run("rekey", "--store", builder.root).exit_code == 5


def test_export(builder: StoreBuilder, tmp_path: Path) -> None:
    """A flat store with the same answers; never into a folder that has something in it."""
    builder.add("Roll a die.", "one", "two")
    builder.write()
    target = tmp_path / "out/crtx"
    result = run("export", "--crtx", target, "--store", builder.root)

    assert result.exit_code == 0
    assert "1 of them crtx-llm gives the first answer only" in result.stderr
    exported = Store.open(target)
    assert exported.layout == "flat"
    assert {item[:2] for item in exported.list()} == {item[:2] for item in builder.open().list()}
    assert exported.get(*_key("What is one?")) == builder.open().get(*_key("What is one?"))
    assert "model = " not in (target / "INDEX.toml").read_text()
    assert run("export", "--crtx", target, "--store", builder.root).exit_code == 1
    assert run("export", "--crtx", builder.root / "fixtures/out", "--store", builder.root).exit_code == 1
    assert builder.findings() == []
    empty = tmp_path / "empty"
    empty.mkdir()
    counts = json.loads(run("export", "--crtx", empty, "--json", "--store", builder.root).stdout)
    assert (counts["fixtures"], counts["with_more_answers"]) == (3, 1)


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
    assert Store.open(builder.root).get(*_key("What is one?")).answers[0].text == "One."
