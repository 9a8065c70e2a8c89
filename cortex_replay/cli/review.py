"""What changed since a commit, in words for a reviewer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from cortex_replay.behaviour.differences import Tier
from cortex_replay.behaviour.report import Item, report_changes
from cortex_replay.cli import output
from cortex_replay.cli.change_text import sentence
from cortex_replay.cli.questions import question_of, shorten
from cortex_replay.store.index.index import ScopedRow, content_key
from cortex_replay.store.review import Addition, Change, Recording, Review

__all__ = ["print_review", "review_as_json"]

_LONGEST: Final = 100
_HASH_SHOWN: Final = 8


def print_review(review: Review, base: str) -> None:
    """Say of each recording what was asked, and what it takes the place of."""
    replaced = {one.replaces.row.path for one in review.added if one.replaces is not None}
    removed = [one for one in review.removed if one.row.path not in replaced]
    for addition in review.added:
        output.echo_lines(_addition_lines(addition))
    tiers = _judge(review)
    for change in review.changed:
        output.echo_lines(_change_lines(change, tiers.get(change.after.row.path)))
    for recording in removed:
        output.echo(f"removed  {_describe(recording)}")
    parts = [*(("added  ", row) for row in review.added_parts)]
    parts += [("removed", row) for row in review.removed_parts]
    for verb, row in parts:
        output.echo(f"{verb}  {output.escape(row.path)}, which requests share")
    if not (review.added or review.changed or review.removed or review.pinned or parts):
        return
    replacing = f" ({len(replaced)} in place of another)" if replaced else ""
    scopes = len({row.scope for row in review.pinned})
    pinned = f", {output.count(scopes, 'scope')} given what others recorded" if scopes else ""
    output.talk(
        f"since {output.escape(base)}: {len(review.added)} added{replacing}, {len(review.changed)} changed, "
        f"{len(removed)} removed{pinned}"
    )


def _addition_lines(addition: Addition) -> Iterator[str]:
    yield f"added    {_describe(addition.recording)}"
    if addition.replaces is not None:
        yield f"         replaces {_describe(addition.replaces)}: {output.escape(addition.why)}"


def _judge(review: Review) -> dict[str, Item]:
    """What each change means, by the file that it is in now."""
    return {item.path: item for item in report_changes(review, "", "", output.redact).items}


def _change_lines(change: Change, item: Item | None) -> Iterator[str]:
    yield f"changed  {_describe(change.after)}"
    if item is not None and item.tier > Tier.WORDS:
        yield f"         {item.tier.word}: {sentence(item.differences[0])}"
    if change.is_same_answer:
        yield "         the answer is the same; only what the file says around it differs"
    elif change.before.answer or change.after.answer:
        yield f"         was {_quote(change.before.answer)}"
        yield f"         now {_quote(change.after.answer)}"


def _describe(recording: Recording) -> str:
    """The model, the question, and a hash that ``show`` takes; its file where nobody could read it."""
    row = recording.row
    question = _question_of(recording)
    if not question:
        return output.escape(" ".join(filter(None, [recording.model, row.path])))
    model = f"{output.escape(recording.model)}  " if recording.model else ""
    key = content_key(row)[1] or ""
    short = click.style(f"  ({key[:_HASH_SHOWN]})", dim=True) if key else ""
    of = f"  of {output.escape(output.redact(row.scope))}" if isinstance(row, ScopedRow) else ""
    return f"{model}{_quote(question)}{short}{of}"


def _question_of(recording: Recording) -> str:
    return question_of(recording.request) or recording.exchange


def _quote(text: str) -> str:
    # Secrets first: half of one would not be known for one.
    return f'"{output.escape(shorten(output.redact(text), _LONGEST))}"'


def review_as_json(review: Review) -> dict[str, object]:
    """The same for a program."""
    items = _judge(review)
    return {
        "added": [
            {
                **_as_json(one.recording),
                "replaces": None if one.replaces is None else {**_as_json(one.replaces), "why": one.why},
            }
            for one in review.added
        ],
        "changed": [
            {
                "before": _as_json(change.before),
                "after": _as_json(change.after),
                "same_answer": change.is_same_answer,
                **_tier(items.get(change.after.row.path)),
            }
            for change in review.changed
        ],
        "removed": [_as_json(recording) for recording in review.removed],
        "pinned": [row._asdict() for row in review.pinned],
        "parts": {
            "added": [row._asdict() for row in review.added_parts],
            "removed": [row._asdict() for row in review.removed_parts],
        },
    }


def _tier(item: Item | None) -> dict[str, object]:
    return {} if item is None else {"tier": item.tier.word}


def _as_json(recording: Recording) -> dict[str, object]:
    said = {"question": _question_of(recording), "answer": recording.answer}
    return {
        **recording.row._asdict(),
        "model": recording.model,
        **{name: shorten(output.redact(text), _LONGEST) or None for name, text in said.items()},
    }
