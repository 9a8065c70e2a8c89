"""What a refresh came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from cortex_replay.behaviour.differences import Tier
from cortex_replay.run.refresh.choosing import Choice
from cortex_replay.run.refresh.items import Plan, Refresh
from cortex_replay.types import LlmRole

__all__ = ["Outcome"]


@dataclass(frozen=True)
class Outcome:
    """What was asked, and what became of it."""

    plan: Plan
    choice: Choice
    is_sampled: bool = False
    """Whether the user wanted a part only: what the budget leaves out is then no failure."""
    is_check: bool = True
    """Whether only drift counts, or any other answer."""

    @property
    def beyond(self) -> list[Refresh]:
        """What was chosen, and left alone since the budget is spent."""
        return [item for item in self.choice.items if self.is_sampled and item.is_beyond_budget]

    @property
    def asked(self) -> list[Refresh]:
        """What was asked, well or not."""
        return [item for item in self.choice.items if not (self.is_sampled and item.is_beyond_budget)]

    @property
    def failed(self) -> list[Refresh]:
        """What was asked in vain, or could not be written."""
        return [item for item in self.asked if item.error is not None or item.refusal is not None]

    @property
    def written(self) -> list[Refresh]:
        """What is recorded anew."""
        return [item for item in self.asked if item.written_to is not None]

    @property
    def outdated(self) -> list[Refresh]:
        """What goes on from an answer that is another one now, so that a replay no longer asks it."""
        known = [*self.choice.items, *self.choice.left]
        replaced = [item for item in self.written if item.fixture.request is not None]
        return [item for item in known if any(_goes_on(item, earlier) for earlier in replaced)]

    @property
    def changed(self) -> list[Refresh]:
        """What gets another answer today, what matters most first."""
        found = [
            item for item in self.asked if item.tier > Tier.SAME or (item.has_changed and not self.is_check)
        ]
        return sorted(found, key=lambda item: -item.tier)

    def drifted(self, least: Tier) -> list[Refresh]:
        """What has drifted so much, or more."""
        return [item for item in self.changed if item.tier >= least]

    def tiers(self) -> Counter[Tier]:
        """How many recordings have drifted how much; without those that failed."""
        return Counter(item.tier for item in self.asked if item.error is None)


def _goes_on(item: Refresh, earlier: Refresh) -> bool:
    """Whether a conversation goes on from the recorded answer of an earlier turn."""
    whole, start = item.fixture.request, earlier.fixture.request
    if whole is None or start is None or whole.model != start.model or whole.system != start.system:
        return False
    turn = len(start.messages)
    return (
        len(whole.messages) > turn
        and whole.messages[turn].role is LlmRole.ASSISTANT
        and whole.messages[:turn] == start.messages
    )
