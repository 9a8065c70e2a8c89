"""The summary of a GitHub job, in which names of strangers stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.redact.process import learn_secret
from cortex_replay.run.step_summary import write_step_summary


def summary(folder: Path, rows: dict[str, object]) -> list[str]:
    file = folder / "summary.md"
    write_step_summary({"GITHUB_STEP_SUMMARY": str(file)}, "title", rows, [])
    return file.read_text().splitlines()[4:-1]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a|b", r"a\|b"),
        ("<img src=x>", r"\<img src=x\>"),
        ("![x](y)", r"!\[x\](y)"),
        ("`::error::`", r"\`::error::\`"),
        ("\x1b\n| x", r"\\x1b \| x"),
    ],
)
def test_a_server_s_name_is_nothing_but_text(tmp_path: Path, name: str, shown: str) -> None:
    assert summary(tmp_path, {name: name}) == [f"| {shown} | {shown} |"]


def test_a_secret_is_found_whatever_marks_are_in_it(tmp_path: Path) -> None:
    secret = "s3cr3t*Zq8vN2xK7mW|Pf5tR9w"
    learn_secret(secret)

    assert "Zq8vN2xK7mW" not in summary(tmp_path, {"server": secret})[0]
