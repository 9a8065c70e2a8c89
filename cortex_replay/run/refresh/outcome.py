"""What a refresh came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from cortex_replay.behaviour.differences import Tier
from cortex_replay.canonical import compact
from cortex_replay.hashing import blake3_hex
from cortex_replay.run.refresh.choosing import Choice
from cortex_replay.run.refresh.items import Plan, Refresh
from cortex_replay.types import LlmMessage, LlmRole

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
        replaced = {_starts(item)[-1] for item in self.written}
        known = [*self.choice.items, *self.choice.left] if replaced else []
        return [item for item in known if not replaced.isdisjoint(_ends_of_turns(item))]

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


def _messages(item: Refresh) -> tuple[LlmMessage, ...]:
    return () if item.fixture.request is None else item.fixture.request.messages


def _starts(item: Refresh) -> list[str]:
    """What stands for each start of a conversation: with no message, with one, and so on."""
    request = item.fixture.request
    first = compact([item.stored.model, "" if request is None else request.system])
    texts = (compact(message.to_dict()) for message in _messages(item))
    return list(accumulate(texts, lambda start, text: blake3_hex(f"{start}{text}".encode()), initial=first))


def _ends_of_turns(item: Refresh) -> Iterator[str]:
    """The starts of a conversation that a model has answered, as later turns have it."""
    for message, start in zip(_messages(item), _starts(item), strict=False):
        if message.role is LlmRole.ASSISTANT:
            yield start
