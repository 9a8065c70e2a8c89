"""What all scopes of one run share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cortex_replay.bindings import Binder, BindingRules, Surroundings
from cortex_replay.engine.budget import Budget
from cortex_replay.engine.call_log import CallLog
from cortex_replay.engine.claims import Claims, FileClaims, FileSlots, FileSpending, MemoryClaims, RunFolder
from cortex_replay.engine.kept_prompts import KeptPrompts
from cortex_replay.engine.ledger import Ledger
from cortex_replay.engine.mcp.rules import CallRules
from cortex_replay.engine.money import PriceList
from cortex_replay.engine.open_values import without_secrets
from cortex_replay.engine.run_names import RUN_VARIABLE, is_run_name, new_run_name, run_name_in
from cortex_replay.errors import LlmError
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Store

if TYPE_CHECKING:
    from cortex_replay.adapters.request_rate import RequestRate
    from cortex_replay.engine.fleet import Fleet
    from cortex_replay.engine.fork_names import ForkPlan
    from cortex_replay.engine.learner import CallLearner
    from cortex_replay.store.writer import CommitSummary

__all__ = ["HOW_TO_RECORD", "RunState"]

HOW_TO_RECORD: Final = (
    "wrap the adapter in RecordingAdapter, run the test once with --llm-mode once, "
    "or use `cortex-replay record`"
)
"""What a miss says where nobody knows how its program is started."""


class _Kept(NamedTuple):
    """What binds by the rules of one store, while the surroundings stay as they are."""

    rules: BindingRules
    state: object
    binder: Binder


class RunState:
    """The store, mode, redactor, budget, ledger and claims of one run, for everything that answers in it.

    Args:
        store: What is recorded, and where to record; or the way to open it.
        mode: What to do with a call.
        redactor: What to cut out before anything is stored, shown or said about a miss; made when needed.
        budget: How many calls and tokens it may cost.
        record_failures: Whether errors of providers are answers to be recorded.
        how_to_record: The command that would record what is missing, for messages.
        every_answer: Whether each answer to a question is recorded where calls name no scope; else the first.
        claims: Those of this process, if other runs share them.
        prices: What models cost, for what the ledger says of money.
        rates: How many requests a minute may go out to some providers, by name.
        surroundings: What is known of where it runs; by default what is known of this process.
        name: What its recordings say that they are of; by default a new one, or that of the run that this
            process is a part of.
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
        every_answer: bool = False,
        claims: MemoryClaims | None = None,
        prices: PriceList | None = None,
        rates: Mapping[str, int] | None = None,
        surroundings: Surroundings | None = None,
        name: str | None = None,
    ) -> None:
        self._name = name
        self.mode = Mode.of(mode)
        self.record_failures = record_failures
        self.how_to_record = how_to_record
        self.every_answer = every_answer
        self.ledger = Ledger(lambda: self.redactor, prices or PriceList())
        self.call_log: CallLog | None = None
        """What is asked, in order, for who wants to know; set before the first call."""
        self.call_rules = CallRules()
        """What becomes of MCP calls before a recording is looked for."""
        self.kept_prompts = KeptPrompts()
        """What a provider keeps under names that calls go on from."""
        self.fork_plan: ForkPlan | None = None
        """Where its scopes leave what is recorded, if they are to; set before the first call."""
        self.fork_name = ""
        """The fork whose answers its scopes get, if not those of the recorded run."""
        self.learner: CallLearner | None = None
        """What makes rules of calls that are not found, while a command is learned."""
        self._store = store
        self._redactor: Redactor | Callable[[], Redactor] = redactor
        self._limits = budget
        self._budget: Budget | None = None
        self._requests_per_minute = dict(rates or {})
        self._rates: dict[str, RequestRate] = {}
        self._own_claims = claims or MemoryClaims()
        self._claims: Claims | None = None
        self._folder: RunFolder | None = None
        self._fleet: Fleet | None = None
        self._has_sought_fleet = False
        self._no_fleet: LlmError | None = None
        self._surroundings = surroundings
        self._cwd = _working_folder()
        self._binders: dict[int, _Kept] = {}
        self._lock = threading.RLock()
        self._begin()

    def _begin(self) -> None:
        """What a subclass needs besides, before anybody has this run."""

    @property
    def name(self) -> str:
        """What recordings of this run say that they are of: the same in all processes of it."""
        with self._lock:
            if self._name is None:
                self._name = run_name_in(os.environ)
            if self._name is None and self._fleet is not None:
                self._name = self._fleet.name
            if self._name is None:
                folder = self._run_folder()
                self._name = new_run_name() if folder is None else folder.agree("name", new_run_name())
            return self._name

    @property
    def store(self) -> Store:
        """What is recorded, opened when it is first needed."""
        if not isinstance(self._store, Store):
            with self._lock:
                if not isinstance(self._store, Store):
                    self._store = self._store()
        if self.mode.writes and not self._has_sought_fleet:
            self.join_fleet()
        return self._store

    def join_fleet(self) -> Fleet | None:
        """What this process is a worker of, if its run is one of many machines: it has a name that the user
        gave it, and the store has a remote.

        Raises:
            ConfigError: The name of the run can be guessed.
            StoreIo: The bucket cannot be asked, or does not do what claims rest on.
        """
        run = os.environ.get(RUN_VARIABLE, "")
        with self._lock:
            if self._no_fleet is not None:
                raise self._no_fleet
            if not self._has_sought_fleet:
                self._store = store = self._store if isinstance(self._store, Store) else self._store()
                if run and not is_run_name(run):
                    try:
                        self._fleet = _fleet_for(store, run)
                    except LlmError as error:  # each test would wait for it anew
                        self._no_fleet = error
                        raise
                self._has_sought_fleet = True
            return self._fleet

    @property
    def redactor(self) -> Redactor:
        if not isinstance(self._redactor, Redactor):
            with self._lock:  # there is one: what it learns holds everywhere
                if not isinstance(self._redactor, Redactor):
                    self._redactor = self._redactor()
        return self._redactor

    @property
    def surroundings(self) -> Surroundings:
        """What is known of where this run is, found when it is first needed."""
        if self._surroundings is None:
            with self._lock:
                if self._surroundings is None:
                    self._surroundings = Surroundings.of(self._environment_of_run(), self._cwd)
        return self._surroundings

    def _environment_of_run(self) -> Mapping[str, str]:
        """The environment of what asks in this run."""
        return os.environ

    def binder(self, rules: BindingRules) -> Binder:
        """What binds by the rules of a store now; the same one for as long as it would bind the same."""
        state = self.surroundings.state()
        kept = self._binders.get(id(rules))
        if kept is None or kept.rules is not rules or kept.state != state:
            may_be_known = without_secrets(rules, self._environment_of_run(), lambda: self.redactor)
            kept = self._binders[id(rules)] = _Kept(rules, state, Binder(may_be_known, self.surroundings))
        return kept.binder

    @property
    def budget(self) -> Budget:
        """What this run may spend; all processes of it together, if it has several."""
        with self._lock:
            if self._budget is None:
                folder = self._run_folder() if self._limits != (None, None) else None
                spending = None if folder is None else FileSpending(folder)
                self._budget = Budget(*self._limits, spending=spending)
            return self._budget

    def rate_of(self, provider: str) -> RequestRate | None:
        """How often a provider may be asked, by all processes of this run together; ``None``: any number."""
        if provider not in self._requests_per_minute:
            return None
        with self._lock:
            if provider not in self._rates:
                from cortex_replay.adapters.request_rate import RequestRate  # noqa: PLC0415 - few have a limit

                folder = self._run_folder()
                slots = None if folder is None else FileSlots(folder, provider)
                self._rates[provider] = RequestRate(self._requests_per_minute[provider], slots=slots)
            return self._rates[provider]

    def share_budget(self, other: RunState) -> None:
        """Spend from the budget of another run, which this one goes on from."""
        self._budget = other.budget

    @property
    def claims(self) -> Claims:
        """Who asks, of all that need the same answer: those of this process, or of all of the run."""
        with self._lock:
            if self._claims is None:
                folder = self._run_folder()
                local = self._own_claims if folder is None else FileClaims(folder)
                fleet = self.join_fleet()
                self._claims = local if fleet is None else fleet.claims(local)
            return self._claims

    def _run_folder(self) -> RunFolder | None:
        run = os.environ.get(RUN_VARIABLE, "")
        if run and self._folder is None:
            self._folder = RunFolder(self.store.run_folder(run))
        return self._folder

    def commit(self) -> CommitSummary:
        """Commit what was recorded so far, by every scope that is no branch, and let the fleet know of it.

        Raises:
            StoreIo: The disk refused, and nothing was changed; or it is committed here, and the fleet does
                not know of all of it.
        """
        summary = self.store.commit()
        self.publish()
        return summary

    @property
    def is_fleet(self) -> bool:
        """Whether workers on other machines may be part of this run."""
        return self._fleet is not None

    def publish(self) -> int | None:
        """Wait until the fleet knows of all that was recorded; gives the number of answers.

        Raises:
            StoreIo: It could not be told of all of it. The store has what was committed.
        """
        if self._fleet is None:
            return None
        self._fleet.end()
        return self._fleet.publisher.published

    def leave_run(self) -> None:
        """Be no part of a run of several processes any more; with the last of them, it ends."""
        with self._lock:
            if self._folder is not None:
                self._folder.close()
                self._folder = self._claims = self._budget = None
                self._rates.clear()


def _fleet_for(store: Store, run: str) -> Fleet | None:
    # Most runs are of one machine.
    from cortex_replay.remote.places import bucket_for  # noqa: PLC0415

    if (bucket := bucket_for(store.root)) is None:
        return None
    from cortex_replay.engine.fleet import Fleet  # noqa: PLC0415

    if isinstance(store.witness, Fleet):  # of another run in this process, with the same store
        return store.witness
    fleet = Fleet.join(bucket, run)
    store.attest(fleet)
    return fleet


def _working_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it is gone
        return os.sep
