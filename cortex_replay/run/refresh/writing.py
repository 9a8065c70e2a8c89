"""Putting the answers of today in place of the recorded ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from cortex_replay.behaviour.differences import Tier
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.fixtures import FixtureMaker, meta_of
from cortex_replay.errors import RecordingRefused
from cortex_replay.run.refresh.items import Refresh
from cortex_replay.run.run import Run

__all__ = ["cache_notes", "write"]

_OF_ONE_ANSWER: Final = frozenset(
    [
        "recorded_at",
        "run",
        "asked_at",
        "answered_ms",
        "version",
        "redactions",
        "normalisers",
        "bindings",
        "usage",
    ]
)
"""What ``meta`` says of an answer that another takes the place of."""


def write(run: Run, items: Iterable[Refresh], least: Tier = Tier.SAME) -> None:
    """Put the new answers in place of the recorded ones, where all of a fixture came and one differs.

    What could not be confirmed stays as it is, too. One that is refused is told so, and does not keep the
    others from being written.

    Args:
        run: Whose store it is.
        items: What was asked; each is told where its answers are now.
        least: What has drifted less than this stays as it is.
    """
    staged: list[Refresh] = []
    for item in items:
        if item.has_changed and item.is_confirmed and item.tier >= least:
            maker = FixtureMaker(run.store, run.redactor, item.stored.scope)
            origin = {**_lasting(item.fixture.meta or {}), **item.look.bind_origin(item.origin)}
            origin["run"] = run.name
            later = {name: value for name, value in origin.items() if name != "call"}
            answers = [
                replace(answer, meta={**meta_of(later if n else origin, hits), **(answer.meta or {})})
                for n, (answer, hits) in enumerate(item.successors)
            ]
            try:
                maker.stage_answers(item.fixture.key, item.fixture.request, answers, overwrite=True)
            except RecordingRefused as error:
                item.refusal = error
            else:
                staged.append(item)
    run.commit()
    for item in staged:
        stored = item.stored
        item.written_to = run.store.path(stored.model, stored.prompt_hash, stored.scope)


def _lasting(meta: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What a recording says that stays true of another answer: which tests it is for, and the like."""
    lasting = {name: value for name, value in meta.items() if name not in (*_OF_ONE_ANSWER, "cache")}
    notes = cache_notes(meta)
    return {**lasting, "cache": notes} if notes else lasting


def cache_notes(meta: Mapping[str, JsonValue] | None) -> dict[str, JsonValue]:
    """The notes on the cache without the provider's reason, which was about the answer before."""
    notes = (meta or {}).get("cache")
    plain = notes if isinstance(notes, dict) else {}
    return {name: value for name, value in plain.items() if name != "reason"}
