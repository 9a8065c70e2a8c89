"""The recorder: wraps any adapter and writes down what it answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from cortex_replay.adapters.base import LlmAdapter
from cortex_replay.canonical import JsonValue
from cortex_replay.config import Settings
from cortex_replay.engine.adapter import ScopeAdapter
from cortex_replay.engine.claims import MemoryClaims
from cortex_replay.engine.core import RunCore
from cortex_replay.engine.run_names import RUN_VARIABLE, process_run_name
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.redact.settings import redactor_for
from cortex_replay.store import Store
from cortex_replay.store.writer import CommitSummary

__all__ = ["RecordingAdapter"]

_CLAIMS: Final[WeakKeyDictionary[Store, MemoryClaims]] = WeakKeyDictionary()
"""Adapters that share a store are one run."""


class RecordingAdapter(ScopeAdapter):
    """Answers from what it wraps, and records it; or from the store, as its mode says.

    One adapter is one scope: its n-th call of a key is answer n. Adapters that share a
    :class:`Store`, and processes that share a run, make one call where several of them need the same
    answer. A call that fails or is cancelled records nothing.

    What was recorded is staged at once and committed when the adapter is closed.

    Args:
        inner: What to ask.
        store: Where to record: an open :class:`Store`, or the root of one, which is made if it is not
            there.
        mode: ``once`` asks only what is not recorded, ``record`` asks everything and overwrites,
            ``replay`` never asks, ``live`` only asks.
        redactor: What to cut out before anything is stored; by default, the keys in the environment and
            what looks like a secret.
        record_failures: Whether an error of the provider is an answer to be recorded too.
        commit_on_close: Whether closing commits; else whoever owns the store does.
        meta: What else each recording is to say of where it comes from.
    """

    def __init__(
        self,
        inner: LlmAdapter,
        store: str | os.PathLike[str] | Store,
        mode: AnyMode = Mode.ONCE,
        *,
        redactor: Redactor | None = None,
        record_failures: bool = False,
        commit_on_close: bool = True,
        meta: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self._mode = Mode.of(mode)
        opened = store if isinstance(store, Store) else Store.open_or_create(store)
        self._run = RunCore(
            opened,
            self._mode,
            lambda: redactor or redactor_for(Settings(), os.environ),
            record_failures=record_failures,
            claims=_CLAIMS.setdefault(opened, MemoryClaims()),
            name=None if RUN_VARIABLE in os.environ else process_run_name(),
        )
        super().__init__(self._run.open_scope(), inner, meta)
        self._commits_on_close = commit_on_close

    @property
    def mode(self) -> Mode:
        return self._mode

    async def commit(self) -> CommitSummary:
        """Commit what was recorded so far, by every adapter of this store."""
        return await asyncio.to_thread(self._run.commit)

    async def aclose(self) -> None:
        try:
            if self._commits_on_close and self._mode.writes:
                await self.commit()
        finally:
            self._run.leave_run()
            await super().aclose()
