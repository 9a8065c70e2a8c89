"""What is asked again, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from cortex_replay.behaviour.differences import Difference, Tier, highest
from cortex_replay.behaviour.samples import judge
from cortex_replay.behaviour.values import Clean, as_it_is
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.lookup import LookUp
from cortex_replay.errors import BudgetSpent, LlmError, RecordingRefused
from cortex_replay.redact.redactor import Hit
from cortex_replay.run.targets import Target
from cortex_replay.store import Answer, Fixture
from cortex_replay.store.changes import essence_of_answer
from cortex_replay.store.store import StoredFixture
from cortex_replay.types import LlmRequest
from cortex_replay.wire import WIRES

__all__ = ["Plan", "Refresh"]

_ADAPTERS: Final = frozenset(["claude", "ollama", "openai-compat", "scripted", "echo"])
"""Those that have asked themselves, and do it again: they know a model by the digest of its bytes, say."""


@dataclass(eq=False)
class Refresh:
    """One fixture that is asked again, and what became of it."""

    stored: StoredFixture
    fixture: Fixture
    request: LlmRequest
    """What to ask: with the values of today."""
    target: Target
    look: LookUp
    """What is bound in it."""
    recorded: tuple[Answer, ...] = ()
    """Every recorded answer to this question, those of other scopes too: what varies there is no drift."""
    users: frozenset[str] = frozenset()
    """The tests and scopes that use it."""
    origin: dict[str, JsonValue] = field(default_factory=dict)
    """Who answers today."""
    after: list[tuple[Answer, list[Hit]]] = field(default_factory=list)
    """The answers of today, redacted and bound as those that are recorded are, and what was cut out."""
    error: LlmError | None = None
    """Why not all of them came."""
    is_confirmed: bool = True
    """Whether it was asked as often as it takes to tell drift from noise; the budget may have ended that."""
    refusal: RecordingRefused | None = None
    """Why they were not written."""
    written_to: str | None = None
    """The file that holds them now."""
    differences: list[Difference] = field(default_factory=list)
    """Where the answers of today have drifted from the recorded ones, the most important first."""

    @property
    def samples(self) -> list[Answer]:
        """The answers of today."""
        return [answer for answer, _ in self.after]

    @property
    def tier(self) -> Tier:
        """How much it has drifted, as far as that was seen: nothing where a call failed."""
        return Tier.SAME if self.error is not None else highest(self.differences)

    @property
    def is_beyond_budget(self) -> bool:
        """Whether it was left alone since the budget is spent."""
        return isinstance(self.error, BudgetSpent)

    @property
    def successors(self) -> list[tuple[Answer, list[Hit]]]:
        """The answers that would take the place of the recorded ones."""
        return self.after[: len(self.fixture.answers)]

    @property
    def has_changed(self) -> bool:
        """Whether an answer would be another one, were they written. Never where some are missing."""
        answers, successors = self.fixture.answers, self.successors
        return (
            self.error is None
            and len(successors) == len(answers)
            and any(
                essence_of_answer(before) != essence_of_answer(after)
                for before, (after, _) in zip(answers, successors, strict=True)
            )
        )

    @property
    def protocol(self) -> str | None:
        """The wire that it is asked over; ``None`` where an adapter asks."""
        wire, meta = self.fixture.answers[0].wire, self.fixture.meta or {}
        protocol = meta.get("wire") if wire is None else wire.get("protocol")
        if wire is None and meta.get("adapter") in _ADAPTERS:
            return None
        return str(protocol) if protocol in WIRES and self.target.speaks(protocol) else None

    def compare(self, clean: Clean) -> Tier:
        """Judge what has come so far; gives the highest tier.

        Args:
            clean: What cuts secrets out of texts: what was recorded may hold one that is known only now.
        """
        self.differences = self._compare(self.samples, clean)
        return highest(self.differences)

    def arrange(self) -> None:
        """Where more answers came than are recorded, put those first that differ most: a reviewer is to find
        in the store what the report speaks of."""
        if len(self.after) > len(self.fixture.answers):
            self.after.sort(key=lambda one: -highest(self._compare([one[0]], as_it_is)))

    def _compare(self, samples: list[Answer], clean: Clean) -> list[Difference]:
        return judge(self.recorded or self.fixture.answers, samples, self.fixture.request, clean=clean)


@dataclass(frozen=True)
class Plan:
    """What is asked again, and what is not."""

    items: list[Refresh]
    skipped: list[tuple[StoredFixture, str]]
    """What cannot be asked, each with the reason."""
    exchanges: list[str]
    """The files of calls that are recorded as they are, such as embeddings; those are never asked again."""
    tools: list[str]
    """The files of calls of tools, which may do something each time."""
