"""Figures that prose quotes: ``<!-- figure: proof.kills.recorder.cases -->1,300<!-- / -->``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from integration.proof.figures import Number
from integration.proof.page import shown

__all__ = ["MARK", "PROSE", "restated"]

_ROOT: Final = Path(__file__).resolve().parents[2]
_GENERATED: Final = {"proof.md", "benchmarks.md", "clients.md", "agents.md", "migrating.md"}
"""Pages that a run writes, or tables of: other tests hold them to their files."""
PROSE: Final = (
    _ROOT / "README.md",
    *sorted(path for path in (_ROOT / "docs").glob("*.md") if path.name not in _GENERATED),
)
MARK: Final = re.compile(r"(?P<start><!-- figure: (?P<name>[\w.-]+) -->)(?P<text>.*?)(?P<end><!-- / -->)")


def restated(text: str, figures: Mapping[str, Number]) -> str:
    """The text with the figures that a run found; a mark that none is known for stays as it is."""

    def state(match: re.Match[str]) -> str:
        number = figures.get(match["name"])
        return match[0] if number is None else f"{match['start']}{shown(number)}{match['end']}"

    return MARK.sub(state, text)
