"""Documents that people look at: without secrets in texts, and in the names of fields."""

from __future__ import annotations

from cortex_replay.canonical import JsonValue
from cortex_replay.redact.redactor import Redactor

__all__ = ["without_secrets"]


def without_secrets(value: JsonValue, redactor: Redactor) -> JsonValue:
    """The value with each of its strings redacted, and each name: a model chooses those, too."""
    clean, _ = redactor.json(value)
    return value if clean is value else _clean_names(clean, redactor, {})  # the same: nothing looks like one


def _clean_names(value: JsonValue, redactor: Redactor, known: dict[str, str]) -> JsonValue:
    """The value without secrets in names.

    Args:
        value: Without secrets otherwise.
        redactor: Takes them out.
        known: The names that were looked at already; most stand in many places.
    """
    if isinstance(value, list):
        return [_clean_names(item, redactor, known) for item in value]
    if not isinstance(value, dict):
        return value
    for name in value.keys() - known.keys():
        known[name] = redactor.text(name)[0]
    return {known[name]: _clean_names(item, redactor, known) for name, item in value.items()}
