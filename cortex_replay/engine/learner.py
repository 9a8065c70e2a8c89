"""What a run asks about calls that it does not find, where something learns from them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from cortex_replay.bindings import Binder
from cortex_replay.engine.exchange_lookup import ExchangeLookUp
from cortex_replay.engine.lookup import LookUp
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import FixtureKey, Store
from cortex_replay.types import LlmRequest

__all__ = ["Asker", "CallLearner"]


class Asker(NamedTuple):
    """The scope of a call, as far as a learner has to know it."""

    store: Store
    owner: str
    """Whose recordings it gets."""
    binder: Binder
    """What binds values there, by the rules of the store."""
    redactor: Redactor


class CallLearner(Protocol):
    """Finds recordings that no key leads to. Most runs have none."""

    def look_up(self, asker: Asker, request: LlmRequest) -> LookUp | None:
        """What finds the recording of a call that was not found by its key, if it is to have one."""

    def look_up_call(self, asker: Asker, look: ExchangeLookUp) -> ExchangeLookUp | None:
        """The same for a call that is recorded as it is.

        Args:
            asker: Who asks.
            look: What found nothing.
        """

    def serve(self, asker: Asker, key: FixtureKey | str) -> None:
        """A call was answered."""

    def miss(self, explanation: str) -> None:
        """A call has no answer, for whatever reason."""
