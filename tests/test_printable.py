from __future__ import annotations

import pytest

from cortex_replay.printable import defuse_commands, escape_controls


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain äöü 日本 🙂\n\tnext", "plain äöü 日本 🙂\n\tnext"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\rb", r"a\rb"),
        ("a\x00b\x7f", r"a\x00b\x7f"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u2028b", r"a\u2028b"),
        ("a\ud800b", r"a\ud800b"),
        ("a\U000e0041b", r"a\U000e0041b"),
        ("##[error]x", r"#\x23[error]x"),
        ("x ##vso[task.setvariable]y", r"x #\x23vso[task.setvariable]y"),
        ("## a heading", "## a heading"),
    ],
)
def test_what_could_steer_a_terminal_is_escape_controls(written: str, shown: str) -> None:
    assert escape_controls(written) == shown
    assert escape_controls(shown) == shown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("::set-output name=a::b", r"\x3a:set-output name=a::b"),
        ("a\n  ::error::b", "a\n  \\x3a:error::b"),
        ("a::b", "a::b"),
    ],
)
def test_no_line_is_a_command_to_a_runner(written: str, shown: str) -> None:
    assert defuse_commands(written) == shown
