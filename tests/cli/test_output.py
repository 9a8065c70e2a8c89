"""How results and errors are printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cortex_replay import Answer
from tests.builder import StoreBuilder, ask, fixture_of
from tests.cli.commands import (
    at_a_shell,
    at_a_terminal,
    run,
    spoil,
)


def test_colour_only_at_a_terminal_and_not_with_no_color(builder: StoreBuilder) -> None:
    """NO_COLOR means no escape sequence at all."""
    spoil(builder)

    assert "\x1b[" in at_a_terminal("verify", builder.root, TERM="xterm")
    assert "\x1b[" not in at_a_terminal("verify", builder.root, TERM="xterm", NO_COLOR="1")
    assert "\x1b[" not in run("verify", builder.root).output


def test_streams_that_are_closed_full_or_narrow(builder: StoreBuilder) -> None:
    """No traceback, and the right status."""
    builder.add_fixture(fixture_of(ask("漢字"), Answer("漢字")))
    builder.write()
    path = builder.fixtures[-1].path
    assert at_a_shell(f"cortex-replay verify {builder.root} 2>&-").returncode == 0
    assert at_a_shell(f"cortex-replay list --store {builder.root} 2>&-").returncode == 0
    full = at_a_shell(f"cortex-replay list --store {builder.root} > /dev/full")
    assert full.returncode == 1
    assert "error: " in full.stderr
    assert "Traceback" not in full.stderr
    narrow = at_a_shell(f"cortex-replay show {path} --store {builder.root}", PYTHONIOENCODING="latin-1")
    assert narrow.returncode == 0
    assert "\\u6f22" in narrow.stdout


def test_a_locale_that_cannot_spell_a_name(tmp_path: Path) -> None:
    """Is told, not shown as a traceback."""
    builder = StoreBuilder(tmp_path)
    builder.add_bytes(b"{}", fixture_of(ask("q"), Answer("")).key, "fixtures/é.json")
    builder.write()
    done = at_a_shell(f"cortex-replay verify {tmp_path}", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")

    assert done.returncode == 5
    assert "Traceback" not in done.stderr


def test_a_reader_that_stops_early_is_no_error(builder: StoreBuilder) -> None:
    """``cortex-replay list | head`` prints no traceback."""
    command = f"{sys.executable} -m cortex_replay list --store {builder.root} | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)

    assert done.stderr == ""
