"""What ``init --ci`` writes, and the workflow that others call: each step is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]

from cortex_replay import Store
from tests.cli.commands import run
from tests.cli.programs import TWICE, Shell
from tests.gateway.upstream import REAL_KEY, model_server
from tests.reviews import COMMAND, ROOT, commit, git, make_origin
from tests.sampling import sample
from tests.servers.forge import WRITER, Forge, forge_server
from tests.warm import PROGRAM
from tests.workflow_steps import Job, fill

USED: Final = dict.fromkeys(
    ("actions/checkout", "actions/setup-python", "actions/upload-artifact"), lambda _: dict[str, str]()
)


@pytest.fixture
def forge() -> Iterator[Forge]:
    with forge_server() as serving:
        yield serving


@pytest.fixture
def environment(tmp_path: Path, forge: Forge) -> dict[str, str]:
    """What a runner sets, and the program where installing would have put it."""
    (tmp_path / "temp").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/cortex-replay").symlink_to(PROGRAM)
    (tmp_path / "bin/python").symlink_to(sys.executable)
    return {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": forge.url,
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_GRAPHQL_URL": forge.graphql,
        "GITHUB_REPOSITORY": "owner/name",
        "GITHUB_REPOSITORY_OWNER": "owner",
        "GITHUB_SERVER_URL": "https://github.example",
    }


def run_job(workflow: Path | str, name: str, job: Job) -> None:
    """Run a job of a workflow, without what it installs from a registry."""
    document: Any = yaml.safe_load(workflow.read_text() if isinstance(workflow, Path) else workflow)
    declared = document["jobs"][name]
    job.environment |= {key: fill(value, job.context) for key, value in declared.get("env", {}).items()}
    job.run([step for step in declared["steps"] if step["name"] != "Install"], document["defaults"]["run"])


def told(job: Job) -> str:
    return "\n".join(f"{name}: {ran.status}\n{ran.output}" for name, ran in job.ran.items())


def test_the_workflow_for_github_reviews_a_pull_request(
    tmp_path: Path, environment: dict[str, str], forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = make_origin(tmp_path / "origin")
    git(tmp_path, "clone", "-q", "--depth=2", "-b", "merge", f"file://{origin}", "tree")
    monkeypatch.chdir(tmp_path / "tree")
    assert run("init", "--ci", "github", "--store", "llm").exit_code == 0
    text = Path(".github/workflows/cortex-replay.yml").read_text().replace("-- pytest", f"-- {COMMAND}")
    (tmp_path / "event.json").write_text(json.dumps({"pull_request": {"number": 3}}))
    github = {"event_name": "pull_request", "token": WRITER}
    job = Job(tmp_path / "tree", tmp_path / "temp", {"github": github}, environment, USED)
    run_job(text, "replay", job)

    assert not job.has_failed, told(job)
    assert "It is one." in job.ran["Replay"].output
    assert "delete" in (tmp_path / "temp/summary.md").read_text()
    assert Path(job.ran["Keep the page"].given["path"]).is_file()
    (note,) = forge.notes
    assert "delete" in note.body


def test_the_jobs_for_gitlab_review_a_merge_request(
    tmp_path: Path, environment: dict[str, str], forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = make_origin(tmp_path / "origin")
    git(tmp_path, "clone", "-q", "--depth=1", "-b", "feature", f"file://{origin}", "tree")
    monkeypatch.chdir(tmp_path / "tree")
    assert run("init", "--ci", "gitlab", "--store", "llm").exit_code == 0
    jobs = yaml.safe_load(Path(".gitlab/cortex-replay.yml").read_text())
    known = {
        "PATH": environment["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": environment["PYTHONPATH"],
        "GITLAB_CI": "true",
        "CI_API_V4_URL": forge.gitlab,
        "CI_MERGE_REQUEST_IID": "3",
        "CI_MERGE_REQUEST_PROJECT_ID": "7",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": git(origin, "rev-parse", "main"),
        "GITLAB_TOKEN": WRITER,
        **jobs[".cortex-replay"]["variables"],
    }
    for name in ("verify", "replay", "diff"):
        job = jobs[f"cortex-replay:{name}"]
        lines = [
            line.replace("-- pytest", f"-- {COMMAND}") for line in job["script"] if "pip install" not in line
        ]
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", "\n".join(lines)],
            env=known,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (name, done.stdout, done.stderr)
        assert all(Path(path).is_file() for path in job.get("artifacts", {}).get("paths", [])), name
    (note,) = forge.notes
    assert "delete" in note.body


@pytest.fixture
def drifted(tmp_path: Path, environment: dict[str, str]) -> Iterator[Path]:
    """A repository with a recording that its model would answer otherwise by now."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    (origin / ".gitignore").write_text(".cortex-replay/\n")
    with model_server() as provider:
        shell = Shell(origin, environment)
        assert shell.record(TWICE, provider.url).status == 0
        store = Store.open(origin / "llm")
        stored = store.list()[0]
        fixture = store.get(stored.model, stored.prompt_hash)
        cut = replace(fixture.answers[0], finish_reason="length", wire=None)
        store.replace(replace(fixture, answers=(cut,)))
        store.commit()
        commit(origin, "Record")
        environment["OPENAI_BASE_URL"] = f"{provider.url}/v1"
        yield origin


@pytest.mark.parametrize("is_merged", sample([False, True], 1))
def test_the_weekly_refresh_opens_a_pull_request_and_updates_it(
    tmp_path: Path, environment: dict[str, str], forge: Forge, drifted: Path, is_merged: bool
) -> None:
    """While it is open; once it is merged, there is nothing to open another one for."""
    workflow = ROOT / ".github/workflows/refresh.yml"
    declared = yaml.safe_load(workflow.read_text())[True]["workflow_call"]["inputs"]  # YAML reads `on` so
    inputs = {name: row["default"] for name, row in declared.items()} | {"store": "llm", "sample": "100%"}

    def refresh(name: str) -> Job:
        git(tmp_path, "clone", "-q", "--depth=1", "-b", "main", f"file://{drifted}", name)
        (tmp_path / f"{name}-temp").mkdir()
        context: dict[str, Any] = {
            "github": {"ref_name": "main", "token": WRITER},
            "inputs": inputs,
            "secrets": {"OPENAI_API_KEY": REAL_KEY},
            "runner": {"temp": str(tmp_path / f"{name}-temp")},
        }
        job = Job(tmp_path / name, tmp_path / f"{name}-temp", context, dict(environment), USED)
        run_job(workflow, "refresh", job)
        return job

    first = refresh("first")
    assert not first.has_failed, told(first)
    assert Path(first.ran["Keep the page"].given["path"]).is_file()
    (pull,) = forge.pulls
    assert (pull["head"], pull["base"]) == ("cortex-replay/refresh", "main")
    assert pull["body"].startswith("<!-- cortex-replay diff -->")
    assert "length" in pull["body"]
    changed = git(drifted, "diff", "--name-only", "main", "cortex-replay/refresh").splitlines()
    assert {path.split("/")[0] for path in changed} == {"llm"}
    assert WRITER not in told(first)
    assert REAL_KEY not in told(first)

    pull["body"] = "of last week"
    if is_merged:
        git(drifted, "merge", "-q", "cortex-replay/refresh")
    second = refresh("second")
    assert not second.has_failed, told(second)
    assert len(forge.pulls) == 1
    if is_merged:
        assert "Open or update the pull request" not in second.ran
        assert "No recording was changed." in (tmp_path / "second-temp/summary.md").read_text()
    else:
        assert "length" in pull["body"]
