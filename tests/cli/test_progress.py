"""Progress, where a person is watching."""

from __future__ import annotations

import re
import sys
from io import StringIO
from pathlib import Path

import pytest

from cortex_replay.cli.progress import call_progress, progress_bar, step_bar, wait_line
from tests.builder import StoreBuilder
from tests.cli.commands import at_a_terminal, batch_file, question, run


def test_long_work_shows_a_bar(tmp_path: Path) -> None:
    """At a terminal, for thousands of files."""
    builder = StoreBuilder(tmp_path)
    for i in range(2100):
        builder.add(f"{i}", "a")
    builder.write()

    shown = at_a_terminal("verify", tmp_path, TERM="xterm")
    assert "verifying" in shown
    assert "100%" in shown
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
        assert "\r5/5  " in shown, command
        assert re.search(r"\r +\r5 (of 5|asked again)", shown), command
    assert "/s" not in run(*command, *scripted).output


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def watch(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_work_that_is_done_fills_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever works tells of it now and then only, and not at the end."""
    terminal = watch(monkeypatch)
    with progress_bar("reading") as progress:
        assert progress is not None
        progress(2500, 3000)
        assert "100%" not in terminal.getvalue()
    with step_bar(["a", "b"], "sweeping") as steps:
        assert list(steps) == ["a", "b"]

    bars = terminal.getvalue().split("\n")
    assert [("83%" in bars[0], "100%" in bar) for bar in bars if bar] == [(True, True), (True, True)]


def test_work_that_fails_leaves_its_bar_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watch(monkeypatch)

    def work() -> None:
        with progress_bar("reading") as progress:
            assert progress is not None
            progress(2500, 3000)
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        work()

    assert "83%" in terminal.getvalue()
    assert "100%" not in terminal.getvalue()


def test_the_last_call_is_counted_however_soon_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watch(monkeypatch)
    with call_progress(2, lambda: 7) as show:
        show(1, 0)
        show(2, 1)

    assert terminal.getvalue().startswith("\r2/2  ")
    assert "7 tokens  1 failed" in terminal.getvalue()


def test_what_is_waited_for_is_shown_and_wiped_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server names what is waited for, so it steers nothing."""
    with wait_line() as show:
        show("tools/list")
    assert capsys.readouterr().err == "", "nobody is watching"
    monkeypatch.setattr("cortex_replay.cli.output.is_terminal", lambda _: True)
    with wait_line() as show:
        show("files: resources\x1b[2J")
        show("files: a")

    shown = capsys.readouterr().err
    assert "\x1b[2J" not in shown
    assert re.search(r"\rfiles: a … *\r +\r$", shown)
