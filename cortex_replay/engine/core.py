"""The scopes of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from cortex_replay.bindings import Binder, BindingRules
from cortex_replay.bindings.safety import PATHS
from cortex_replay.bindings.surroundings import KNOWN
from cortex_replay.canonical import JsonValue
from cortex_replay.config.key_rules import Further
from cortex_replay.engine.fork import Fork
from cortex_replay.engine.fork_names import ForkPlan, fork_owner
from cortex_replay.engine.scope import Observer, Scope
from cortex_replay.engine.state import RunState
from cortex_replay.errors import InvalidRequest
from cortex_replay.hashing import blake3_hex
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.store.paths import escape
from cortex_replay.store.trust import MAX_SCOPE_LENGTH

__all__ = ["RunCore", "owner_name", "scope_name"]

_MOST_SCOPES_KEPT: Final = 4096
"""Of those that have not counted anything yet."""
_MOST_TURNS: Final = 100_000

_COUNTED_APART: Final = "\x1f"
"""What follows it in a name is for counting only: a test that runs again counts anew, and has its answers."""


def scope_name(name: str) -> str:
    """A name that takes little room, and is not that of another scope."""
    if len(name) <= MAX_SCOPE_LENGTH:
        return name
    digest = blake3_hex(name.encode("utf-8", "surrogatepass"))
    return f"{name[: MAX_SCOPE_LENGTH - len(digest)]}{digest}"


def owner_name(name: str) -> str:
    """Whose answers a scope of this name gets and records, as the store writes it."""
    return scope_name(escape(name.partition(_COUNTED_APART)[0]))


class RunCore(RunState):
    """Hands out the scopes of one run; see :class:`RunState` for the arguments."""

    def _begin(self) -> None:
        self._scopes: dict[str, Scope] = {}
        self._paths: Binder | None = None
        self._turns = 0
        self._counting: Scope | None = None

    def scope(self, name: str = "") -> Scope:
        """The scope of a name; one that was not opened is as the run is."""
        scope = self._scopes.get(name)
        if scope is None and self.fork_plan is not None:
            return self._fork_scope(name, self.fork_plan)
        if scope is None:
            scope = Scope(
                self,
                self.store,
                self.mode,
                name,
                self.owner_of(name),
                keep=self._keep_scope,
                how_to_record=self.how_to_record,
                keeps_first=not name and not self.fork_name and not self.every_answer,
            )
            if len(self._scopes) < _MOST_SCOPES_KEPT:
                scope = self._scopes.setdefault(name, scope)
        return scope

    def _fork_scope(self, name: str, plan: ForkPlan) -> Scope:
        """A scope that replays at first; it is never forgotten, since it counts from its first call."""
        own = scope_name(fork_owner(plan.name, self._owner_in_run(name)))
        road = Scope(self, self.store, Mode.RECORD, name, own, how_to_record=self.how_to_record)
        past = Scope(
            self,
            self.store,
            Mode.REPLAY,
            name,
            self.owner_of(name),
            how_to_record=self.how_to_record,
            keeps_first=not name and not self.fork_name and not self.every_answer,
            fork=Fork(plan.calls, road),
        )
        with self._lock:
            if len(self._scopes) >= _MOST_SCOPES_KEPT and name not in self._scopes:
                raise InvalidRequest("scope", f"more than {_MOST_SCOPES_KEPT} are too many for one fork")
            return self._scopes.setdefault(name, past)

    @property
    def forks(self) -> list[Fork[Scope]]:
        """The forks of the scopes that have asked something."""
        return [scope.fork for scope in self._scopes.values() if scope.fork is not None]

    def counting_scope(self, name: str = "") -> Scope:
        """The scope of a name for callers whose order is theirs: each call gets the answer of its number,
        also where the name is empty."""
        scope = self.scope(name)
        if not scope.keeps_first:
            return scope
        with self._lock:
            if self._counting is None:
                self._counting = replace(scope, keep=None, keeps_first=False, _keys={}, _exchanges={})
            return self._counting

    def open_scope(
        self,
        name: str | None = None,
        *,
        owner: str | None = None,
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
            owner: Whose answers it gets and records, if not those of its name: the id of a test.
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
        if chosen.writes:
            self.join_fleet()
        is_branch = is_branch and chosen.writes
        store = self.store.branch() if is_branch else self.store
        if normalisers:
            store = store.with_normalisers(normalisers)
        scope = Scope(
            self,
            store,
            chosen,
            scope_name(name or ""),
            self.owner_of((name if owner is None else owner) or ""),
            is_branch=is_branch,
            observer=observer,
            how_to_record=how_to_record or self.how_to_record,
            meta=meta or {},
            environment=environment,
            explains=explain,
        )
        if name is not None:
            self._scopes[scope.name] = scope
        return scope

    def owner_of(self, name: str) -> str:
        """Whose answers a scope of this name gets and records."""
        return scope_name(fork_owner(self.fork_name, self._owner_in_run(name)))

    def _owner_in_run(self, name: str) -> str:
        """The same, whatever fork the run goes on.

        A folder of the run in it is bound: the parameter of a test, say. Elsewhere that is another one.
        """
        if "/" in name:
            if self._paths is None:
                rules = self.store.key_rules.bindings
                others = [known for known in KNOWN if known not in PATHS]
                only_paths = BindingRules(off=(*rules.off, *others), shapes=())
                self._paths = Binder(only_paths, self.surroundings)
            name = str(self._paths.bind_value(name)[0])
        return owner_name(name)

    def close_scope(self, scope: Scope) -> None:
        """Forget a scope: who asks under its name from now on asks in a new one."""
        if self._scopes.get(scope.name) is scope:
            del self._scopes[scope.name]

    def _keep_scope(self, scope: Scope) -> Scope:
        """The scope that counts the turns of its name, which from now on is not forgotten.

        Raises:
            InvalidRequest: Somebody has had very many counted.
        """
        with self._lock:
            self._turns += 1
            if self._turns > _MOST_TURNS and not scope.mode.asks:
                raise InvalidRequest("scope", f"more than {_MOST_TURNS} were counted in this run; start anew")
            return self._scopes.setdefault(scope.name, scope)
