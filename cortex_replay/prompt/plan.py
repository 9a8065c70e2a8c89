"""A cache plan in the plain form that an IR holds it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final, Literal

from cortex_replay import validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.types import PromptCachePlan

__all__ = ["plan_from_dict", "plan_to_dict"]

_TTLS: Final[Mapping[object, Literal["5m", "1h"] | None]] = {
    None: None,
    "default": None,
    "extended": "1h",
    "5m": "5m",
    "1h": "1h",
}


def plan_from_dict(data: object) -> PromptCachePlan:
    """A plan from its plain form; ``ttl`` is ``default``, ``extended`` or a time.

    Raises:
        InvalidRequest: A field is unknown or of the wrong kind.
    """
    if not isinstance(data, Mapping):
        raise InvalidRequest("cache", f"expected an object, not {check.kind_of(data)}")
    fields: dict[str, Any] = dict(data)
    ttl = fields.get("ttl")
    if not isinstance(ttl, str | None) or ttl not in _TTLS:
        raise InvalidRequest("cache.ttl", f"expected default or extended, not {check.short_repr(ttl)}")
    return check.value_of(PromptCachePlan, fields | {"ttl": _TTLS[ttl]}, "cache")


def plan_to_dict(plan: PromptCachePlan) -> dict[str, JsonValue]:
    """The inverse of :func:`plan_from_dict`."""
    names = {None: "default", "1h": "extended", "5m": "5m"}
    written: dict[str, JsonValue] = {
        "cache_tools": plan.cache_tools,
        "cache_system": plan.cache_system,
        "breakpoint_message_ids": list(plan.breakpoint_message_ids),
        "ttl": names[plan.ttl],
    }
    if plan.tail_ttl is not None:
        written["tail_ttl"] = plan.tail_ttl
    if plan.system_cuts:
        written["system_cuts"] = [list(cut) for cut in plan.system_cuts]
    if plan.marks:
        written["marks"] = [_without_none(asdict(mark)) for mark in plan.marks]
    if plan.labels:
        written["labels"] = list(plan.labels)
    alone: dict[str, JsonValue] = {
        "key": plan.key,
        "retention": plan.retention,
        "mode": plan.mode,
        "kept_messages": plan.kept_messages,
    }
    return written | _without_none(alone)


def _without_none(fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in fields.items() if value is not None}
