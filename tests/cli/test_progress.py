"""Progress, where a person is watching."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.builder import StoreBuilder
from tests.cli.commands import at_a_terminal, batch_file, question, run


def test_long_work_shows_a_bar(tmp_path: Path) -> None:
    """At a terminal, for thousands of files."""
    builder = StoreBuilder(tmp_path)
    for i in range(2100):
        builder.add(f"{i}", "a")
    builder.write()

    assert "verifying" in at_a_terminal("verify", tmp_path, TERM="xterm")
    assert run("verify", tmp_path).output == ""


@pytest.mark.usefixtures("in_a_folder")
def test_calls_to_a_model_show_how_far_they_are() -> None:
    """A batch and a refresh, at a terminal; the line is wiped out at the end."""
    Path("slow.toml").write_text('[[rule]]\nsay = "Fine."\ndelay_ms = 60\n')
    scripted = ("--provider", "scripted", "--script", "slow.toml", "--jobs", "1")
    file = batch_file(*(question(n) for n in range(5)))
    for command in (("batch", file), ("refresh", "--check")):
        shown = at_a_terminal(*command, *scripted, TERM="xterm")

        assert re.search(r"\r[2-4]/5  \d+/s  \d+ tokens", shown), command
        assert re.search(r"\r +\r5 (of 5|asked again)", shown), command
    assert "/s" not in run(*command, *scripted).output
