"""Recordings of which some values are too common here to be bound.

A recording may come from a machine where the user has a telling name, and hold a placeholder for it. Where
the user is ``root``, that word is not looked for: it stands in too many texts. But the placeholder shows
where it must stand. So each such recording is read as it would be bound here, and found by its key then.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from cortex_replay.bindings import Binder
from cortex_replay.bindings.placeholders import OPEN
from cortex_replay.errors import LlmError
from cortex_replay.store import FixtureKey, Store
from cortex_replay.store.fixture import bindings_in
from cortex_replay.store.fixture_json import may_be_short

__all__ = ["key_elsewhere"]

_Keys = dict[FixtureKey, FixtureKey | None]
_KEPT: Final[WeakKeyDictionary[Store, dict[tuple[object, ...], _Keys]]] = WeakKeyDictionary()
"""What this run records is bound here, so that what was read once stays true."""


def key_elsewhere(store: Store, owner: str, binder: Binder, key: FixtureKey) -> FixtureKey | None:
    """The key of a recording that would have another key if it were made here; ``None`` if there is none.

    Args:
        store: What is recorded.
        owner: Whose recordings count before the shared ones.
        binder: What binds values here.
        key: What a request has here.
    """
    unsafe = binder.surroundings.unsafe_tokens()
    if not unsafe:
        return None
    kept = _KEPT.setdefault(store, {})
    place = (owner, key.model, tuple(unsafe.items()))
    if place not in kept:
        kept[place] = _keys_here(store, owner, binder, key.model)
    return kept[place].get(key)


def _keys_here(store: Store, owner: str, binder: Binder, model: str) -> _Keys:
    """The keys that recordings of one model would have here, and those that they have.

    Two recordings may have one key here, as what was the user there and what was ``root`` is one word. Nobody
    can tell which of them is meant, so it is none.
    """
    marks = [f"{OPEN}{name}".encode() for name in binder.surroundings.unsafe]
    found: _Keys = {}
    for key, data in store.scan_model(model, owner):
        try:
            # What it continues may have the placeholder.
            may_have = may_be_short(data) or any(mark in data for mark in marks)
            fixture = store.get(*key, owner) if may_have else None
        except LlmError:  # what is wrong with it is told when it is asked for
            continue
        if fixture is None or fixture.request is None or fixture.is_request_redacted:
            continue
        here = binder.unbind_common(fixture.request, bindings_in(fixture.meta))
        if here is not fixture.request:
            known = FixtureKey(model, here.prompt_hash())
            found[known] = key if found.get(known, key) == key else None
    return found
