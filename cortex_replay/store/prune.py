"""Dropping fixtures: a plan that can be printed, then the plan made true."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

from cortex_replay.store.fixture import FixtureKey
from cortex_replay.store.store import Store, StoredFixture
from cortex_replay.strict_json import JsonError, loads

__all__ = ["PruneCriteria", "PrunePlan", "parse_age", "plan_prune", "read_unused"]

_AGE: Final = re.compile(r"(\d{1,6})([hdw])")
_UNIT_HOURS: Final = {"h": 1, "d": 24, "w": 168}


@dataclass(frozen=True, slots=True)
class PruneCriteria:
    """Which fixtures are to go: those that fit every criterion that is given."""

    unused: frozenset[FixtureKey] | None = None
    model: str | None = None
    pattern: str | None = None
    recorded_before: datetime | None = None

    @property
    def is_empty(self) -> bool:
        return self == PruneCriteria()


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What would go and what would stay, counted in files and bytes."""

    going: list[StoredFixture] = field(default_factory=list)
    going_bytes: int = 0
    staying: int = 0
    undated: int = 0
    """Fixtures that no age can be told of, which therefore stay."""

    def apply(self, store: Store) -> None:
        """Drop what the plan names, in one commit: the index first, then the files."""
        for item in self.going:
            store.remove(item.model, item.prompt_hash)
        store.commit()


def plan_prune(store: Store, criteria: PruneCriteria) -> PrunePlan:
    """What fits the criteria in this store."""
    going: list[StoredFixture] = []
    size = undated = 0
    stored = store.list()
    for item in stored:
        fits = (
            (criteria.unused is None or FixtureKey(item.model, item.prompt_hash) in criteria.unused)
            and (criteria.model is None or fnmatchcase(item.model, criteria.model))
            and (criteria.pattern is None or fnmatchcase(item.path, criteria.pattern))
        )
        if fits and criteria.recorded_before is not None:
            recorded = _recorded_at(store, item)
            undated += recorded is None
            fits = recorded is not None and recorded < criteria.recorded_before
        if fits:
            going.append(item)
            size += len(store.content(item.model, item.prompt_hash))
    return PrunePlan(going, size, len(stored) - len(going), undated)


def parse_age(text: str, now: datetime) -> datetime:
    """The moment that ``text`` (such as ``36h``, ``30d``, ``8w``) ago was.

    Raises:
        ValueError: The text is not an age.
    """
    match = _AGE.fullmatch(text)
    if match is None:
        raise ValueError("an age is a number and h, d or w: 36h, 30d, 8w")
    return now - timedelta(hours=int(match[1]) * _UNIT_HOURS[match[2]])


def read_unused(reports: Iterable[bytes]) -> frozenset[FixtureKey]:
    """The keys that some report calls unused and none calls used.

    A report is a JSON object with the lists ``used`` and ``unused``, each of objects with ``model``
    and ``prompt_hash``.

    Raises:
        ValueError: One of them is not such a report.
    """
    used: set[FixtureKey] = set()
    unused: set[FixtureKey] = set()
    for data in reports:
        try:
            report = loads(data)
        except JsonError as error:
            raise ValueError(str(error)) from None
        if not isinstance(report, dict) or "unused" not in report:
            raise ValueError("expected an object with the list `unused`")
        for name, keys in (("used", used), ("unused", unused)):
            items = report.get(name, [])
            for item in items if isinstance(items, list) else [items]:
                match item:
                    case {"model": str() as model, "prompt_hash": str() as prompt_hash}:
                        keys.add(FixtureKey(model, prompt_hash))
                    case _:
                        raise ValueError(f"expected objects with model and prompt_hash in `{name}`")
    return frozenset(unused - used)


def _recorded_at(store: Store, item: StoredFixture) -> datetime | None:
    text = (store.get(item.model, item.prompt_hash).meta or {}).get("recorded_at")
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC) if moment else None
