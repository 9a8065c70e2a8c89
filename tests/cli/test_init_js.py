"""``cortex-replay init --js``; ``integration/test_js_runners.py`` runs what it writes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from cortex_replay.cli.init_js import render_setup
from tests.cli.commands import run

pytestmark = pytest.mark.usefixtures("in_a_folder")

MODULE, SCRIPT = Path("cortex-replay.setup.mjs"), Path("cortex-replay.setup.cjs")


def manifest(**fields: object) -> None:
    Path("package.json").write_text(json.dumps(fields))


@pytest.mark.parametrize(
    ("fields", "file", "wiring"),
    [
        (
            {"devDependencies": {"vitest": "^4"}},
            MODULE,
            'test: { setupFiles: ["./cortex-replay.setup.mjs"] }',
        ),
        (
            {"dependencies": {"jest": "^30"}},
            SCRIPT,
            'setupFilesAfterEnv: ["<rootDir>/cortex-replay.setup.cjs"]',
        ),
        ({"scripts": {"test": "vitest run"}, "devDependencies": {"jest": "1", "vitest": "1"}}, MODULE, ""),
        ({"scripts": {"test": "npx jest --ci"}}, SCRIPT, ""),
    ],
)
def test_it_writes_one_file_for_the_runner_that_is_used(
    fields: dict[str, object], file: Path, wiring: str
) -> None:
    """And nothing else: the store is made when something is recorded."""
    manifest(**fields)
    result = run("init", "--js")

    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"wrote {file}\n"
    assert wiring in result.stderr
    assert "cortex-replay record -- npm test" in result.stderr
    assert sorted(path.name for path in Path().iterdir()) == sorted([file.name, "package.json"])
    again = run("init", "--js", "--json")
    assert json.loads(again.stdout)["written"] == []


def test_the_runner_can_be_named() -> None:
    manifest()
    assert json.loads(run("init", "--js", "jest", "--json").stdout) == {
        "runner": "jest",
        "written": [str(SCRIPT)],
        "wiring": 'jest.config:  setupFilesAfterEnv: ["<rootDir>/cortex-replay.setup.cjs"]',
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "there is no package.json here"),
        ("{}", "say --js vitest or --js jest"),
        ('{"dependencies": {"vitest": "1", "jest": "1"}}', "say --js vitest or --js jest"),
        ('{"scripts": ["vitest"], "dependencies": 3}', "say --js vitest or --js jest"),
        ("{", "package.json is not JSON"),
    ],
)
def test_wrong_usage_writes_nothing(text: str | None, reason: str) -> None:
    Path(".git").mkdir()
    if text is not None:
        Path("package.json").write_text(text)
    result = run("init", "--js")

    assert result.exit_code == 2
    assert reason in result.stderr
    assert not list(Path().glob("cortex*"))


def test_it_goes_beside_the_package_json_of_a_folder_above(monkeypatch: pytest.MonkeyPatch) -> None:
    manifest(devDependencies={"vitest": "^4"})
    Path("src/deep").mkdir(parents=True)
    monkeypatch.chdir("src/deep")

    assert run("init", "--js").stdout == f"wrote ../../{MODULE}\n"


@pytest.mark.parametrize("is_link", [False, True])
def test_what_is_there_is_not_overwritten(tmp_path: Path, is_link: bool) -> None:
    manifest(devDependencies={"vitest": "^4"})
    other = tmp_path / "other"
    other.write_text("mine")
    if is_link:
        MODULE.symlink_to(other)
    else:
        MODULE.write_text("mine")
    result = run("init", "--js")

    assert result.exit_code == 1
    assert "is there already; nothing was written" in result.stderr
    assert MODULE.read_text() == other.read_text() == "mine"


@pytest.mark.parametrize("runner", ["vitest", "jest"])
def test_each_form_is_whole(tmp_path: Path, runner: str) -> None:
    """Each has what its runner needs and nothing of the other's, and Node can read it."""
    text = render_setup(runner)

    assert text.count("const current = ") == 1
    assert ('from "vitest"' in text, "export function scopedUrl" in text) == (runner == "vitest",) * 2
    assert ('require("@jest/globals")' in text, "module.exports" in text) == (runner == "jest",) * 2
    if (node := shutil.which("node")) is not None:
        file = tmp_path / ("setup.mjs" if runner == "vitest" else "setup.cjs")
        file.write_text(text)
        subprocess.run([node, "--check", file], check=True)
