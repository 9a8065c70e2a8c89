"""Text that others wrote, as it may be shown on a terminal or in the log of a CI job."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["RUNNER_COMMAND", "UNPRINTABLE", "defuse_commands", "escape_controls"]

UNPRINTABLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Controls, what reorders or hides text, line separators, halves of surrogate pairs. A fixed list,
because Python's own idea of what can be printed changes with its version of Unicode."""

RUNNER_COMMAND: Final = re.compile(r"##(?=[A-Za-z]{0,16}\[)")
"""The start of a command to a CI runner, wherever it stands: ``##[`` of GitHub, ``##teamcity[``, ``##vso[``
of Azure, which sets variables and paths of later steps."""

_COMMAND: Final = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
"""The start of a command to GitHub's runner, if a line begins with it."""


def _escape(match: re.Match[str]) -> str:
    if match[0] in "\n\t":
        return match[0]
    return match[0].encode("unicode_escape", "surrogatepass").decode()


def escape_controls(text: str) -> str:
    """Text of several lines in which what could steer a terminal is spelled out."""
    return RUNNER_COMMAND.sub(r"#\\x23", UNPRINTABLE.sub(_escape, text))


def defuse_commands(text: str) -> str:
    """The text without lines that a CI runner would take for commands."""
    return _COMMAND.sub(r"\1\\x3a", text)
