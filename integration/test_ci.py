"""What CI runs, before the linters that others publish, and installed as the action installs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]

from integration import install
from tests.reviews import COMMAND, Review, calls, commit, git, make_origin, outputs, record
from tests.servers.forge import Forge, forge_server

ROOT: Final = Path(__file__).resolve().parent.parent
ACTION: Final = ROOT / "action.yml"
REUSABLE: Final = ROOT / ".github/workflows/refresh.yml"
_ACTIONLINT: Final = "1.7.12"
_WHEELS: Final = ("zizmor==1.32.0", "check-jsonschema==0.39.0")


@cache
def tools() -> Path:
    """A folder with zizmor and check-jsonschema."""

    def fill(folder: Path) -> None:
        install.completed([sys.executable, "-m", "venv", folder / "venv"])
        install.completed([folder / "venv/bin/pip", "install", "--quiet", *_WHEELS])

    return install.once(install.BENCH / "ci-linters", fill) / "venv/bin"


@cache
def actionlint() -> Path:
    def fill(folder: Path) -> None:
        package = "github.com/rhysd/actionlint/cmd/actionlint"
        install.go_install(package, _ACTIONLINT, folder, version_variable="main.version")

    return install.once(install.BENCH / f"actionlint-{_ACTIONLINT}", fill) / "actionlint"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A project with all that ``init --ci`` writes."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for forge in ("github", "gitlab"):
        command = [sys.executable, "-m", "cortex_replay", "init", "--ci", forge, "--store", "tests/llm"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env=environment)
    return tmp_path


def workflows(written: Path) -> list[Path]:
    return [REUSABLE, *sorted((written / ".github/workflows").iterdir())]


def complaint(*command: str | Path, cwd: Path = ROOT) -> str:
    """What a linter says; nothing if it has no complaint."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr or f"status {done.returncode}"


def zizmor(*paths: Path) -> str:
    return complaint(tools() / "zizmor", "--offline", "--no-progress", "--pedantic", *paths)


def schema(name: str, *paths: Path, more: Sequence[str] = ()) -> str:
    return complaint(tools() / "check-jsonschema", "--builtin-schema", f"vendor.{name}", *more, *paths)


GITLAB: Final = ("--data-transform", "gitlab-ci")


def test_workflows_pass_the_linters(written: Path) -> None:
    paths = workflows(written)

    assert complaint(actionlint(), *paths) == ""
    assert zizmor(*paths) == ""
    assert schema("github-workflows", *paths) == ""


def test_the_action_passes_the_linters() -> None:
    assert zizmor(ACTION) == ""
    assert schema("github-actions", ACTION) == ""


def test_gitlab_s_files_fit_its_schema(written: Path) -> None:
    paths = (written / ".gitlab/cortex-replay.yml", written / ".gitlab-ci.yml")

    assert schema("gitlab-ci", *paths, more=GITLAB) == ""


def test_scripts_pass_shellcheck(tmp_path: Path) -> None:
    """Those in files; actionlint hands it those in workflows, if it is there."""
    shellcheck = install.needed("shellcheck", "check scripts")

    assert complaint(shellcheck, *sorted((ROOT / "action").glob("*.sh"))) == ""
    bad = tmp_path / "bad.sh"
    bad.write_text("#!/usr/bin/env bash\nrm -r $1/bin\n")
    assert "SC2086" in complaint(shellcheck, bad)


def planted(path: Path, folder: Path, old: str, new: str) -> Path:
    """A copy with a mistake in it."""
    text = path.read_text()
    assert old in text
    copy = folder / path.name
    copy.write_text(text.replace(old, new, 1))
    return copy


def test_each_linter_complains_of_what_is_planted(written: Path, tmp_path: Path) -> None:
    """An injection, a wrong key, a version that can be moved; else their silence would say nothing."""
    review = written / ".github/workflows/cortex-replay.yml"
    folder = tmp_path / "planted"
    folder.mkdir()
    injection = ("run: cortex-replay verify", 'run: echo "${{ github.event.pull_request.title }}"')
    wrong_key = ("timeout-minutes:", "timeout-seconds:")

    assert "potentially untrusted" in complaint(actionlint(), planted(review, folder, *injection))
    assert "template-injection" in zizmor(planted(review, folder, *injection))
    assert "timeout-seconds" in complaint(actionlint(), planted(review, folder, *wrong_key))
    assert "timeout-seconds" in schema("github-workflows", planted(review, folder, *wrong_key))
    assert "dangerous-triggers" in zizmor(
        planted(review, folder, "  pull_request:\n", "  pull_request_target:\n")
    )
    assert "unpinned-uses" in zizmor(
        planted(review, folder, "@3d3c42e5aac5ba805825da76410c181273ba90b1", "@v7")
    )

    action = planted(ACTION, folder, "run: cortex-replay verify", 'run: echo "${{ inputs.command }}"')
    assert "template-injection" in zizmor(action)
    assert "composte" in schema(
        "github-actions", planted(ACTION, folder, "using: composite", "using: composte")
    )
    gitlab = planted(written / ".gitlab/cortex-replay.yml", folder, "when: always", "when: sometimes")
    assert "sometimes" in schema("gitlab-ci", gitlab, more=GITLAB)


@pytest.mark.parametrize("extras", ["", "remote"])
def test_the_action_installs_itself(tmp_path: Path, extras: str) -> None:
    """From its own checkout, beside what the project has; its program is found, and its Python is not."""
    steps: list[dict[str, Any]] = yaml.safe_load(ACTION.read_text())["runs"]["steps"]
    script = next(step["run"] for step in steps if step["name"] == "Install cortex-replay")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_PATH": str(tmp_path / "path"),
        "RUNNER_TEMP": str(tmp_path),
        "EVENT": "pull_request",
        "VERSION": "",
        "EXTRAS": extras,
        **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))},
    }
    # A work tree that would be imported from.
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("pip.py", "venv.py", "json.py"):
        (tree / name).write_text("raise SystemExit('imported from the work tree')\n")
    install.completed(["bash", "-c", f"cd '{tree}' && {script}"], **environment)
    (place,) = (tmp_path / "path").read_text().split()

    assert os.listdir(place) == ["cortex-replay"]  # noqa: PTH208 - names
    done = subprocess.run([f"{place}/cortex-replay", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("cortex-replay, version")
    subprocess.run([f"{place}/cortex-replay", "init", "--ci", "github"], cwd=tree, check=True)
    assert (tree / ".github/workflows/cortex-replay.yml").is_file(), "the wheel has what it writes"
    python = tmp_path / "cortex-replay/venv/bin/python"
    has_remote = subprocess.run([python, "-c", "import obstore"], capture_output=True, check=False)
    assert (has_remote.returncode == 0) == (extras == "remote")


@pytest.fixture
def forge() -> Iterator[Forge]:
    with forge_server() as serving:
        yield serving


@pytest.fixture
def review(forge: Forge, tmp_path: Path) -> Review:
    return Review(make_origin(tmp_path / "origin"), forge, tmp_path)


def test_without_a_pull_request_there_is_only_the_page(review: Review, forge: Forge) -> None:
    job = review.run(event="push", command=COMMAND)

    assert not job.has_failed, job.ran["Compare"].output
    assert outputs(job)["tier"] == ""
    assert Path(job.ran["Keep the page"].given["path"]).is_file()
    assert "Comment on the pull request" not in job.ran
    assert forge.asked == []


@pytest.mark.parametrize(("base", "tier"), [("main", "contract"), ("feature", "same")])
def test_a_branch_can_be_named_that_the_checkout_lacks(review: Review, base: str, tier: str) -> None:
    job = review.run(event="push", base=base)

    assert not job.has_failed
    assert outputs(job)["tier"] == tier


def test_a_base_that_is_nowhere_is_said(review: Review) -> None:
    job = review.run(base="no-such-branch")

    assert job.ran["Compare"].status == 1
    assert "::error::The commit to compare with (no-such-branch)" in job.ran["Compare"].output


def test_what_the_base_has_recorded_since_is_no_change_of_the_request(review: Review) -> None:
    """The event names where the base was when the request was opened, or last pushed to."""
    origin = review.origin
    git(origin, "switch", "-q", "main")
    record(origin, three=calls("of_main"))
    commit(origin, "Record on main")
    git(origin, "branch", "-qD", "merge")
    git(origin, "switch", "-qc", "merge")
    merge = ("merge", "-q", "--no-commit", "-X", "theirs", "feature")
    subprocess.run(["git", *merge], cwd=origin, check=False, capture_output=True)
    program = [sys.executable, "-m", "cortex_replay", "resolve", "--store", "llm", "--theirs"]
    subprocess.run(program, cwd=origin, check=False, capture_output=True)
    commit(origin, "Merge")
    job = review.run()

    assert not job.has_failed, job.ran
    assert outputs(job)["tier"] == "contract"
    assert "of_main" not in (job.temporary / "summary.md").read_text()


def test_a_merge_of_the_user_s_own_says_nothing_of_the_base(review: Review) -> None:
    """Who checks out the branch of the request may find there that main was merged into it."""
    origin = review.origin
    git(origin, "switch", "-q", "main")
    (origin / "README.md").write_text("New on main.\n")
    commit(origin, "Go on")
    git(origin, "switch", "-q", "feature")
    git(origin, "merge", "-q", "--no-edit", "main")
    job = review.run(checkout="feature")

    assert outputs(job)["tier"] == "contract", "all of the branch, not only what that merge brought"


def test_a_forge_that_refuses_the_token_fails_nothing(review: Review) -> None:
    job = review.run(token="wrong")

    assert not job.has_failed
    assert job.ran["Comment on the pull request"].status == 1


def test_a_base_whose_store_is_broken_does_not_fail_the_request_that_mends_it(review: Review) -> None:
    origin = review.origin
    git(origin, "switch", "-q", "main")
    broken = next((origin / "llm/fixtures").rglob("*.json"))
    whole = broken.read_bytes()
    broken.write_bytes(whole.replace(b'"m"', b'"n"'))
    commit(origin, "Break")
    git(origin, "switch", "-qc", "mend")
    broken.write_bytes(whole)
    commit(origin, "Mend")
    git(origin, "switch", "-q", "-C", "merge", "main")
    git(origin, "merge", "-q", "--no-ff", "--no-edit", "mend")
    job = review.run(command=COMMAND)

    assert not job.has_failed, job.ran
    assert job.ran["Verify the store"].status == 0
