"""What a client is told when nothing was recorded for its call."""

from __future__ import annotations

from cortex_replay.canonical import JsonValue
from cortex_replay.misses import explanation as misses
from cortex_replay.misses.differences import visible
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import FixtureKey, Store
from cortex_replay.types import LlmRequest

__all__ = [
    "MISS_STATUS",
    "explained_exhaustion",
    "explained_miss",
    "explained_opaque_miss",
    "explained_other_way",
]

MISS_STATUS = 424
"""A status that no SDK tries again, and that no provider uses for something else."""


def explained_miss(
    store: Store, request: LlmRequest, key: FixtureKey, how_to_record: str, redactor: Redactor
) -> str:
    """The key, the nearest recording, what differs, and the command that records it."""
    try:
        return misses.explained(store, request, key, how_to_record, redactor)
    except Exception:  # noqa: BLE001 - whatever stands in the way of explaining a miss, it is a miss
        what = f"{visible(key.model)} {key.prompt_hash[:16]}"
        return f"cortex-replay: nothing is recorded for {what}.\nTo record it: {how_to_record}"


def explained_exhaustion(key: FixtureKey, how_to_record: str) -> str:
    """All answers of a key are given."""
    return misses.explained_exhaustion(key, how_to_record)


def explained_other_way(key: FixtureKey, how_to_record: str) -> str:
    """A request for several answers at once, asked in another way than it was recorded in."""
    what = f"{visible(key.model)} {key.prompt_hash[:16]} asks for several answers at once, and was recorded"
    return f"cortex-replay: {what} streamed or not, or over another API.\nTo record it: {how_to_record}"


def explained_opaque_miss(request: dict[str, JsonValue], key: str, how_to_record: str) -> str:
    """A call that is recorded as it is, and was not."""
    what = f"{request['method']} {request['path']} of {request['upstream']}"
    return f"cortex-replay: nothing is recorded for {what} ({key[:16]}).\nTo record it: {how_to_record}"
