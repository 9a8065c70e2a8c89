"""How old recordings are, by what they say of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cortex_replay.history.origins import seconds_in
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Fixture

__all__ = ["Ages", "OldFile", "judge_ages", "recorded_time"]

_FIRST_DAY: Final = datetime.min.replace(tzinfo=UTC).timestamp()
"""A recording may say a time of the first day in a zone where it is older still."""


@dataclass(frozen=True, slots=True)
class OldFile:
    """A recording that is older than it may be."""

    path: str
    at: float
    """When the oldest of its answers was recorded, in seconds since 1970."""

    @property
    def moment(self) -> datetime:
        """The same, in UTC."""
        return datetime.fromtimestamp(max(self.at, _FIRST_DAY), UTC)


@dataclass(frozen=True, slots=True)
class Ages:
    """Which recordings are older than they may be."""

    max_age: timedelta
    recordings: int
    old: tuple[OldFile, ...]
    """Oldest first."""
    undated: int
    """Recordings that do not say when they were made."""


def recorded_time(recording: Fixture | Exchange) -> float | None:
    """When the oldest answer of a recording was recorded, in seconds since 1970; ``None`` if unknown."""
    return min((at for at in _times_in(recording) if at is not None), default=None)


def judge_ages(times: Mapping[str, float | None], max_age: timedelta, now: float) -> Ages:
    """Which recordings are old.

    Args:
        times: When each file was recorded, as :func:`recorded_time` says.
        max_age: From when on one is old.
        now: In seconds since 1970.
    """
    latest = now - max_age.total_seconds()
    old = [OldFile(path, at) for path, at in times.items() if at is not None and at < latest]
    old.sort(key=lambda one: (one.at, one.path))
    return Ages(max_age, len(times), tuple(old), sum(at is None for at in times.values()))


def _times_in(recording: Fixture | Exchange) -> Iterator[float | None]:
    if isinstance(recording, Fixture):
        yield seconds_in(recording.meta or {}, "recorded_at")
        for answer in recording.answers:
            yield seconds_in(answer.meta or {}, "recorded_at")
        return
    for wire in recording.wires:
        meta = wire.get("meta")  # of a call to an MCP server, which is recorded when it is asked
        yield seconds_in(meta, "asked_at") if isinstance(meta, dict) else None
