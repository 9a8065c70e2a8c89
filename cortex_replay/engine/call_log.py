"""What a run asked, in order, for those who compare two runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from cortex_replay.store import FixtureKey
from cortex_replay.types import LlmRequest

__all__ = ["CallLog", "Series"]


class Series(NamedTuple):
    """Calls that are numbered together."""

    scope: str
    is_completions: bool


class CallLog:
    """The keys of a run's calls, in the order of their numbers.

    It grows with the run, so a run has one only if somebody wants it.
    """

    def __init__(self) -> None:
        self._keys: dict[tuple[Series, str], dict[int, FixtureKey | str]] = {}
        self._requests: dict[FixtureKey | str, Callable[[], LlmRequest]] = {}
        self._lock = threading.Lock()

    def note(
        self,
        owner: str,
        name: str,
        number: int,
        key: FixtureKey | str,
        ask: Callable[[], LlmRequest] | None = None,
    ) -> None:
        """A call was made; one that is tried again is still one.

        Args:
            owner: Whose answers it gets.
            name: Of the scope that counts: a test that runs again counts anew.
            number: Among the completions of the scope, or among its other calls.
            key: Of a completion, or of a call that is recorded as it is.
            ask: What a completion asks.
        """
        series = Series(owner, isinstance(key, FixtureKey))
        with self._lock:
            self._keys.setdefault((series, name), {})[number] = key
            if ask is not None:
                self._requests.setdefault(key, ask)

    def request(self, key: FixtureKey | str) -> LlmRequest | None:
        """What a completion with this key asked, as it came."""
        with self._lock:
            ask = self._requests.get(key)
        return None if ask is None else ask()

    def series(self) -> dict[Series, list[FixtureKey | str]]:
        """What was asked, in order."""
        made: dict[Series, list[FixtureKey | str]] = {}
        with self._lock:
            for (series, _), keys in self._keys.items():
                made.setdefault(series, []).extend(keys[number] for number in sorted(keys))
        return made
