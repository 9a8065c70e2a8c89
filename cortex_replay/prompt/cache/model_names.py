"""Names of models, as a cache's rules are looked up by them."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["ModelName"]


class ModelName(NamedTuple):
    """A model's name without what stands around it, such as a provider, a region or a folder."""

    name: str
    family: str
    version: tuple[int, ...]
    """Empty where the name has none."""

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """Read a name such as ``us.anthropic.claude-opus-4-6-v1:0`` or ``claude-3-5-haiku-latest``."""
        name = re.sub(r"^.*(?=claude|gemini)|^.*/", "", text.lower()).replace(".", "-").replace("@", "-")
        # Claude 3 had its version in front of the family.
        name = re.sub(r"^claude-(\d(?:-\d)?)-(opus|sonnet|haiku)", r"claude-\2-\1", name)
        found = re.match(r"([a-z]+(?:-[a-z]+)*?)-?(\d{1,2}(?:-\d{1,2}(?!\d))*)(?!\d)", name)
        if not found:
            return cls(name, name, ())
        return cls(name, found[1], tuple(map(int, found[2].split("-"))))

    def covers(self, other: ModelName) -> bool:
        """Whether the other is this one, perhaps with a date or a tag behind it."""
        rest = other.name.removeprefix(self.name)
        is_other_version = re.match(r"-\d{1,2}(?!\d)", rest) is not None
        return other.name.startswith(self.name) and (not rest or rest[0] in "-:") and not is_other_version

    def is_before(self, other: ModelName) -> bool:
        """Whether it is an earlier one of the same family."""
        return bool(self.version) and self.family == other.family and self.version < other.version
