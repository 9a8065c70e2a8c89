"""Answers from a store, and from nowhere else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from cortex_replay.engine.adapter import ScopeAdapter
from cortex_replay.engine.core import RunCore
from cortex_replay.modes import Mode
from cortex_replay.store import Store
from cortex_replay.store.store import Verify

if TYPE_CHECKING:
    from cortex_replay.redact.redactor import Redactor

__all__ = ["ReplayAdapter"]


class ReplayAdapter(ScopeAdapter):
    """Replays what was recorded; a question that was never recorded is :class:`NoFixture`.

    It is a class to carry trust and a count: the store is checked when the adapter is made, and
    one adapter is one scope. In a scope the n-th call of a key gets the n-th recorded answer,
    where several were recorded; a fixture with one answer gives it every time.

    Args:
        store: The root of a store, or an open :class:`Store`.
        verify: How to check a store given by its path; see :meth:`Store.open`.
        explain: Whether a miss says what is nearest and what differs. It quotes what others asked, and looks
            through the whole store: not for callers that should see neither.
    """

    adapter_id: ClassVar[str] = "replay"

    def __init__(
        self, store: str | os.PathLike[str] | Store, verify: Verify = "full", *, explain: bool = True
    ) -> None:
        opened = store if isinstance(store, Store) else Store.open(store, verify=verify)

        def redactor() -> Redactor:
            from cortex_replay.misses.explanation import store_redactor  # noqa: PLC0415 - for misses alone

            return store_redactor(opened)

        super().__init__(RunCore(opened, Mode.REPLAY, redactor).open_scope(explain=explain))

    @property
    def fixture_count(self) -> int:
        """How many keys can be answered."""
        return len(self.store)
