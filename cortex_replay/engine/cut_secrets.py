"""Recordings of prompts out of which a secret was cut.

A prompt is recorded under the key of what was asked, secret and all. But where the secret came from a
recorded answer, of a tool or of a model, replay gives it without the secret, so the program then asks with
what stands for it: just what the recording stores. So it is found by the key of its stored request, too.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import LlmError
from cortex_replay.redact.redactor import MARK
from cortex_replay.store import FixtureKey, Store
from cortex_replay.store.fixture_json import may_be_short

__all__ = ["key_with_secret"]


class _Recording(NamedTuple):
    is_own: bool
    recorded_at: str
    run: JsonValue
    key: FixtureKey


_Keys = dict[FixtureKey, FixtureKey | None]
_KEPT: Final[WeakKeyDictionary[Store, dict[tuple[str, str], _Keys]]] = WeakKeyDictionary()
"""What this run records with a secret was asked with it, so that what was read once stays true."""


def key_with_secret(store: Store, owner: str, key: FixtureKey) -> FixtureKey | None:
    """The key of a recording whose stored request, without secrets, has this key; ``None`` if there is none.

    Args:
        store: What is recorded.
        owner: Whose recordings count before the shared ones.
        key: That of a request which holds what stands for a secret.
    """
    kept = _KEPT.setdefault(store, {})
    place = (owner, key.model)
    if place not in kept:
        kept[place] = _keys_without_secrets(store, owner, key.model)
    return kept[place].get(key)


def _keys_without_secrets(store: Store, owner: str, model: str) -> _Keys:
    found: dict[FixtureKey, list[_Recording]] = {}
    for key, data in store.scan_model(model, owner):
        try:
            may_have = may_be_short(data) or MARK.encode() in data  # the mark may stand in a part
            fixture = store.get(*key, owner) if may_have else None
        except LlmError:  # what is wrong with it is told when it is asked for
            continue
        if fixture is None or fixture.request is None or not fixture.is_request_redacted:
            continue
        meta = fixture.meta or {}
        one = _Recording(store.has_own(*key, owner), str(meta.get("recorded_at", "")), meta.get("run"), key)
        there = found.setdefault(FixtureKey(model, fixture.request.prompt_hash()), [])
        if one not in there:
            there.append(one)
    return {key: _choose(recordings) for key, recordings in found.items()}


def _choose(recordings: list[_Recording]) -> FixtureKey | None:
    """The newest: a secret that is another one each time leaves a recording of each time behind.

    If one run asked two of them, nobody can tell which is meant.
    """
    *before, newest = sorted(recordings, key=lambda one: (one.is_own, one.recorded_at, one.key))
    rivals = [one for one in before if one.is_own == newest.is_own and one.run == newest.run]
    return None if rivals else newest.key
