"""What is asked again, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.lookup import LookUp
from cortex_replay.errors import BudgetSpent, LlmError
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


@dataclass
class Refresh:
    """One fixture that is asked again, and what became of it."""

    stored: StoredFixture
    fixture: Fixture
    request: LlmRequest
    """What to ask: with the values of today."""
    target: Target
    look: LookUp
    """What is bound in it."""
    users: frozenset[str] = frozenset()
    """The tests and scopes that use it."""
    origin: dict[str, JsonValue] = field(default_factory=dict)
    """Who answers today."""
    after: list[tuple[Answer, list[Hit]]] = field(default_factory=list)
    """The answers of today, redacted and bound as those that are recorded are, and what was cut out."""
    error: LlmError | None = None

    @property
    def is_beyond_budget(self) -> bool:
        """Whether it was left alone since the budget is spent."""
        return isinstance(self.error, BudgetSpent)

    @property
    def pairs(self) -> list[tuple[Answer, Answer]]:
        return list(zip(self.fixture.answers, (answer for answer, _ in self.after), strict=False))

    @property
    def has_changed(self) -> bool:
        return self.error is None and any(
            essence_of_answer(before) != essence_of_answer(after) for before, after in self.pairs
        )

    @property
    def protocol(self) -> str | None:
        """The wire that it is asked over; ``None`` where an adapter asks."""
        wire, meta = self.fixture.answers[0].wire, self.fixture.meta or {}
        protocol = meta.get("wire") if wire is None else wire.get("protocol")
        if wire is None and meta.get("adapter") in _ADAPTERS:
            return None
        return str(protocol) if protocol in WIRES and self.target.speaks(protocol) else None


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
