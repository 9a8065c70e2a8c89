"""``cortex-replay init --ci``."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from cortex_replay.cli.init_ci import render_action_refresh
from cortex_replay.providers import PROVIDERS
from tests.cli.commands import ROOT, run

REVIEW = Path(".github/workflows/cortex-replay.yml")
REFRESH = Path(".github/workflows/cortex-replay-refresh.yml")
GITLAB = Path(".gitlab/cortex-replay.yml")

pytestmark = pytest.mark.usefixtures("in_a_folder")


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_workflows_for_github() -> None:
    done = run("init", "--ci", "github", "--store", "tests/llm")

    assert done.exit_code == 0, done.output
    assert done.stdout == f"wrote {REVIEW}\nwrote {REFRESH}\n"
    for path, job in ((REVIEW, "replay"), (REFRESH, "refresh")):
        workflow = load(path)
        assert workflow["permissions"] == {}, "each job says what it needs"
        assert workflow["jobs"][job]["env"]["CORTEX_REPLAY_STORE"] == "tests/llm"
        assert "@" not in path.read_text().replace("actions/", "").replace("@3d3c", "").split("env:")[0]
    assert f"cortex-replay=={version('cortex-replay')}" in REVIEW.read_text()
    assert not Path("tests").exists(), "only what CI runs"


def test_a_file_for_gitlab_and_the_line_that_includes_it() -> None:
    done = run("init", "--ci", "gitlab", "--json")

    assert done.exit_code == 0, done.output
    assert [Path(path).name for path in json.loads(done.stdout)["written"]] == [GITLAB.name, ".gitlab-ci.yml"]
    assert load(Path(".gitlab-ci.yml")) == {"include": [{"local": str(GITLAB)}]}
    jobs = {name for name in load(GITLAB) if not name.startswith(".")}
    assert jobs == {"cortex-replay:verify", "cortex-replay:replay", "cortex-replay:diff"}


def test_a_gitlab_file_that_is_there_stays_and_the_line_is_told() -> None:
    Path(".gitlab-ci.yml").write_text("stages: [test]\n")
    done = run("init", "--ci", "gitlab")

    assert done.exit_code == 0
    assert "left alone .gitlab-ci.yml" in done.stdout
    assert f"  - local: {GITLAB}" in done.stderr
    assert Path(".gitlab-ci.yml").read_text() == "stages: [test]\n"
    Path(".gitlab-ci.yml").write_text(f"include:\n  - local: {GITLAB}\n")
    assert "found .gitlab-ci.yml" in run("init", "--ci", "gitlab").stdout


@pytest.mark.parametrize("name", ["@KEYS@", "@ENV@", "@COMMAND@", "@SCRIPT@", "@INSTALL@"])
def test_a_store_that_is_called_like_a_place_in_a_template(name: str) -> None:
    """Its name would be replaced by what belongs there: each step would get every key."""
    for forge in ("github", "gitlab"):
        assert run("init", "--ci", forge, "--store", name).exit_code == 0

    refresh = load(REFRESH)["jobs"]["refresh"]
    assert refresh["env"]["CORTEX_REPLAY_STORE"] == name
    assert "secrets." not in json.dumps(refresh["env"])
    assert load(REVIEW)["jobs"]["replay"]["env"]["CORTEX_REPLAY_STORE"] == name
    assert load(GITLAB)[".cortex-replay"]["variables"]["CORTEX_REPLAY_STORE"] == name


def test_no_module_of_the_work_tree_runs_beside_keys_and_tokens() -> None:
    for forge in ("github", "gitlab"):
        run("init", "--ci", forge)
    steps = load(REFRESH)["jobs"]["refresh"]["steps"]
    installing = next(step["run"] for step in steps if step["name"] == "Install")
    scripts = [load(GITLAB)[f"cortex-replay:{job}"]["script"][0] for job in ("diff", "verify")]
    Path("pip.py").write_text("open('ran', 'w')\n")
    for line in (installing, *scripts):
        python, *flags = line.partition(" install ")[0].split()
        assert python == "python"
        done = subprocess.run([sys.executable, *flags, "--version"], check=False, capture_output=True)
        assert done.stdout.startswith(b"pip ")
    assert not Path("ran").exists()


def test_the_second_time_all_is_found() -> None:
    run("init", "--ci", "github")

    assert run("init", "--ci", "github").stdout == f"found {REVIEW}\nfound {REFRESH}\n"


def test_another_file_is_shown_and_replaced_only_on_demand() -> None:
    """And then none of them is written: half of it would be neither the old nor the new."""
    run("init", "--ci", "github")
    REFRESH.unlink()
    mine = REVIEW.read_text().replace("timeout-minutes: 20", "timeout-minutes: 7")
    REVIEW.write_text(mine)
    done = run("init", "--ci", "github")

    assert done.exit_code == 1
    assert "| -    timeout-minutes: 7\n| +    timeout-minutes: 20\n" in done.stderr
    assert "--overwrite" in done.stderr
    assert REVIEW.read_text() == mine
    assert not REFRESH.exists()

    forced = run("init", "--ci", "github", "--overwrite")
    assert forced.exit_code == 0
    assert "| -    timeout-minutes: 7\n" in forced.stderr, "what was there is shown all the same"
    assert "timeout-minutes: 20" in REVIEW.read_text()
    assert REFRESH.exists()


@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
@pytest.mark.parametrize("place", [".github", ".github/workflows", str(REVIEW)])
def test_a_link_is_not_followed(tmp_path: Path, place: str, overwrite: tuple[str, ...]) -> None:
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    target = elsewhere / "file"
    target.write_text("mine")
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    Path(place).symlink_to(target if place.endswith("yml") else elsewhere)
    done = run("init", "--ci", "github", *overwrite)

    assert done.exit_code == 1
    assert target.read_text() == "mine"
    assert [path.name for path in elsewhere.iterdir()] == ["file"]


@pytest.mark.parametrize("store", ["../outside", "a$b", "a\nb", "${{ secrets.X }}"])
def test_a_store_that_ci_could_not_name(store: str) -> None:
    assert run("init", "--ci", "github", "--store", store).exit_code == 2
    assert not Path(".github").exists()


def test_a_store_with_an_odd_name_is_one_text() -> None:
    name = 'it\'s: "odd" #1 é'
    assert run("init", "--ci", "github", "--store", name).exit_code == 0
    assert run("init", "--ci", "gitlab", "--store", name).exit_code == 0

    assert load(REVIEW)["jobs"]["replay"]["env"]["CORTEX_REPLAY_STORE"] == name
    assert load(REFRESH)["jobs"]["refresh"]["env"]["CORTEX_REPLAY_STORE"] == name
    assert load(GITLAB)[".cortex-replay"]["variables"]["CORTEX_REPLAY_STORE"] == name


@pytest.mark.parametrize(
    ("files", "install", "command"),
    [
        ({"package.json": "{}", "package-lock.json": "{}"}, "npm ci", "npm test"),
        ({"package.json": "{}"}, "npm install", "npm test"),
        ({"pyproject.toml": "[project]\n"}, "python -m pip install --quiet -e .", "pytest"),
        ({"requirements.txt": ""}, "python -m pip install --quiet -r requirements.txt", "pytest"),
    ],
)
def test_what_installs_and_tests_a_project(files: dict[str, str], install: str, command: str) -> None:
    for name, text in files.items():
        Path(name).write_text(text)
    run("init", "--ci", "github")
    run("init", "--ci", "gitlab")
    steps = {step["name"]: step.get("run", "") for step in load(REVIEW)["jobs"]["replay"]["steps"]}
    script = load(GITLAB)["cortex-replay:replay"]["script"]

    assert steps["Install"].splitlines()[0] == install == script[0]
    assert steps["Replay"].endswith(f" -- {command}")
    assert script[-1].endswith(f" -- {command}")


def test_the_workflow_that_others_call_is_the_same() -> None:
    """`.github/workflows/refresh.yml` is rendered; only how it starts differs from what ``init`` writes."""
    text = (ROOT / ".github/workflows/refresh.yml").read_text()
    assert text == render_action_refresh(version("cortex-replay"))
    run("init", "--ci", "github")
    reusable, own = yaml.safe_load(text), load(REFRESH)
    assert reusable["jobs"]["refresh"]["steps"] == own["jobs"]["refresh"]["steps"]
    assert reusable["jobs"]["refresh"]["env"].keys() == own["jobs"]["refresh"]["env"].keys()


def test_keys_go_to_the_one_step_that_asks() -> None:
    run("init", "--ci", "github")
    job = load(REFRESH)["jobs"]["refresh"]
    asking = next(step for step in job["steps"] if step["name"] == "Ask again")
    keys = {key for row in PROVIDERS.values() for key in row.key_variables if not key.startswith("CORTEX_")}

    assert set(asking["env"]) <= keys
    for row in PROVIDERS.values():
        assert not row.key_variables or set(row.key_variables) & set(asking["env"]), row
    asking.pop("env")
    assert "_API_KEY" not in json.dumps(job), "neither the job nor another step has one"


@pytest.mark.parametrize("more", [("--js", "jest"), ("--driver-only",)])
def test_it_does_nothing_else(more: tuple[str, ...]) -> None:
    assert run("init", "--ci", "github", *more).exit_code == 2
    assert not Path(".github").exists()


def test_overwrite_is_for_ci_alone() -> None:
    assert run("init", "--overwrite").exit_code == 2
