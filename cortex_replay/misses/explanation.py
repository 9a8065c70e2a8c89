"""A miss that explains itself: the key, the nearest recording, what differs from it, and what to do."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, cast

from cortex_replay.bindings import NOWHERE, Binder
from cortex_replay.canonical import JsonValue, compact
from cortex_replay.config import Settings, load_settings
from cortex_replay.config.files import file_to_make, find_config, shown_path
from cortex_replay.config.rule_text import rule_lines
from cortex_replay.errors import InvalidRequest
from cortex_replay.misses.differences import differences, escape_text, plain_form
from cortex_replay.misses.nearest import Nearest, nearest_exchange, nearest_fixture
from cortex_replay.misses.rules import Lesson, compare
from cortex_replay.misses.suggestions import KINDS, SHAPE_KINDS, suggest_normalisers, toml_line
from cortex_replay.redact.redactor import MARK, Redactor
from cortex_replay.redact.settings import redactor_for
from cortex_replay.store.fixture import FixtureKey
from cortex_replay.store.store import Store
from cortex_replay.types import LlmRequest

__all__ = [
    "difference_lines",
    "exhaustion_text",
    "explain_exhaustion",
    "explain_miss",
    "explain_opaque_exhaustion",
    "explain_opaque_miss",
    "explain_other_way",
    "miss_text",
    "redact_plain",
    "store_redactor",
]

_MOST_DIFFERENCES: Final = 10
_MOST_RULES: Final = 3
"""That are shown with a miss; ``learn`` finds them all."""


def explain_miss(
    store: Store,
    request: LlmRequest,
    key: FixtureKey,
    how_to_record: str,
    redactor: Redactor | None = None,
    binder: Binder | None = None,
) -> str:
    """Why a request has no answer, in at most about 25 lines.

    Args:
        store: Where it was looked for.
        request: What was asked.
        key: What it was looked up by.
        how_to_record: The command, or the words, for the last line.
        redactor: What cuts secrets out; by default those of the environment and of the store's configuration.
        binder: What binds its values; by default nothing is known of where it was asked.
    """
    try:
        if key in store or store.has_failures(*key):
            return explain_exhaustion(key, how_to_record)
        redactor = store_redactor(store) if redactor is None else redactor
        binder = binder or Binder(store.key_rules.bindings, NOWHERE)
        about = _nearest_lines(store, request, redactor, binder, how_to_record)
    except Exception:  # noqa: BLE001 - see miss_text
        about = iter(())
    return miss_text(_key_name(key), about, how_to_record)


def miss_text(what: str, about: Iterator[str], how_to_record: str) -> str:
    """Nothing is recorded for something: what is known about it, and how to record it.

    Args:
        what: Was asked.
        about: The lines that explain it. Whatever stands in the way of these, it is a miss.
        how_to_record: The command, or the words, for the last line.
    """
    try:
        lines = list(about)
    except Exception:  # noqa: BLE001 - it is a miss all the same
        lines = []
    first = f"cortex-replay: nothing is recorded for {what}."
    return "\n".join([first, *lines, f"To record it: {how_to_record}"])


def exhaustion_text(what: str, how_to_record: str) -> str:
    """Every answer that is recorded for something was given."""
    first = f"cortex-replay: every answer that is recorded for {what} was given already."
    return f"{first}\nTo record another: {how_to_record}"


def explain_exhaustion(key: FixtureKey, how_to_record: str) -> str:
    """Every answer of a key was given."""
    return exhaustion_text(_key_name(key), how_to_record)


def explain_other_way(key: FixtureKey, asked: str, recorded: str, how_to_record: str) -> str:
    """A request for several answers at once, asked in another way than it was recorded in.

    Args:
        key: What it was looked up by.
        asked: How the answers are to come.
        recorded: How they came.
        how_to_record: The command, or the words, for the last line.
    """
    what = f"{_key_name(key)} asks for several answers at once, {asked}; they were recorded {recorded}."
    return f"cortex-replay: {escape_text(what)}\nTo record it: {how_to_record}"


def explain_opaque_miss(
    store: Store, request: dict[str, JsonValue], key: str, how_to_record: str, redactor: Redactor
) -> str:
    """A call that is recorded as it is, and was not.

    Args:
        store: Where it was looked for.
        request: What was asked.
        key: What it was looked up by.
        how_to_record: The command, or the words, for the last line.
        redactor: What cuts secrets out.
    """
    call = f"{request['method']} {request['path']} of {request['upstream']}"
    about = _nearest_exchange_lines(store, request, redactor)
    return miss_text(f"{escape_text(call)} ({key[:16]})", about, how_to_record)


def explain_opaque_exhaustion(request: dict[str, JsonValue], key: str, how_to_record: str) -> str:
    """Every answer to a call that is recorded as it is was given."""
    what = f"{request['method']} {request['path']} of {request['upstream']} ({key[:16]})"
    return exhaustion_text(what, how_to_record)


def store_redactor(store: Store) -> Redactor:
    """Cuts out what the environment and the store's configuration know to be secret."""
    try:
        settings = load_settings(store.root, {}).settings
    except InvalidRequest:
        settings = Settings()
    return redactor_for(settings, os.environ)


def _key_name(key: FixtureKey) -> str:
    return f"{escape_text(key.model)} {key.prompt_hash[:16]}"


def _nearest_lines(
    store: Store, request: LlmRequest, redactor: Redactor, binder: Binder, how_to_record: str
) -> Iterator[str]:
    if not store.has_fixtures:
        yield "Nothing is recorded in this store yet."
        return
    normal = store.normalise(request)[0]
    asked = binder.bind(normal).request
    plain = redactor.json(asked.to_dict())[0]
    nearest = nearest_fixture(store, asked, plain=plain)
    if nearest is None:
        yield f"None of its {len(store)} recordings holds a request that could be compared."
        return
    # Redacted as a whole, before anything is cut: no rule knows a secret by a piece of it.
    before, has_secrets = redact_plain(plain_form(nearest.request), redactor)
    after, has_more = redact_plain(plain_form(asked), redactor)
    from cortex_replay.misses.cache_costs import name_system  # noqa: PLC0415 - for misses alone

    yield from difference_lines(
        nearest.path, before, after, name_system(nearest.request, str(after["system"]))
    )
    yield from _cost_lines(store, nearest, asked, plain)
    # With a secret in it, or what stands for one, no word of a text is quoted in a pattern.
    counters = not (has_secrets or has_more or MARK in compact(after))
    if counters:
        here = binder if nearest.bindings else Binder(binder.rules, NOWHERE)
        lesson = compare(nearest.request, normal, here, nearest.bindings)
        offer = list(_rule_lines(store, lesson, how_to_record))
        if offer:
            yield from offer
            return
    yield from _suggestion_lines(
        store, suggest_normalisers(store.key_rules, nearest.request, asked, counters=counters)
    )


def _nearest_exchange_lines(store: Store, request: dict[str, JsonValue], redactor: Redactor) -> Iterator[str]:
    after = redact_plain(request, redactor)[0]
    nearest = nearest_exchange(store, after)
    if nearest is None:
        yield "No call of this kind is recorded in this store yet."
        return
    before = redact_plain(nearest.request, redactor)[0]
    yield from difference_lines(nearest.path, _call_form(before), _call_form(after))


def _call_form(request: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A call as it is compared: its query by name."""
    query: dict[str, JsonValue] = {}
    for pair in cast("list[list[str]]", request.get("query", [])):
        name, value = pair
        query[name] = value if name not in query else f"{query[name]}, {value}"
    return {**request, "query": query}


def _cost_lines(store: Store, nearest: Nearest, asked: LlmRequest, plain: JsonValue) -> list[str]:
    from cortex_replay.misses.cache_costs import cost_lines  # noqa: PLC0415 - for misses alone

    try:
        # Without its secrets, as the recording is: what was cut out there is no edit.
        redacted = LlmRequest.from_dict({"model": asked.model, **cast("dict[str, JsonValue]", plain)})
        pairs = zip(redacted.messages, asked.messages, strict=True)
        named = tuple(replace(message, id=own.id) for message, own in pairs)
        return list(cost_lines(store, nearest, replace(redacted, messages=named, cache=asked.cache)))
    except Exception:  # noqa: BLE001 - what it costs is beside the point: it is a miss
        return []


def difference_lines(
    path: str, before: dict[str, JsonValue], after: dict[str, JsonValue], system: str = "system"
) -> Iterator[str]:
    """Which recording is the nearest, and in what it differs."""
    found = [replace(one, part=system) if one.part == "system" else one for one in differences(before, after)]
    yield f"Nearest: {escape_text(path)}. It differs in" + (":" if found else " what was cut out as secret.")
    for difference in found[:_MOST_DIFFERENCES]:
        yield f"  {difference}"
    if len(found) > _MOST_DIFFERENCES:
        yield f"  and {len(found) - _MOST_DIFFERENCES} more"


def redact_plain(plain: dict[str, JsonValue], redactor: Redactor) -> tuple[dict[str, JsonValue], bool]:
    """A plain form without its secrets, and whether it had any; names in objects are looked at, too."""
    values, hits = redactor.json(plain)
    if redactor.text(compact(values))[1]:
        return cast("dict[str, JsonValue]", _redact_names(values, redactor)), True
    return cast("dict[str, JsonValue]", values), bool(hits)


def _redact_names(value: JsonValue, redactor: Redactor) -> JsonValue:
    if isinstance(value, list):
        return [_redact_names(item, redactor) for item in value]
    if isinstance(value, dict):
        return {redactor.text(name)[0]: _redact_names(item, redactor) for name, item in value.items()}
    return value


def _rule_lines(store: Store, lesson: Lesson, how_to_record: str) -> Iterator[str]:
    """What ``learn`` would make of it, if it is noise."""
    if lesson.changes:
        return
    if not lesson.rules:
        yield "By the rules of this store it is the same; its recordings do not follow them yet."
        yield f"To mend that: {_rekey_command(store)}"
        return
    where, prefix = _place_of_settings(store)
    kinds = list(dict.fromkeys(SHAPE_KINDS.get(rule.bind, rule.bind) for rule in lesson.rules))
    command = learn_command(how_to_record)
    is_short = len(lesson.rules) <= _MOST_RULES
    looks = f"It looks like {' and '.join(kinds)}."
    if command is not None:
        yield f"{looks} If that says nothing, let it be learned: {command}"
    if is_short:
        yield (looks + " If that says nothing, put" if command is None else "or put") + (
            f" into {escape_text(where)}:"
        )
        for rule in lesson.rules:
            yield from (f"  {escape_text(line)}" for line in rule_lines(replace(rule, learned=""), prefix))
        yield f"and run: {_rekey_command(store)}"


def learn_command(how_to_record: str) -> str | None:
    """What learns a command, if what records it is one."""
    start = "cortex-replay record "
    is_command = how_to_record.startswith(start) and " -- " in how_to_record
    return f"cortex-replay learn {how_to_record.removeprefix(start)}" if is_command else None


def _place_of_settings(store: Store) -> tuple[str, str]:
    """The file with the settings of a store, and what stands before their names in it."""
    try:
        file = find_config(store.root)
    except InvalidRequest:  # somebody is writing it
        file = None
    return file_to_make(store.root) if file is None else (file.shown, file.prefix)


def _rekey_command(store: Store) -> str:
    root = shown_path(store.root)
    return escape_text("cortex-replay rekey" + ("" if root == "." else f" --store {shlex.quote(root)}"))


def _suggestion_lines(store: Store, further: dict[str, str]) -> Iterator[str]:
    lines = [toml_line(name, pattern) for name, pattern in further.items()]
    if not lines:
        return
    where, prefix = _place_of_settings(store)
    kinds = list(dict.fromkeys(KINDS[name.rstrip("-23456789")] for name in further))
    yield f"It looks like {' and '.join(kinds)}. If that says nothing, put into {escape_text(where)}:"
    yield f"  [{prefix}normalisers]"
    yield from (f"  {line}" for line in lines)
    yield f"and run: {_rekey_command(store)}"
