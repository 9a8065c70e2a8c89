"""The page about redaction says what is, and its example runs."""

from __future__ import annotations

import re
from pathlib import Path

from cortex_replay.redact.search import rule_names

PAGE = (Path(__file__).parents[2] / "docs" / "redaction.md").read_text(encoding="utf-8")


def test_every_rule_is_in_the_table_and_the_table_has_no_other() -> None:
    """By its name, in the first column."""
    table = PAGE.partition("## What is found")[2].partition("\n\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]

    assert sorted(re.findall("`([^`]+)`", "".join(cells))) == sorted(rule_names())


def test_the_example_runs() -> None:
    """As it stands there."""
    code = PAGE.partition("```python\n")[2].partition("```")[0]
    exec(compile(code, "redaction.md", "exec"), {})
