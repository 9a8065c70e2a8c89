"""Dropping recordings: a plan that can be printed, then the plan made true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase

from cortex_replay.canonical import JsonValue
from cortex_replay.mcp.messages import TOOLS_CALL
from cortex_replay.mcp.questions import subject_of
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange, render_exchange
from cortex_replay.store.fixture import moment_in
from cortex_replay.store.index.index import PartRow
from cortex_replay.store.requests.unused_parts import drop_unused_parts
from cortex_replay.store.store import Store, StoredFixture
from cortex_replay.store.tool_calls import StoredCall, recorded_calls
from cortex_replay.strict_json import JsonError, loads

__all__ = [
    "PruneCriteria",
    "PrunePlan",
    "count_used",
    "plan_prune",
    "read_unused",
    "read_unused_calls",
]

_Key = tuple[str, str, str]
"""A model, a prompt hash, and the scope of what is not shared."""
_CallKey = tuple[str, str]
"""The key of a recorded call, and the scope of what is not shared."""


@dataclass(frozen=True, slots=True)
class PruneCriteria:
    """Which fixtures are to go: those that fit every criterion that is given."""

    unused: frozenset[_Key] | None = None
    model: str | None = None
    pattern: str | None = None
    recorded_before: datetime | None = None
    scope: str | None = None
    """Of what scopes have of their own."""
    server: str | None = None
    """Of MCP: with it, or with a tool, calls are to go, and fixtures stay."""
    tool: str | None = None
    unused_calls: frozenset[_CallKey] | None = None
    """Of MCP: what a report says of them, beside fixtures."""

    @property
    def is_empty(self) -> bool:
        return self == PruneCriteria()

    @property
    def is_about_calls(self) -> bool:
        return self.server is not None or self.tool is not None


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What would go and what would stay, counted in files and bytes."""

    going: list[StoredFixture | StoredCall] = field(default_factory=list)
    going_bytes: int = 0
    staying: int = 0
    undated: int = 0
    """Fixtures that no age can be told of, which therefore stay."""

    def apply(self, store: Store) -> list[PartRow]:
        """Drop what the plan names, in one commit: the index first, then the files.

        What continued one of them gets what it needs of it in the same commit. The parts that no recording
        names any more go after that, in a commit of their own; gives their rows.
        """
        for item in self.going:
            if isinstance(item, StoredCall):
                store.remove_exchange(item.key, item.scope)
            else:
                store.remove(item.model, item.prompt_hash, item.scope)
        store.commit()
        return drop_unused_parts(DirectorySource(store.root), store.layout)


def plan_prune(store: Store, criteria: PruneCriteria) -> PrunePlan:
    """What fits the criteria in this store."""
    if criteria.is_about_calls:
        return _plan_calls(store, criteria)
    going: list[StoredFixture] = []
    undated = 0
    stored = store.list(scoped=True)
    for item in stored:
        fits = (
            (criteria.unused is None or (item.model, item.prompt_hash, item.scope) in criteria.unused)
            and (criteria.scope is None or (bool(item.scope) and fnmatchcase(item.scope, criteria.scope)))
            and (criteria.model is None or fnmatchcase(item.model, criteria.model))
            and (criteria.pattern is None or fnmatchcase(item.path, criteria.pattern))
        )
        if fits and criteria.recorded_before is not None:
            recorded = _recorded_at(store, item)
            undated += recorded is None
            fits = recorded is not None and recorded < criteria.recorded_before
        if fits:
            going.append(item)
    staying = {item.path for item in set(stored) - set(going)}
    files = {item.path: item for item in going if item.path not in staying}
    size = sum(len(store.content(item.model, item.prompt_hash, item.scope)) for item in files.values())
    plan = PrunePlan([*going], size, len(stored) - len(going), undated)
    if criteria.unused_calls is None or criteria.model is not None:
        return plan
    calls = _plan_calls(store, criteria)
    return PrunePlan(
        [*plan.going, *calls.going],
        plan.going_bytes + calls.going_bytes,
        plan.staying + calls.staying,
        plan.undated + calls.undated,
    )


def _plan_calls(store: Store, criteria: PruneCriteria) -> PrunePlan:
    going: list[StoredFixture | StoredCall] = []
    staying, sizes, undated = 0, dict[str, int](), 0
    kept: set[str] = set()
    for item, exchange in recorded_calls(store):
        request = exchange.request or {}
        tool = subject_of(request) if request.get("path") == TOOLS_CALL else None
        fits = (
            (criteria.unused_calls is None or (item.key, item.scope) in criteria.unused_calls)
            and (criteria.server is None or fnmatchcase(item.server, criteria.server))
            and (criteria.tool is None or (tool is not None and fnmatchcase(tool, criteria.tool)))
            and (criteria.scope is None or (bool(item.scope) and fnmatchcase(item.scope, criteria.scope)))
            and (criteria.pattern is None or fnmatchcase(item.path, criteria.pattern))
        )
        if fits and criteria.recorded_before is not None:
            asked = _asked_at(exchange)
            undated += asked is None
            fits = asked is not None and asked < criteria.recorded_before
        if fits:
            going.append(item)
            sizes[item.path] = len(render_exchange(exchange))
        else:
            staying += 1
            kept.add(item.path)
    size = sum(size for path, size in sizes.items() if path not in kept)
    return PrunePlan(going, size, staying, undated)


def _asked_at(exchange: Exchange) -> datetime | None:
    """When the last of its answers was asked for."""
    metas = [meta for wire in exchange.wires if isinstance(meta := wire.get("meta"), dict)]
    return max(filter(None, (moment_in(meta, "asked_at") for meta in metas)), default=None)


def read_unused(reports: Iterable[bytes]) -> frozenset[_Key]:
    """The keys that some report calls unused and none calls used.

    A report is a JSON object with the lists ``used`` and ``unused``, each of objects with ``model``
    and ``prompt_hash``, and ``scope`` where it is what a scope has of its own.

    Raises:
        ValueError: One of them is not such a report.
    """
    used: set[_Key] = set()
    unused: set[_Key] = set()
    for report in map(_report, reports):
        used.update(_keys_in(report, "used"))
        unused.update(_keys_in(report, "unused"))
    return frozenset(unused - used)


def count_used(reports: Iterable[bytes]) -> Counter[_Key]:
    """How many of some reports call each recording used; see :func:`read_unused`.

    Raises:
        ValueError: One of them is not such a report.
    """
    return Counter(key for report in map(_report, reports) for key in set(_keys_in(report, "used")))


def _keys_in(report: Mapping[str, JsonValue], name: str) -> Iterator[_Key]:
    items = report.get(name, [])
    for item in items if isinstance(items, list) else [items]:
        match item:
            case {"model": str() as model, "prompt_hash": str() as prompt_hash, **rest}:
                yield model, prompt_hash, str(rest.get("scope") or "")
            case _:
                raise ValueError(f"expected objects with model and prompt_hash in `{name}`")


def read_unused_calls(reports: Iterable[bytes]) -> frozenset[_CallKey]:
    """The recorded MCP calls that some report calls unused and none calls used.

    A report has them in the lists ``unused_calls``, of objects with ``key`` and perhaps ``scope``, and
    ``used_exchanges``, of keys. One of an earlier version has neither.

    Raises:
        ValueError: One of them is not such a report.
    """
    used: set[str] = set()
    unused: set[_CallKey] = set()
    for report in map(_report, reports):
        used.update(str(key) for key in _listed(report, "used_exchanges"))
        unused.update(map(_call_key, _listed(report, "unused_calls")))
    return frozenset(call for call in unused if call[0] not in used)


def _report(data: bytes) -> dict[str, JsonValue]:
    try:
        report = loads(data)
    except JsonError as error:
        raise ValueError(str(error)) from None
    if not isinstance(report, dict) or "unused" not in report:
        raise ValueError("expected an object with the list `unused`")
    return report


def _listed(report: Mapping[str, JsonValue], name: str) -> list[JsonValue]:
    match report.get(name, []):
        case [*items]:
            return items
    raise ValueError(f"expected a list in `{name}`")


def _call_key(call: JsonValue) -> _CallKey:
    match call:
        case {"key": str(key), **rest}:
            return key, str(rest.get("scope") or "")
    raise ValueError("expected objects with key in `unused_calls`")


def _recorded_at(store: Store, item: StoredFixture) -> datetime | None:
    return moment_in(store.get(item.model, item.prompt_hash, item.scope).meta, "recorded_at")
