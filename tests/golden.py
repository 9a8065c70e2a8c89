"""Reading the golden vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent / "vectors"
REPLAY_FIXTURES = VECTORS / "replay_fixtures"
SHORT_STORE = VECTORS / "short_store"


def _integer(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)


def read_vectors(name: str) -> list[Any]:
    """The lines of one vector file. Strings hold raw line separators, so only ``\\n`` ends a line;
    some lines hold duplicate keys on purpose, so this is not the strict reader."""
    text = (VECTORS / name).read_bytes().decode()
    return [json.loads(line, parse_int=_integer) for line in text.split("\n") if line]
