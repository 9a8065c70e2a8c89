"""Which call is hit by which fault."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Final

from cortex_replay.errors import InvalidRequest
from cortex_replay.faults.fault import Fault

__all__ = ["Faults"]

_MOST_COUNTED: Final = 100_000
_MOST_LISTED: Final = 1000
_LONGEST_OWN: Final = 1000


class Faults:
    """The faults of a gateway or an adapter, and how many calls there were.

    Calls are counted in each scope by itself, or all together.

    Args:
        faults: For every scope.
        per_scope: Whether each scope has a count of its own.
    """

    def __init__(self, faults: Iterable[Fault] = (), *, per_scope: bool = True) -> None:
        self._for_all = tuple(faults)
        self._by_scope: dict[str, tuple[Fault, ...]] = {}
        self._per_scope = per_scope
        self._calls: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self.struck: Counter[str] = Counter()
        """How often each fault has changed something."""

    @property
    def are_any(self) -> bool:
        return bool(self._for_all or self._by_scope)

    def next(self, scope: str = "", own: str = "") -> Fault | None:
        """The fault that hits the next call of a scope; the first that fits, if there are several.

        Args:
            scope: Whose call it is.
            own: The faults that the call itself asks for, separated by commas; they have their own count.

        Raises:
            InvalidRequest: There is no such fault.
        """
        if len(own) > _LONGEST_OWN:  # each is counted by itself, and so kept
            raise InvalidRequest("fault", f"a call names its faults in at most {_LONGEST_OWN} characters")
        asked = _of_models(Fault.parse(text) for text in own.split(",")) if own else ()
        with self._lock:
            found = self._first(asked, scope, own) if asked else None
            rest = _of_models(self._of(scope))
            counted = self._first(rest, scope if self._per_scope else "", "") if rest else None
            return found or counted

    def next_tool(self, scope: str, server: str, tool: str) -> Fault | None:
        """The fault that hits the next call of a tool; each that names one counts its calls by themselves.

        Args:
            scope: Whose call it is.
            server: The name of the MCP server.
            tool: The name of the tool.
        """
        with self._lock:
            by_name: dict[str, list[Fault]] = {}
            for fault in self._of(scope):
                if fault.is_of_tools and fault.fits(server, tool):
                    by_name.setdefault(fault.detail, []).append(fault)
            place = scope if self._per_scope else ""
            found = [self._first(faults, place, f"tools {name}") for name, faults in by_name.items()]
            return next((fault for fault in found if fault is not None), None)

    def _of(self, scope: str) -> tuple[Fault, ...]:
        return (*self._by_scope.get(scope, ()), *self._for_all)

    def _first(self, faults: Iterable[Fault], scope: str, own: str) -> Fault | None:
        if (scope, own) not in self._calls and len(self._calls) >= _MOST_COUNTED:
            raise InvalidRequest(
                "fault", f"those of more than {_MOST_COUNTED} scopes were counted; start anew"
            )
        self._calls[scope, own] += 1
        call = self._calls[scope, own]
        return next((fault for fault in faults if fault.strikes(call)), None)

    def set(self, faults: Iterable[Fault], scope: str | None = None) -> None:
        """Replace the faults of a scope, or those of all, and count from the start."""
        with self._lock:
            if not scope:
                self._for_all = tuple(faults)
                self._by_scope.clear()
                self._calls.clear()
            else:
                self._by_scope[scope] = tuple(faults)
                for place in [place for place in self._calls if place[0] == scope]:
                    del self._calls[place]

    def note(self, fault: Fault) -> None:
        """A fault has changed something."""
        with self._lock:
            is_listed = str(fault) in self.struck or len(self.struck) < _MOST_LISTED
            self.struck[str(fault) if is_listed else "(others)"] += 1

    def spellings(self) -> dict[str, list[str]]:
        """The faults of each scope, under ``""`` those of all."""
        with self._lock:
            named = {scope: list(map(str, faults)) for scope, faults in self._by_scope.items()}
            return {"": list(map(str, self._for_all)), **named}


def _of_models(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple(fault for fault in faults if not fault.is_of_tools)
