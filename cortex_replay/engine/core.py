"""What all scopes of one run share, and the scopes themselves."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Final
from weakref import WeakKeyDictionary

from cortex_replay.canonical import JsonValue
from cortex_replay.config.key_rules import Further
from cortex_replay.engine.budget import Budget
from cortex_replay.engine.claims import Claims, FileClaims, FileSpending, MemoryClaims, RunFolder
from cortex_replay.engine.exchanges import Exchanges
from cortex_replay.engine.ledger import Ledger
from cortex_replay.engine.scope import HOW_TO_RECORD, Observer, Scope
from cortex_replay.errors import InvalidRequest
from cortex_replay.hashing import blake3_hex
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Store
from cortex_replay.store.writer import CommitSummary

__all__ = ["RUN_VARIABLE", "RunCore", "scope_name"]

RUN_VARIABLE = "CORTEX_REPLAY_RUN"
"""Names the run that this process is a part of; set by the outermost process."""

_MOST_SCOPES_KEPT: Final = 4096
"""Of those that have not counted anything yet."""
_MOST_TURNS: Final = 100_000
_LONGEST_NAME: Final = 512
_MEMORY_CLAIMS: WeakKeyDictionary[Store, MemoryClaims] = WeakKeyDictionary()


def scope_name(name: str) -> str:
    """A name that takes little room, and is not that of another scope."""
    if len(name) <= _LONGEST_NAME:
        return name
    digest = blake3_hex(name.encode("utf-8", "surrogatepass"))
    return f"{name[: _LONGEST_NAME - len(digest)]}{digest}"


class RunCore:
    """The store, mode, redactor, budget, ledger and claims of one run, for everything that answers in it.

    Args:
        store: What is recorded, and where to record; or the way to open it.
        mode: What to do with a call.
        redactor: What to cut out before anything is stored, shown or said about a miss; made when needed.
        budget: How many calls and tokens it may cost.
        record_failures: Whether errors of providers are answers to be recorded.
        how_to_record: The command that would record what is missing, for messages.
    """

    def __init__(
        self,
        store: Store | Callable[[], Store],
        mode: AnyMode,
        redactor: Callable[[], Redactor],
        *,
        budget: tuple[int | None, int | None] = (None, None),
        record_failures: bool = False,
        how_to_record: str = HOW_TO_RECORD,
    ) -> None:
        self.mode = Mode.of(mode)
        self.record_failures = record_failures
        self.how_to_record = how_to_record
        self.ledger = Ledger(lambda: self.redactor)
        self._store = store
        self._redactor: Redactor | Callable[[], Redactor] = redactor
        self._limits = budget
        self._budget: Budget | None = None
        self._claims: Claims | None = None
        self._folder: RunFolder | None = None
        self._exchanges: Exchanges | None = None
        self._scopes: dict[str, Scope] = {}
        self._turns = 0
        self._lock = threading.RLock()

    @property
    def store(self) -> Store:
        """What is recorded, opened when it is first needed."""
        if not isinstance(self._store, Store):
            with self._lock:
                if not isinstance(self._store, Store):
                    self._store = self._store()
        return self._store

    @property
    def redactor(self) -> Redactor:
        if not isinstance(self._redactor, Redactor):
            with self._lock:  # there is one: what it learns holds everywhere
                if not isinstance(self._redactor, Redactor):
                    self._redactor = self._redactor()
        return self._redactor

    @property
    def budget(self) -> Budget:
        """What this run may spend; all processes of it together, if it has several."""
        with self._lock:
            if self._budget is None:
                folder = self._run_folder() if self._limits != (None, None) else None
                spending = None if folder is None else FileSpending(folder)
                self._budget = Budget(*self._limits, spending=spending)
            return self._budget

    @property
    def claims(self) -> Claims:
        """Who asks, of all that need the same answer: those of this process, or of all of the run."""
        with self._lock:
            if self._claims is None:
                folder = self._run_folder()
                if folder is None:
                    self._claims = _MEMORY_CLAIMS.setdefault(self.store, MemoryClaims())
                else:
                    self._claims = FileClaims(folder)
            return self._claims

    def _run_folder(self) -> RunFolder | None:
        run = os.environ.get(RUN_VARIABLE, "")
        if run and self._folder is None:
            self._folder = RunFolder(self.store.run_folder(run))
        return self._folder

    @property
    def exchanges(self) -> Exchanges:
        """The opaque exchanges of all scopes that stage in the run's own store."""
        with self._lock:
            if self._exchanges is None:
                self._exchanges = Exchanges(self, self.store)
            return self._exchanges

    def scope(self, name: str = "") -> Scope:
        """The scope of a name; one that was not opened is as the run is."""
        scope = self._scopes.get(name)
        if scope is None:
            scope = Scope(self, self.store, self.mode, name, how_to_record=self.how_to_record)
            if len(self._scopes) < _MOST_SCOPES_KEPT:
                scope = self._scopes.setdefault(name, scope)
        return scope

    def open_scope(
        self,
        name: str | None = None,
        *,
        mode: AnyMode | None = None,
        is_branch: bool = False,
        normalisers: Further | None = None,
        observer: Observer | None = None,
        how_to_record: str | None = None,
        meta: Mapping[str, JsonValue] | None = None,
        environment: Mapping[str, str] | None = None,
        explain: bool = True,
    ) -> Scope:
        """A scope of its own: the n-th call of a key in it is answer n.

        Args:
            name: What calls over HTTP find it by, until it is closed; ``None`` if only its owner has it.
            mode: If not that of the run.
            is_branch: Whether its recordings are kept or dropped by themselves.
            normalisers: Further ones, for this scope alone.
            observer: Is told every call and the answer that it got, where there is one.
            how_to_record: If not as for the run.
            meta: What its recordings are to say of where they come from.
            environment: Where keys are, if not where the run has them.
            explain: Whether a miss says what is nearest and what differs. It quotes what others asked, and
                looks through the whole store: not for callers that should see neither.
        """
        chosen = self.mode if mode is None else Mode.of(mode)
        store = self.store.branch() if is_branch and chosen.writes else self.store
        if normalisers:
            store = store.with_normalisers(normalisers)
        scope = Scope(
            self,
            store,
            chosen,
            scope_name(name or ""),
            is_opened=True,
            is_branch=is_branch and chosen.writes,
            observer=observer,
            how_to_record=how_to_record or self.how_to_record,
            meta=meta or {},
            environment=environment,
            explains=explain,
        )
        if name is not None:
            self._scopes[scope.name] = scope
        return scope

    def close_scope(self, scope: Scope) -> None:
        """Forget a scope: who asks under its name from now on asks in a new one."""
        if self._scopes.get(scope.name) is scope:
            del self._scopes[scope.name]

    def keep_scope(self, scope: Scope) -> Scope:
        """The scope that counts the turns of its name, which from now on is not forgotten.

        Raises:
            InvalidRequest: Somebody has had very many counted.
        """
        with self._lock:
            self._turns += 1
            if self._turns > _MOST_TURNS and not scope.mode.asks:
                raise InvalidRequest("scope", f"more than {_MOST_TURNS} were counted in this run; start anew")
            return self._scopes.setdefault(scope.name, scope)

    def commit(self) -> CommitSummary:
        """Commit what was recorded so far, by every scope that is no branch."""
        return self.store.commit()

    def leave_run(self) -> None:
        """Be no part of a run of several processes any more; with the last of them, it ends."""
        with self._lock:
            if self._folder is not None:
                self._folder.close()
                self._folder = self._claims = self._budget = None
