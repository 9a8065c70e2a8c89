"""What changed, in lines for a person: what a reviewer must see first, the rest in a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import click

from cortex_replay.behaviour.differences import Difference, Tier
from cortex_replay.behaviour.report import ChangeReport, Item
from cortex_replay.cli import output
from cortex_replay.cli.questions import shorten

__all__ = ["change_lines", "has_likely_leftovers", "plain_sentence", "sentence", "summary"]

_LONGEST: Final = 100
_LONGEST_SENTENCE: Final = 240
_MOST_DIFFERENCES: Final = 12
_HASH_SHOWN: Final = 8
_INDENT: Final = " " * 11
_STYLES: Final[dict[Tier, dict[str, object]]] = {
    Tier.CONTRACT: {"fg": "red"},
    Tier.BEHAVIOUR: {"bold": True},
    Tier.WORDS: {"dim": True},
    Tier.SAME: {"dim": True},
}


def change_lines(report: ChangeReport, *, everything: bool = False) -> Iterator[str]:
    """The report line by line. Whatever was recorded is redacted and escaped.

    Args:
        report: What changed.
        everything: Whether what changes no behaviour is listed, too.
    """
    folded: list[Item] = []
    for item in report.items:
        if item.tier > Tier.WORDS or everything:
            yield from _item_lines(item)
        else:
            folded.append(item)
    yield from _folded(folded)


def summary(report: ChangeReport) -> str:
    """How much changed, in one line."""
    if not report.items:
        return f"no recording changed since {output.escape(report.base)}"
    counts = [
        f"{report.counts[tier.word]} {tier.word}" for tier in (Tier.CONTRACT, Tier.BEHAVIOUR, Tier.WORDS)
    ]
    counts += [f"{report.counts[name]} {name}" for name in ("added", "removed")]
    return f"{output.escape(report.head)} since {output.escape(report.base)}: {', '.join(counts)}"


def has_likely_leftovers(report: ChangeReport) -> bool:
    """Whether tests that were there make more calls, and none fewer: mostly, a prompt was put otherwise, and
    what was recorded for it before is still there."""
    ways = {item.how for item in report.items if item.how != "added" or item.tier >= Tier.BEHAVIOUR}
    return "added" in ways and not ways & {"removed", "replaced"}


def sentence(one: Difference) -> str:
    """What one difference is, on one line."""
    return output.escape(plain_sentence(one))


def plain_sentence(one: Difference) -> str:
    """The same for what escapes texts itself."""
    # Secrets first: half of one would not be known for one.
    return shorten(output.redact(one.text), _LONGEST_SENTENCE)


def _item_lines(item: Item) -> Iterator[str]:
    tier = click.style(f"{item.tier.word:<9}", **_STYLES[item.tier])  # type: ignore[arg-type]
    yield f"{tier}  {_describe(item)}"
    if item.why:
        yield f"{_INDENT}in place of another: {output.escape(item.why)}"
    for one in item.differences[:_MOST_DIFFERENCES]:
        yield f"{_INDENT}- {sentence(one)}"
    if (more := len(item.differences) - _MOST_DIFFERENCES) > 0:
        yield f"{_INDENT}- and {output.count(more, 'more difference')}"


def _describe(item: Item) -> str:
    """How it changed, whose it is, the question, and a hash that ``show`` takes."""
    if item.how == "road":
        return f"road of {_names(item.scopes)}"
    who = f"{output.escape(output.redact(item.who))}  " if item.who else ""
    title = output.escape(shorten(item.title, _LONGEST))
    short = click.style(f"  ({item.key[:_HASH_SHOWN]})", dim=True) if item.key else ""
    of = f"  of {_names(item.scopes)}" if item.scopes else ""
    return f'{item.how}  {who}"{title}"{short}{of}'


def _names(scopes: Sequence[str]) -> str:
    first = output.escape(shorten(output.redact(scopes[0]), _LONGEST))
    return f"{first} and {len(scopes) - 1} more" if len(scopes) > 1 else first


def _folded(items: Iterable[Item]) -> Iterator[str]:
    """What changes no behaviour: one line for each sort of it."""
    sorts: dict[str, int] = {}
    for item in items:
        if item.tier is Tier.WORDS:
            sort = "{} only reworded"
        elif item.how == "added":
            sort = "{} new, with nothing to compare"
        elif item.how == "removed":
            sort = "{} removed with the test that asked"
        else:
            sort = "{} with the same answer in another file"
        sorts[sort] = sorts.get(sort, 0) + 1
    for sort, number in sorts.items():
        yield click.style(sort.format(output.count(number, "recording")), dim=True)
