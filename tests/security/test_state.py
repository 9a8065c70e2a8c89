"""What a stranger put into the state folder of a repository does nothing, whoever runs which command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from cortex_replay import Answer, Store, StoreIo, blake3_hex
from cortex_replay.cli.main import main
from cortex_replay.engine.claims import RunFolder
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.journal import Journal, parse_journal, render_journal
from cortex_replay.store.marks import user_marker
from tests.builder import StoreBuilder, ask, fixture_of
from tests.cassettes.conftest import interaction, write
from tests.nested import LIGHT
from tests.sampling import sample

STATE: Final = ".cortex-replay"
ANSWER: Final = render_fixture(fixture_of(ask("Planted?"), Answer("Planted.")))
WRITING: Final = {
    "record": ("record", "--provider", "echo", "--model", "m", "--prompt", "Hi."),
    "record -- CMD": ("record", "--", sys.executable, "-c", "pass"),
    "import": ("import", "cassette.yaml"),
    "index": ("index",),
    "index --adopt-staged": ("index", "--adopt-staged"),
    "index --discard-staged": ("index", "--discard-staged"),
    "prune": ("prune", "--model", "test-model"),
}
READING: Final = {
    "verify": ("verify",),
    "list": ("list",),
    "index --check": ("index", "--check"),
    "index --dry-run": ("index", "--dry-run", "--adopt-staged"),
    "replay -- CMD": ("replay", "--", sys.executable, "-c", "pass"),
}


def run(*command: str) -> Result:
    result = CliRunner().invoke(main, list(command))
    assert not isinstance(result.exception, AssertionError | OSError | AttributeError), result.exception
    return result


def everything(folder: Path) -> dict[str, bytes | str | None]:
    """All that is below a folder: content, where a link leads, ``None`` for a folder."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = path.read_bytes()
        else:
            found[name] = None
    return found


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoreBuilder:
    """A sound store in a folder of the user's, where other things of the user's are, too."""
    home = tmp_path / "home"
    for name in ("thesis/chapter.json", "photos/one.jpg", "notes.json"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("mine")
    builder = StoreBuilder(home / "clone")
    builder.add("What is one?", "One.")
    builder.write()
    monkeypatch.chdir(builder.root)
    write(builder.root / "cassette.yaml", interaction())
    return builder


@pytest.fixture
def beside(clone: StoreBuilder) -> Callable[[], dict[str, bytes | str | None]]:
    """What is the user's own."""

    def look() -> dict[str, bytes | str | None]:
        found = everything(clone.root.parent)
        return {name: data for name, data in found.items() if name.partition("/")[0] != "clone"}

    return look


Beside = Callable[[], dict[str, bytes | str | None]]


def plant_journal(root: Path, **fields: object) -> None:
    """A journal of a commit whose index is in place, or not, as a stranger can write it."""
    (root / STATE).mkdir(exist_ok=True)
    journal = {"counter": 1, "is_open": True, "old_index": "", "new_index": "", "added": [], "removed": []}
    (root / STATE / "journal").write_text(json.dumps(journal | fields))


def plant_session(root: Path, name: str = "1-0") -> Path:
    session = root / STATE / "staging" / name
    session.mkdir(parents=True)
    (session / "1.add").write_bytes(ANSWER)
    (session / "owner").touch()
    return session


@pytest.mark.parametrize("command", WRITING)
def test_staging_that_leads_elsewhere(clone: StoreBuilder, beside: Beside, command: str) -> None:
    """Every folder there once passed for the folder of a run that died."""
    (clone.root.parent / "thesis" / "1.add").write_bytes(ANSWER)
    (clone.root / STATE).mkdir()
    (clone.root / STATE / "staging").symlink_to("../..")
    before = beside()
    index = clone.index_text()
    result = run(*WRITING[command])

    assert beside() == before
    assert (clone.root / "fixtures").is_dir()
    assert "Planted" not in clone.index_text()
    if "staged" in command or command == "record":
        assert result.exit_code != 0
        assert clone.index_text() == index


@pytest.mark.parametrize("command", WRITING)
def test_a_state_folder_that_leads_elsewhere(clone: StoreBuilder, beside: Beside, command: str) -> None:
    (clone.root.parent / "thesis" / "staging" / "1-0").mkdir(parents=True)
    (clone.root.parent / "thesis" / "staging" / "1-0" / "1.add").write_bytes(ANSWER)
    (clone.root / STATE).symlink_to("../thesis")
    before = beside()
    result = run(*WRITING[command])

    assert beside() == before
    assert result.exit_code != 0


@pytest.mark.parametrize("command", ["record", "import", "index", "prune"])
@pytest.mark.parametrize("kind", ["removed", "added"])
@pytest.mark.parametrize("link", ["away", "fixtures/away"])
@pytest.mark.parametrize("is_marked", [False, True])
def test_a_journal_that_names_files_behind_a_link(
    clone: StoreBuilder, beside: Beside, link: str, kind: str, command: str, is_marked: bool
) -> None:
    """Those of a commit to be finished were deleted, of one to be undone moved. Not even a mark helps."""
    (clone.root / link).symlink_to(clone.root.parent / "thesis")
    paths = [f"{link}/chapter.json", "cassette.yaml"]
    digest = blake3_hex((clone.root / "INDEX.toml").read_bytes()) if kind == "removed" else ""
    plant_journal(clone.root, **{kind: paths, "new_index": digest})
    if is_marked:
        journal = parse_journal((clone.root / STATE / "journal").read_bytes())
        (clone.root / STATE / "journal").write_bytes(render_journal(journal, user_marker()))
    before = beside()
    cassette = (clone.root / "cassette.yaml").read_bytes()
    run(*WRITING[command])

    assert beside() == before
    assert (clone.root / "cassette.yaml").read_bytes() == cassette


@pytest.mark.parametrize("kind", ["removed", "added"])
def test_a_journal_that_names_files_of_the_clone(clone: StoreBuilder, kind: str) -> None:
    """Also where no link is: what it did not list was deleted, or taken into staging."""
    (clone.root / "package.json").write_text("{}")
    (clone.root / "fixtures/work.json").write_bytes(ANSWER)
    digest = blake3_hex((clone.root / "INDEX.toml").read_bytes()) if kind == "removed" else ""
    plant_journal(clone.root, **{kind: ["package.json", "fixtures/work.json"], "new_index": digest})
    for command in ("index", "prune", "record"):
        assert run(*WRITING[command]).exit_code != 0

    assert (clone.root / "package.json").read_text() == "{}"
    assert (clone.root / "fixtures/work.json").read_bytes() == ANSWER
    assert clone.codes() == ["unlisted"], "a journal of a stranger excuses no file"


@pytest.mark.parametrize("kind", ["removed", "added"])
def test_recovery_touches_fixtures_only(clone: StoreBuilder, kind: str) -> None:
    """Whatever a journal names, even one with our mark."""
    others = ["package.json", "notes.txt", "fixtures/notes.txt", "fixtures/schema.json", f"{STATE}/a.json"]
    (clone.root / STATE).mkdir()
    for name in (*others, "fixtures/gone.json"):
        (clone.root / name).write_bytes(ANSWER)
    digest = blake3_hex((clone.root / "INDEX.toml").read_bytes()) if kind == "removed" else ""
    paths = (*others, "fixtures/gone.json", "../notes.json", "fixtures/../package.json")
    journal = Journal(1, is_open=True, new_index=digest)
    journal = replace(journal, removed=paths) if kind == "removed" else replace(journal, added=paths)
    (clone.root / STATE / "journal").write_bytes(render_journal(journal, user_marker()))
    Store.open(clone.root).adopt_abandoned()

    assert [name for name in others if not (clone.root / name).exists()] == []
    assert (clone.root.parent / "notes.json").read_text() == "mine"
    assert not (clone.root / "fixtures/gone.json").exists()


@pytest.mark.parametrize("command", WRITING)
def test_planted_answers_are_not_taken_over(clone: StoreBuilder, command: str) -> None:
    """Only what this user staged on this machine is."""
    session = plant_session(clone.root)
    result = run(*WRITING[command])

    assert "Planted" not in "".join(path.read_text() for path in clone.root.glob("fixtures/**/*.json"))
    assert (session / "1.add").read_bytes() == ANSWER
    if "staged" in command or command == "record":
        assert "look at" in result.stderr
        assert "took over" not in result.stderr


def test_verify_says_what_is_planted_and_recommends_no_command(clone: StoreBuilder) -> None:
    plant_session(clone.root)
    result = run("verify")

    assert result.exit_code == 0
    assert "look at" in result.stderr
    assert "--adopt-staged" not in result.stderr
    assert json.loads(run("verify", "--json").stdout)["leftovers"]["unmarked"] == 1


@pytest.mark.parametrize("name", [STATE, f"{STATE}/staging", f"{STATE}/journal"])
def test_verify_says_what_is_in_the_way(clone: StoreBuilder, name: str) -> None:
    """And that it is for a person to look at."""
    (clone.root / name).parent.mkdir(exist_ok=True)
    if name.endswith("journal"):
        plant_journal(clone.root)
    else:
        (clone.root / name).symlink_to(clone.root.parent / "thesis")
    result = run("verify")

    assert result.exit_code == 0
    assert "look at" in result.stderr
    assert "cortex-replay index" not in result.stderr


def test_a_file_added_to_a_session_of_ours(clone: StoreBuilder) -> None:
    """The mark of a session does not vouch for whatever lies in it."""
    script = """
import os, sys
from cortex_replay import Answer, Store
from tests.builder import ask, fixture_of
Store.open(".").add(fixture_of(ask("Mine?"), Answer("Mine.")))
os._exit(1)
"""
    here = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", script], check=False, env=here)
    (session,) = (clone.root / STATE / "staging").iterdir()
    (staged,) = session.glob("*.add")
    (session / "2.add").write_bytes(ANSWER)
    (session / staged.name.replace("1.", "2.", 1)).write_bytes(ANSWER)
    (session / staged.name.replace("1.", "3.", 1)).symlink_to(clone.root.parent / "notes.json")
    os.mkfifo(session / staged.name.replace("1.", "4.", 1))
    (session / "5.add").mkdir()
    store = Store.open(clone.root)

    assert store.adopt_abandoned() == 1
    store.commit()
    texts = [store.get(item.model, item.prompt_hash).answers[0].text for item in store.list()]
    assert sorted(texts) == ["Mine.", "One."]
    assert (clone.root.parent / "notes.json").read_text() == "mine"


@pytest.mark.parametrize("command", READING)
def test_reading_adopts_nothing_and_writes_nothing(clone: StoreBuilder, command: str) -> None:
    plant_session(clone.root)
    plant_journal(clone.root, removed=["fixtures/gone.json"])
    before = everything(clone.root.parent)
    run(*READING[command])

    assert everything(clone.root.parent) == before


@pytest.mark.parametrize(("is_ours", "ci"), [(False, "1"), (True, "")])
def test_pytest_in_replay_commits_nothing(clone: StoreBuilder, ci: str, is_ours: bool) -> None:
    """Not what was planted, and not what is our own either."""
    (clone.root / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.llm_replay(allow_no_calls=True)\n"
        "def test_it(llm_store):\n    assert len(llm_store) == 1\n"
    )
    if is_ours:
        store = Store.open(clone.root)
        store.add(fixture_of(ask("Mine?"), Answer("Mine.")))
        store.abandon()
    else:
        plant_session(clone.root)
    before = everything(clone.root)
    variables = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "CI": ci, **LIGHT}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--llm-store"]
    done = subprocess.run(
        [*command, ".", "test_it.py"],
        env=variables | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert everything(clone.root) == before


@pytest.mark.parametrize("link", ["fixtures", "fixtures/m", "fixtures/test-model"])
@pytest.mark.parametrize("command", ["record", "import", "index", "prune"])
def test_a_folder_of_fixtures_that_leads_elsewhere(
    clone: StoreBuilder, beside: Beside, link: str, command: str
) -> None:
    """Neither is written behind it, nor removed."""
    (clone.root / link).parent.mkdir(exist_ok=True)
    if (clone.root / link).exists():
        moved = clone.root.parent / "moved"
        (clone.root / link).rename(moved)
        (clone.root / link).symlink_to(moved)
    else:
        (clone.root / link).symlink_to(clone.root.parent / "photos")
    before = beside()
    run(*WRITING[command])

    assert beside() == before


def home_above(path: Path) -> Path:
    return next(folder for folder in path.absolute().parents if folder.name == "home")


def make_link(path: Path) -> None:
    path.symlink_to(home_above(path) / "notes.json")


def make_dangling(path: Path) -> None:
    path.symlink_to(home_above(path) / "new.json")


def make_hard_link(path: Path) -> None:
    path.hardlink_to(home_above(path) / "notes.json")


@pytest.mark.parametrize("make", sample([make_link, make_dangling, make_hard_link, os.mkfifo, Path.mkdir], 2))
@pytest.mark.parametrize("command", ["record", "index --adopt-staged"])
def test_names_of_ours_that_are_taken(
    clone: StoreBuilder, beside: Beside, make: Callable[[Path], None], command: str
) -> None:
    """By something that is no plain file: nothing is written through it, and nobody waits for it."""
    before = beside()
    (clone.root / "fixtures/new.json").write_bytes(ANSWER)
    for name in ("lock", "journal", "index.tmp", "journal.tmp", "file.tmp", "staging", "runs", ".gitignore"):
        shutil.rmtree(clone.root / STATE, ignore_errors=True)
        (clone.root / STATE).mkdir()
        make(clone.root / STATE / name)
        run(*WRITING[command])

        assert beside() == before, name


@pytest.mark.parametrize("make", [make_link, make_hard_link, os.mkfifo, Path.mkdir])
def test_claims_of_a_run_that_are_planted(
    clone: StoreBuilder, beside: Beside, make: Callable[[Path], None]
) -> None:
    """In the folder of a run whose name can be guessed."""
    before = beside()
    runs = clone.root / STATE / "runs"
    runs.mkdir(parents=True)
    folder = runs / blake3_hex(b"ci")[:32]
    (clone.root.parent / "photos" / "alive").write_text("mine")
    folder.symlink_to(clone.root.parent / "photos")
    before = beside()
    with pytest.raises(StoreIo):
        RunFolder(Store.open(clone.root).run_folder("ci"))
    folder.unlink()
    folder.mkdir()
    make(runs / "other")
    (runs / "other").rename(folder / "alive")
    with pytest.raises(StoreIo):
        RunFolder(Store.open(clone.root).run_folder("ci"))

    assert beside() == before
