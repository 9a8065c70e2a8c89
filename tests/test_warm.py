"""A fork of the program is as good as the program."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests import warm

ENVIRONMENT = {"PATH": os.environ["PATH"]}


@pytest.mark.parametrize(
    "arguments", [["--version"], ["verify", "--store", "nowhere"], ["no-such-command"], ["init", "--json"]]
)
def test_it_says_and_does_what_the_program_does(tmp_path: Path, arguments: list[str]) -> None:
    folders = [tmp_path / "forked/here", tmp_path / "executed/here"]
    for folder in folders:
        folder.mkdir(parents=True)
    env = {**ENVIRONMENT, "HOME": str(tmp_path)}
    forked = warm.run(arguments, cwd=folders[0], env=env)
    executed = subprocess.run(
        [warm.PROGRAM, *arguments], cwd=folders[1], env=env, capture_output=True, check=False
    )

    own = [str(folder).encode() for folder in folders]
    assert forked.returncode == executed.returncode
    assert forked.stdout.replace(own[0], own[1]) == executed.stdout
    assert forked.stderr.replace(own[0], own[1]) == executed.stderr
    names = [sorted(path.relative_to(folder) for path in folder.rglob("*")) for folder in folders]
    assert names[0] == names[1]


def test_it_takes_a_signal(tmp_path: Path) -> None:
    """And has the status of what was killed."""
    arguments = ["serve", "--store", "llm", "--json"]
    env = {**ENVIRONMENT, "HOME": str(tmp_path)}
    warm.run(["init", "--store", "llm"], cwd=tmp_path, env=env)
    with warm.start(arguments, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "url" in process.stdout.readline()
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


def test_what_is_for_python_is_executed(tmp_path: Path) -> None:
    """The fork's Python has started already."""
    env = {**ENVIRONMENT, "PYTHONHASHSEED": "0"}
    with warm.start(["--version"], cwd=tmp_path, env=env, stdout=subprocess.PIPE) as process:
        process.communicate()
    assert type(process) is subprocess.Popen
