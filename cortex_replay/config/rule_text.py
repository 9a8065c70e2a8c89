"""Rules for bindings as they stand in a configuration, and how more of them get there.

Nobody's file is written anew: what is there stays to the last byte, and the rules are put at the end.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from typing import Any

from cortex_replay.bindings import PlaceRule
from cortex_replay.config.files import MAX_BYTES
from cortex_replay.errors import ConfigError

__all__ = ["append_rules", "rule_lines"]


def rule_lines(rule: PlaceRule, prefix: str) -> list[str]:
    """A rule as it stands in a configuration.

    Args:
        rule: What to write.
        prefix: What stands before the names of settings in the file.
    """
    named = {"bind": rule.bind, "before": rule.before, "after": rule.after, "learned": rule.learned}
    written = [f"{name} = {_toml_text(text)}" for name, text in named.items() if text]
    return [f"[[{prefix}bindings.rules]]", *written]


def append_rules(data: bytes, shown: str, prefix: str, rules: Sequence[PlaceRule]) -> bytes:
    """A file of settings with rules at its end.

    Args:
        data: The file as it is; nothing where there is none yet.
        shown: Its path, for a message.
        prefix: What stands before the names of settings in it.
        rules: What to add.

    Raises:
        ConfigError: They cannot go at the end of this file; the message says what to write where.
    """
    line = b"\r\n" if b"\r\n" in data else b"\n"
    blocks = [line.join(text.encode() for text in (*rule_lines(rule, prefix), "")) for rule in rules]
    start = data if not data or data.endswith(line) else data + line
    made = line.join([start, *blocks] if start else blocks)
    if len(made) > MAX_BYTES:
        raise ConfigError(shown, f"would be larger than {MAX_BYTES} bytes with the rules in it")
    before, after = _parse(data), _parse(made)
    names = [name for name in prefix.split(".") if name]
    if before is None or after is None or after != _with(before, names, rules):
        lines = "\n".join(text for rule in rules for text in rule_lines(rule, prefix))
        raise ConfigError(shown, f"has its bindings in another form; add these rules to them:\n{lines}")
    return made


def _toml_text(text: str) -> str:
    # JSON's escapes are TOML's, too; of what must be escaped, JSON leaves only DEL as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _parse(data: bytes) -> dict[str, Any] | None:
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        return None


def _with(tables: dict[str, Any], names: list[str], rules: Sequence[PlaceRule]) -> dict[str, Any]:
    """What a file says that has these rules besides."""
    if names:
        inner = tables.get(names[0], {})
        return {**tables, names[0]: _with(inner, names[1:], rules)} if isinstance(inner, dict) else {}
    bindings = tables.get("bindings", {})
    there = bindings.get("rules", []) if isinstance(bindings, dict) else []
    new = [tomllib.loads("\n".join(rule_lines(rule, "")))["bindings"]["rules"][0] for rule in rules]
    return {**tables, "bindings": {**bindings, "rules": [*there, *new]}}
