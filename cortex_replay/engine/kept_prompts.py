"""The prompts that a provider keeps under names, as far as this run has seen them made."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.lookup import names_in_request
from cortex_replay.store import Store
from cortex_replay.strict_json import JsonError, loads

__all__ = ["KeptPrompt", "KeptPrompts"]

_MOST: Final = 1024


class KeptPrompt(NamedTuple):
    """A prompt that has a name at its provider."""

    body: dict[str, Any]
    """What was sent to have it kept."""
    is_there: bool
    """Whether the provider was asked by this run; else it may be gone by now."""


class KeptPrompts:
    """Kept prompts by the provider and the name that it gave them."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], KeptPrompt] = {}
        self._searched: set[tuple[Store, str]] = set()
        self._lock = threading.Lock()

    def learn(self, asked: Mapping[str, JsonValue], wire: Mapping[str, JsonValue], *, is_there: bool) -> None:
        """Remember a prompt, if that is what a call was about.

        Args:
            asked: The call.
            wire: Its answer, as recordings have it.
            is_there: Whether the provider has just answered it.
        """
        body, name = asked["body"], _name_in(wire)
        if name is None or not isinstance(body, dict) or not _keeps_prompt(asked):
            return
        with self._lock:
            if not is_there and (str(asked["upstream"]), name) in self._known:
                return
            while len(self._known) >= _MOST:
                del self._known[next(iter(self._known))]
            self._known[str(asked["upstream"]), name] = KeptPrompt(body, is_there)

    def find(self, upstream: str, name: str, store: Store, owner: str) -> KeptPrompt | None:
        """What is kept under a name: by this run, or by the one that was recorded.

        Args:
            upstream: Whose name it is.
            name: As the provider gave it.
            store: Where to look, if no call of this run was answered with it: one test may have had the
                prompt kept, and another list what is kept.
            owner: The scope that asks.
        """
        if (upstream, name) not in self._known and (store, owner) not in self._searched:
            self._searched.add((store, owner))
            self._search(store, owner)
        return self._known.get((upstream, name))

    def _search(self, store: Store, owner: str) -> None:
        for key in store.exchange_keys(owner):
            exchange = store.exchange(key, owner)
            if exchange is None or not isinstance(exchange.request, dict):
                continue
            # What is bound in a prompt would have to be filled first, with values that are not known here.
            if _keeps_prompt(exchange.request) and not names_in_request(exchange.request, exchange.meta):
                for answer in exchange.apart():
                    self.learn(exchange.request, answer.wire, is_there=False)


def _keeps_prompt(asked: Mapping[str, JsonValue]) -> bool:
    """Whether a call has a prompt kept."""
    from cortex_replay.wire.gemini.kept import keeps_prompt  # noqa: PLC0415 - for that wire alone

    return keeps_prompt(asked["method"], asked["path"])


def _name_in(wire: Mapping[str, JsonValue]) -> str | None:
    body, status = wire.get("body"), wire.get("status")
    if status != 200 or not isinstance(body, str):
        return None
    try:
        answer = loads(body.encode())
    except JsonError:
        return None
    name = answer.get("name") if isinstance(answer, dict) else None
    return name if isinstance(name, str) else None
