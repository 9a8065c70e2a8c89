"""The action: its steps, run as a runner does, in a shallow checkout, with a GitHub that keeps comments.

More of it, also what needs a registry, is in `integration/test_ci.py`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.reviews import (
    ACTION,
    ARTIFACT,
    COMMAND,
    ROOT,
    Review,
    calls,
    commit,
    defaults,
    make_origin,
    outputs,
    record,
)
from tests.servers.forge import READER, Forge, forge_server
from tests.workflow_steps import Job, evaluate

HOSTILE: Final = "$(touch planted) `touch planted` '; touch planted; #"


@pytest.fixture
def forge() -> Iterator[Forge]:
    with forge_server() as serving:
        yield serving


@pytest.fixture
def review(forge: Forge, tmp_path: Path) -> Review:
    return Review(make_origin(tmp_path / "origin"), forge, tmp_path)


def told(job: Job) -> str:
    return "\n".join(f"{name}: {ran.status}\n{ran.output}" for name, ran in job.ran.items())


def test_a_pull_request_is_verified_replayed_compared_and_commented_on(review: Review, forge: Forge) -> None:
    job = review.run(command=COMMAND)

    assert not job.has_failed, told(job)
    assert "It is one." in job.ran["Replay"].output
    page = job.temporary / "cortex-replay/page.html"
    assert outputs(job) == {"status": "0", "tier": "contract", "page": str(page)}
    summary = (job.temporary / "summary.md").read_text()
    assert "| hits | 1 |" in summary
    assert "delete" in summary
    assert job.ran["Keep the page"].given["path"] == str(page)
    assert page.read_text()[:15].lower() == "<!doctype html>"
    assert [f'id="{name}"' in page.read_text() for name in ("data:change", "data:report")] == [True, True]
    (note,) = forge.notes
    assert note.body.startswith("<!-- cortex-replay diff -->\n")
    assert "delete" in note.body
    assert ARTIFACT in note.body

    record(review.origin, two=calls("search"))
    commit(review.origin, "Take it back")
    second = review.run(artifact="false")
    assert outputs(second)["tier"] == "words", told(second)
    assert "Keep the page" not in second.ran
    (note,) = forge.notes
    assert "delete" not in note.body, "the same comment, with what holds now"


def test_a_replay_that_fails_still_shows_the_change_and_then_fails(review: Review, forge: Forge) -> None:
    """Here in a job of a fork, whose token may only read: the summary has it, and a notice says so."""
    job = review.run(command=f"{COMMAND}\nexit 7", token=READER, fail_on="behaviour")

    assert job.has_failed
    assert (outputs(job)["status"], job.ran["Replay"].status) == ("7", 7)
    assert outputs(job)["tier"] == "contract"
    assert job.ran["Compare"].status == 4
    assert "Keep the page" in job.ran
    assert "delete" in (job.temporary / "summary.md").read_text()
    assert forge.notes == []
    assert "::notice::No comment was posted" in job.ran["Comment on the pull request"].output


def test_inputs_are_values_and_no_text_of_a_script(review: Review) -> None:
    """But for the command, which is one. A store that cannot be verified is not replayed."""
    names = ("store", "base", "fail_on", "artifact_name")
    job = review.run(command="touch ran", **dict.fromkeys(names, HOSTILE))

    assert job.has_failed
    assert "Replay" not in job.ran
    assert not list(review.place.rglob("planted"))


@pytest.mark.parametrize("base", ["--output=planted", "-Oplanted", "-c", "-", "--"])
def test_an_option_is_no_base(tmp_path: Path, base: str) -> None:
    environment = {"PATH": os.environ["PATH"], "RUNNER_TEMP": str(tmp_path), "NAMED_BASE": base}
    script = ROOT / "action/review.sh"
    done = subprocess.run(
        ["bash", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert (done.returncode, list(tmp_path.rglob("planted"))) == (2, [])
    assert "is no commit" in done.stdout


def test_scripts_hold_no_expression_and_each_is_run() -> None:
    """GitHub puts the value of an expression into the text of a script, where it would be run."""
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    scripts += [path.read_text() for path in (ROOT / "action").iterdir()]

    assert not any("${{" in script for script in scripts)
    for path in (ROOT / "action").iterdir():
        assert f'bash "$GITHUB_ACTION_PATH/action/{path.name}"' in scripts


@pytest.mark.parametrize(
    ("event", "inputs", "said"),
    [
        ("pull_request_target", {}, "start the workflow on pull_request"),
        ("push", {"version": "1.0 --index-url=http://evil.example"}, "no version"),
        ("push", {"version": "1.0;touch planted"}, "no version"),
        ("push", {"extras": "remote] @ http://evil.example ["}, "no list"),
    ],
)
def test_an_installation_that_must_not_be(
    tmp_path: Path, event: str, inputs: dict[str, str], said: str
) -> None:
    """Code of a stranger would run beside the secrets of the repository; or code from elsewhere."""
    step = next(step for step in ACTION["runs"]["steps"] if step["name"] == "Install cortex-replay")
    job = Job(
        tmp_path,
        tmp_path,
        {"inputs": defaults() | inputs, "github": {"event_name": event}},
        {"PATH": os.environ["PATH"], "GITHUB_ACTION_PATH": str(ROOT)},
    )
    job.run([step])

    assert job.ran["Install cortex-replay"].status == 2
    assert said in job.ran["Install cortex-replay"].output
    assert not (tmp_path / "cortex-replay").exists()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("inputs.a != ''", True),
        ("inputs.none == ''", True),
        ("!cancelled() && inputs.a == 'x' && inputs.b == 'x'", False),
        ("inputs.none || inputs.a", "x"),
        ("success()", False),
        ("(always() || inputs.a) && failure()", True),
    ],
)
def test_expressions_are_read_as_github_reads_them(text: str, value: object) -> None:
    assert evaluate(text, {"inputs": {"a": "x", "b": "it's"}}, has_failed=True) == value


@pytest.mark.parametrize("text", ["contains(inputs.a, 'x')", "secrets.X", "inputs.a +"])
def test_an_expression_that_is_not_known_is_refused(text: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        evaluate(text, {"inputs": {"a": "x"}})
