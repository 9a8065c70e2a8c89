"""What one call after another got under one key, as far as the next has to know it.

Several answers are staged as a list, or as one answer where all say the same. A line knows what they say
without looking at each of them again, so that the thousandth answer is staged as fast as the second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cortex_replay.store import Answer
from cortex_replay.store.changes import essence_of_answer

if TYPE_CHECKING:
    from cortex_replay.store.growing import Growing

__all__ = ["Line"]


@dataclass(slots=True)
class Line:
    """The answers of a key that a scope has staged."""

    staged: Growing
    given: int
    """How many calls have got one."""
    version: int
    """Of the redactor, when all of them were staged: what it has learned since was not cut out of them."""
    kept: Answer
    """The last one, as it is stored."""
    essences: list[bytes]
    _known: Counter[bytes] | None = None

    @classmethod
    def of(cls, staged: Growing, given: int, version: int, kept: Answer, answers: Sequence[Answer]) -> Line:
        """The line of what was staged as a whole just now.

        Args:
            staged: Where.
            given: How many calls have got an answer.
            version: Of the redactor.
            kept: The last answer, as it is stored.
            answers: All of them, and those that were recorded before for later calls.
        """
        return cls(staged, given, version, kept, [essence_of_answer(answer) for answer in answers])

    @property
    def _counts(self) -> Counter[bytes]:
        if self._known is None:  # most keys have one answer, and there are many
            self._known = Counter(self.essences)
        return self._known

    @property
    def is_one(self) -> bool:
        """Whether all say the same, so that one answer is staged for all of them."""
        return len(self._counts) == 1

    def tells_nothing_new(self, answer: Answer) -> bool:
        """Whether what is staged serves the next call as it is. What nobody has counted yet is news."""
        is_same = self.is_one and essence_of_answer(answer) in self._counts
        is_counted = self.kept.usage is not None or "usage" in (self.kept.meta or {})
        return is_same and (is_counted or answer.usage is None)

    def stays_a_list(self, answer: Answer) -> bool:
        """Whether the answers differ, before and after the next one comes."""
        essence, place = essence_of_answer(answer), self.given
        if self.is_one:
            return False
        replaced = self.essences[place] if place < len(self.essences) else None
        rest = len(self._counts) - (replaced is not None and self._counts[replaced] == 1)
        return rest > 1 or essence not in self._counts or essence == replaced

    def go_on(self, answer: Answer, kept: Answer) -> None:
        """The next call has got an answer, which is staged."""
        essence, place = essence_of_answer(answer), self.given
        if place < len(self.essences):
            replaced = self.essences[place]
            self._counts[replaced] -= 1
            if not self._counts[replaced]:
                del self._counts[replaced]
        self.essences[place : place + 1] = [essence]
        self._counts[essence] += 1
        self.given, self.kept = self.given + 1, kept
