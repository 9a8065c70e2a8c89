"""What a store may hold: text with a label above its clearance is not recorded into it.

The gate of `sensitivity.py` says what may be sent, and whoever starts a run may raise that. A store is
shared: others read it, and git keeps it. So its clearance is the ``max_sensitivity`` of the nearest
configuration above *its* root, and environment and flags have no say.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.config.files import find_config
from cortex_replay.config.load import load_from
from cortex_replay.redact.sensitivity import Sensitivity, is_above

__all__ = ["STORE_GATE", "clearance_for", "places_above"]

STORE_GATE: Final = "what this store may hold, the max_sensitivity of its configuration"
"""How an error names the limit."""


def clearance_for(store_root: Path) -> Sensitivity:
    """The highest label that the store at ``store_root`` may hold.

    Raises:
        ConfigError: The configuration is not sound; ``field`` says where.
    """
    file = find_config(store_root)
    return Sensitivity.of("medium" if file is None else load_from(file, {}, {}).settings.max_sensitivity)


def places_above(value: JsonValue, most: Sensitivity, place: str = "") -> Iterator[str]:
    """Where a text in a document is labelled above ``most``."""
    if isinstance(value, str):
        if is_above(value, most):
            yield place or "the text"
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from places_above(item, most, f"{place}[{i}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            inner = f"{place}.{name}" if place else name
            if is_above(name, most):
                yield f"a name in {place or 'the document'}"
            else:
                yield from places_above(item, most, inner)
