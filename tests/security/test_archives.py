"""An unpacked archive is a repository without ``.git``: its links lead nowhere either."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cortex_replay import LlmRequest, Store
from cortex_replay.cli.main import main
from cortex_replay.errors import StoreIo
from cortex_replay.store import Fixture

ASK = ("--provider", "scripted", "--model", "demo", "--prompt", "Hi")


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A stranger's folder with a link to the tests of another project, which has a store there."""
    root = tmp_path / "archive"
    (root / "sub").mkdir(parents=True)
    tests = tmp_path / "mine" / "tests"
    tests.mkdir(parents=True)
    store = Store.create(tests / "llm")
    store.add(Fixture.of(LlmRequest("demo", messages="Mine"), "mine"))
    store.commit()
    (root / "tests").symlink_to("../mine/tests")
    return root


COMMANDS = {
    "record": ["record", *ASK],
    "prune": ["prune", "--model", "demo"],
    "new": ["record", "--store", "../tests/new", *ASK],
    "named": ["prune", "--store", "../tests/llm", "--model", "demo"],
    "export": ["export", "--store", "../../mine/tests/llm", "--crtx", "../tests/copy"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("is_configured", [True, False])
def test_no_store_behind_a_link_is_written_from_a_folder_below(
    archive: Path, monkeypatch: pytest.MonkeyPatch, command: str, is_configured: bool
) -> None:
    """The store is above the folder where the command runs, with or without a file at the top."""
    if is_configured:
        (archive / "cortex-replay.toml").write_text('store = "tests/llm"')
    elif command in ("record", "prune"):
        monkeypatch.setenv("CORTEX_REPLAY_STORE", "../tests/llm")
    mine = archive.parent / "mine"
    before = content(mine)
    monkeypatch.chdir(archive / "sub")
    result = run(*COMMANDS[command])

    assert content(mine) == before
    assert result.exit_code != 0


@pytest.mark.parametrize("name", ["cortex-replay.toml", "pyproject.toml"])
def test_a_file_of_settings_says_where_a_project_begins(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Also for somebody who names the store from afar."""
    (archive / name).write_text("")
    (tmp_path / "far").mkdir()
    monkeypatch.chdir(tmp_path / "far")
    store = Store.open(archive / "tests" / "llm")
    with pytest.raises(StoreIo, match="behind a link"):
        store.add(Fixture.of(LlmRequest("demo", messages="Theirs"), "theirs"))


def test_links_that_lead_to_a_project_are_the_users_own(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (archive / "cortex-replay.toml").write_text("")
    (tmp_path / "far").mkdir()
    (tmp_path / "short").symlink_to(archive)
    monkeypatch.chdir(tmp_path / "far")

    assert run("record", "--store", str(tmp_path / "short" / "new"), *ASK).exit_code == 0
    assert (archive / "new" / "INDEX.toml").exists()


def test_reader_and_writer_mean_the_same_folder(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path is what it says: ``..`` behind a link does not lead out of the project."""
    (archive / ".git").mkdir()
    (archive / "link").symlink_to(tmp_path / "mine" / "tests" / "llm")
    (archive / "cortex-replay.toml").write_text('store = "link/../llm"')
    monkeypatch.chdir(archive)
    assert run("list").exit_code == 1

    assert run("record", *ASK).exit_code == 0
    assert os.listdir(archive / "llm/fixtures/demo") == [  # noqa: PTH208
        Path(row.path).name for row in Store.open(archive / "link/../llm").list()
    ]


PLAIN = "plain"
CASSETTE = """\
interactions:
- request:
    body: '{"model": "m", "messages": [{"role": "user", "content": "Mine?"}]}'
    headers: {Content-Type: [application/json]}
    method: POST
    uri: https://api.openai.com/v1/chat/completions
  response:
    body: {string: '{"model": "m", "choices": [{"index": 0, "finish_reason": "stop",
      "message": {"role": "assistant", "content": "Mine."}}]}'}
    headers: {Content-Type: [application/json]}
    status: {code: 200, message: OK}
version: 1
"""


@pytest.mark.parametrize(
    "given", ["cassettes", "cassettes/login.yaml", "folder", "folder/login.yaml", "plain"]
)
def test_no_cassette_behind_a_link_is_imported(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """What it says would be committed with a stranger's recordings."""
    for folder in (tmp_path / "private", archive / PLAIN):
        folder.mkdir()
        (folder / "login.yaml").write_text(CASSETTE)
    (archive / "cassettes").mkdir()
    (archive / "cassettes" / "login.yaml").symlink_to(tmp_path / "private" / "login.yaml")
    (archive / "folder").symlink_to(tmp_path / "private")
    monkeypatch.chdir(archive)
    result = run("import", given, "--store", "llm")

    imported = [path for path in (archive / "llm").rglob("*.json") if "Mine." in path.read_text()]
    assert bool(imported) == (given == PLAIN), result.output
    assert (result.exit_code == 0) == (given == PLAIN)
    assert ("link" in result.output) == (given != PLAIN)


def test_a_name_in_a_store_completes_nothing(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shells read a line as the next completion: the name of a model is none."""
    store = Store.create(archive / "llm")
    store.add(Fixture.of(LlmRequest("m\nplain\n$(id)\n_\x1b]0;x\x07", messages="Hi"), "Hi"))
    store.commit()
    monkeypatch.chdir(archive)
    monkeypatch.setenv("COMP_WORDS", "cortex-replay show --store llm ")
    monkeypatch.setenv("COMP_CWORD", "4")
    for shell, lines in (("zsh", 3), ("fish", 1)):
        monkeypatch.setenv("COMP_CWORD", "4" if shell == "zsh" else "")
        monkeypatch.setenv("_CORTEX_REPLAY_COMPLETE", f"{shell}_complete")
        done = CliRunner().invoke(main, [], prog_name="cortex-replay")
        assert len(done.stdout.splitlines()) == lines
        assert "\x1b" not in done.stdout


def test_no_pipe_is_waited_for(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits is let go after a while, and fails."""
    os.mkfifo(archive / "pipe")
    (archive / "cortex-replay.toml").write_text('[providers.scripted]\nscript = "pipe"')
    monkeypatch.chdir(archive)
    let_go: list[int] = []
    rescue = threading.Timer(10, lambda: let_go.append(os.open("pipe", os.O_RDWR | os.O_NONBLOCK)))
    rescue.start()
    result = run("record", "--store", "new", *ASK)
    rescue.cancel()
    for descriptor in let_go:
        os.close(descriptor)

    assert not let_go
    assert result.exit_code == 2
    assert "is not a regular file" in result.output
