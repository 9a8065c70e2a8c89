"""The surroundings of a run, and the spellings of what is known of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

__all__ = ["NOWHERE", "Surroundings"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Values by name, each in the forms in which it occurs; the plain one is called ""."""

    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Why a value that is known is not bound: it is too short, or too common."""
    began: datetime | None = None
    """When the run began: what is later, is a time of this run."""

    def tokens(self) -> dict[str, str]:
        """Every value in every form, by its token."""
        return {
            f"{name}:{form}" if form else name: text
            for name, forms in self.values.items()
            for form, text in forms.items()
        }


NOWHERE: Final = Surroundings()
"""For recordings of which nobody knows where they were made."""
