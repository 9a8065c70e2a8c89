"""Rules at the end of a configuration, with every byte before them as it was."""

from __future__ import annotations

import tomllib

import pytest

from cortex_replay.bindings import PlaceRule
from cortex_replay.config.rule_text import append_rules, rule_lines
from cortex_replay.errors import ConfigError

PID = PlaceRule(bind="pid", before="PGID: ", learned="call 2, message 3 (tool)")
ODD = PlaceRule(bind="path", before='say "\t\\\x7f𝄞', after="\x85.")


def test_a_rule_is_readable() -> None:
    assert rule_lines(PID, "tool.cortex-replay.") == [
        "[[tool.cortex-replay.bindings.rules]]",
        'bind = "pid"',
        'before = "PGID: "',
        'learned = "call 2, message 3 (tool)"',
    ]


@pytest.mark.parametrize(
    ("before", "prefix"),
    [
        (b"", ""),
        (b'store = "x"', ""),
        (b'store = "x"\n\n\n# the end', ""),
        (b'[bindings]\noff = ["date"]\n', ""),
        (b'[[bindings.rules]]\nbind = "port"\nbefore = "on port "\n', ""),
        (b'[project]\nname = "a"\r\n\r\n[tool.cortex-replay]\r\nstore = "x"\r\n', "tool.cortex-replay."),
        (b'[project]\nname = "a"\n', "tool.cortex-replay."),
    ],
)
def test_rules_go_to_the_end(before: bytes, prefix: str) -> None:
    made = append_rules(before, "x.toml", prefix, [PID, ODD])

    assert made.startswith(before)
    table = tomllib.loads(made.decode())
    for name in prefix.split(".")[:-1]:
        table = table[name]
    assert table["bindings"]["rules"][-2:] == [
        {"bind": "pid", "before": "PGID: ", "learned": "call 2, message 3 (tool)"},
        {"bind": "path", "before": 'say "\t\\\x7f𝄞', "after": "\x85."},
    ]
    assert append_rules(made, "x.toml", prefix, []) == made
    if b"\r\n" in before:
        assert b"\n" not in made.split(b"[tool.cortex-replay]")[1].replace(b"\r\n", b"")


@pytest.mark.parametrize(
    "before",
    [b"bindings = {off = []}\n", b"bindings.rules = []\n", b"[bindings]\nrules = []\n", b"bindings = 1\n"],
)
def test_where_they_cannot_go_to_the_end_you_are_told_what_to_write(before: bytes) -> None:
    with pytest.raises(ConfigError, match=r"(?s)x\.toml.*add these rules.*PGID: "):
        append_rules(before, "x.toml", "", [PID])


def test_a_file_does_not_outgrow_what_is_read() -> None:
    with pytest.raises(ConfigError, match="larger than"):
        append_rules(b"#" * 2**20, "x.toml", "", [PID])
