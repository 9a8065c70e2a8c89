"""Which recordings can be asked again, and of whom."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from cortex_replay.bindings import Binder, Filling
from cortex_replay.bindings.placeholders import name_of
from cortex_replay.bindings.requests import rewrite_value
from cortex_replay.canonical import compact
from cortex_replay.engine.block_ends import move_ends
from cortex_replay.engine.lookup import LookUp
from cortex_replay.errors import InvalidRequest
from cortex_replay.prompt.breakpoint_notes import restore_breakpoints
from cortex_replay.redact.sensitivity import Sensitivity, refuse_above
from cortex_replay.run.refresh.items import Plan, Refresh
from cortex_replay.run.renewal import renew
from cortex_replay.run.run import Run
from cortex_replay.run.targets import Targets
from cortex_replay.store import Fixture, FixtureKey, Store
from cortex_replay.store.fixture import bindings_in
from cortex_replay.store.store import StoredFixture
from cortex_replay.store.tool_calls import tool_call_keys
from cortex_replay.types import LlmRequest, PromptCachePlan
from cortex_replay.wire import WIRES

__all__ = ["plan_refresh"]

_SDK_TIMEOUT_MS: Final = 600_000
"""What SDKs give a call by themselves."""


def plan_refresh(
    run: Run, provider: str | None, pattern: str | None, timeout_ms: int | None, scope: str | None = None
) -> Plan:
    """The fixtures that can be asked again, and those that cannot.

    Args:
        run: Whose store and settings hold.
        provider: Who is asked for all of them; by default who answered each.
        pattern: Of the models; ``None`` for all, and for the exchanges, which have none.
        timeout_ms: What a call may take, if not what the settings or an SDK say.
        scope: Pattern of the scopes whose answers are asked again, those that they share too; by default what
            is shared.
    """
    targets = Targets(run.settings, run.engine().upstreams, os.environ, provider)
    is_all = pattern is None and scope is None
    recorded = run.store.exchange_keys() if is_all else {}
    called = tool_call_keys(run.store) if is_all else frozenset()
    plan = Plan(
        [],
        [],
        sorted(path for key, path in recorded.items() if key not in called),
        sorted(path for key, path in recorded.items() if key in called),
    )
    by_key = _rows_by_key(run.store)
    for stored in run.store.list(scoped=scope is not None):
        if (pattern is None or fnmatchcase(stored.model, pattern)) and _is_of(run, stored, scope):
            found = _plan_one(run, stored, targets, timeout_ms or _SDK_TIMEOUT_MS)
            if isinstance(found, str):
                plan.skipped.append((stored, found))
            else:
                _note_others(run.store, found, by_key[found.fixture.key])
                plan.items.append(found)
    return plan


def _rows_by_key(store: Store) -> Mapping[FixtureKey, Sequence[StoredFixture]]:
    """What is recorded of each question: for all, and for scopes."""
    rows: dict[FixtureKey, list[StoredFixture]] = {}
    for stored in store.list(scoped=True):
        rows.setdefault(FixtureKey(stored.model, stored.prompt_hash), []).append(stored)
    return rows


def _note_others(store: Store, item: Refresh, rows: Iterable[StoredFixture]) -> None:
    """Note who else has recorded the same question, and what was answered."""
    fixtures = {item.stored.path: item.fixture}
    users: set[str] = set()
    for row in rows:
        if row.path not in fixtures:
            fixtures[row.path] = store.get(row.model, row.prompt_hash, row.scope)
        users |= _users_in(fixtures[row.path], row.scope)
    item.recorded = tuple(answer for fixture in fixtures.values() for answer in fixture.answers)
    item.users = frozenset(users)


def _users_in(fixture: Fixture, scope: str) -> set[str]:
    meta = fixture.meta or {}
    tests = meta.get("tests")
    named = [scope, meta.get("scope"), *(tests if isinstance(tests, list) else ())]
    return {name for name in named if isinstance(name, str) and name}


def _is_of(run: Run, stored: StoredFixture, scope: str | None) -> bool:
    """Whether a recording is to be asked again for these scopes: one of their own, or one that they share."""
    if scope is None:
        return True
    meta = run.store.get(stored.model, stored.prompt_hash, stored.scope).meta or {}
    owner = stored.scope or str(meta.get("scope", ""))
    return bool(owner) and fnmatchcase(owner, scope)


def _plan_one(run: Run, stored: StoredFixture, targets: Targets, timeout_ms: int) -> Refresh | str:
    """One recording to be asked again, or why it cannot be."""
    fixture = run.store.get(stored.model, stored.prompt_hash, stored.scope)
    binder = run.binder(run.store.key_rules.bindings)
    target = _problem_with_request(fixture) or targets.find(_here(fixture, binder))
    if isinstance(target, str):
        return target
    request, look = fixture.request or LlmRequest(stored.model), LookUp(fixture.key)
    if names := bindings_in(fixture.meta):
        renewed = renew(request, names, binder)
        if isinstance(renewed, str):
            return renewed
        request, look = renewed.request, LookUp(fixture.key, binder, renewed.binding)
    elif (bound := binder.bind(request)).request == request:  # what is bound now was not bound then
        look = LookUp(fixture.key, binder, bound.binding)
    plan = _cache_plan(fixture, request, binder)
    request = replace(request, timeout_ms=run.settings.timeout_ms, cache=plan)
    item = Refresh(stored, fixture, request, target, look)
    try:
        refuse_above(request, Sensitivity.of(run.settings.max_sensitivity))
        if item.protocol is not None:
            WIRES[item.protocol].lower(request)
            item.request = replace(request, timeout_ms=timeout_ms)
    except InvalidRequest as error:
        return f"its request cannot be sent: {error}"
    return item


def _cache_plan(fixture: Fixture, request: LlmRequest, binder: Binder) -> PromptCachePlan | None:
    """The cache plan of a recorded request, for the same request with the values of today."""
    stored = fixture.request
    plan = None if stored is None else restore_breakpoints(stored, fixture.meta).cache
    if stored is None or plan is None:
        return None

    def renew_system(text: str) -> str | None:
        renewed = renew(replace(stored, system=text), bindings_in(fixture.meta), binder)
        return None if isinstance(renewed, str) else renewed.request.system

    ends = move_ends(stored.system, [end for end, _ in plan.system_cuts], request.system, renew_system)
    cuts = zip(ends or (), (time for _, time in plan.system_cuts), strict=False)
    # What is noted of the key is its hash, which groups nothing at the provider.
    return replace(plan, key=None, system_cuts=tuple(cuts))


def _here(fixture: Fixture, binder: Binder) -> Fixture:
    """A recording that says who answered in terms of this place."""
    known = binder.surroundings.tokens()
    names = {name_of(token) for token in known}
    meta = rewrite_value(fixture.meta, lambda text: Filling(known).text(text, names))
    return replace(fixture, meta=meta) if isinstance(meta, dict) else fixture


def _problem_with_request(fixture: Fixture) -> str | None:
    """Why what was asked cannot be asked again, or ``None``."""
    if fixture.request is None:
        return "it does not hold its request"
    if fixture.is_request_redacted:
        return "a secret was cut out of its request"
    if (fixture.meta or {}).get("normalisers"):
        return "its request holds placeholders"
    if '"blake3":' in compact(fixture.request.to_dict()["messages"]):
        return "its request holds only the hash of some data"
    return None
