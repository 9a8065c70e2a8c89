"""A change as Markdown, for a comment on a pull request.

Who wrote a recording must not write the comment. What was recorded stands in code spans and in fenced blocks
only, where a forge makes no links, images, mentions, references or commands of it. Each span and each fence
is longer than any run of backticks within, and no recorded line is a line of ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from itertools import islice
from typing import Any, Final

from cortex_replay.cli import output
from cortex_replay.view.documents.change import shorten_change
from cortex_replay.view.shapes import AnswerDocument, ChangeDocument, ChangeItem

__all__ = ["MARKER", "MOST_BYTES", "markdown_of"]

MARKER: Final = "<!-- cortex-replay diff -->"
"""The first line, by which a comment is found again that is to be updated."""
MOST_BYTES: Final = 60_000
"""GitHub takes 65,536 characters. In bytes, whatever a forge counts is less."""
_TITLES: Final = {"contract": "May break code", "behaviour": "Acts differently"}
_COUNTS: Final = {
    "contract": "may break code",
    "behaviour": "act differently",
    "words": "only reworded",
    "added": "added",
    "removed": "removed",
}
_CHANGES: Final = {
    "changed": "",
    "added": "added: ",
    "removed": "removed: ",
    "replaced": "in place of another: ",
    "road": "another way: ",
}
_TEXT: Final = 1000
"""So many characters of a text, four times that where it behaves otherwise."""
_SPAN: Final = 240
_MOST_SCOPES: Final = 3
_MOST_SENTENCES: Final = 6
_MOST_LINES: Final = 40
_MOST_REWORDINGS: Final = 40
_MOST_FINDINGS: Final = 10
_ROOM_FOR_WORDS: Final = 200
"""For what is said of those that are not listed, and for titles."""
_BACKTICKS: Final = re.compile("`+")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[ \t]+|\n")
"""A paragraph is one line, of which a comment would show the start only."""


def markdown_of(change: ChangeDocument, most_bytes: int = MOST_BYTES, *, everything: bool = False) -> str:
    """The change as a comment, what a reviewer must see first.

    Args:
        change: Without secrets.
        most_bytes: Of the whole comment. Both sides of a change are left out first; if that is not enough,
            the last changes are only counted.
        everything: Whether rewordings are listed with what differs, and not by their questions alone.
    """
    short = shorten_change(change, _TEXT)
    items = [item for tier in _TITLES for item in short["items"] if item["tier"] == tier]
    head, tail = _lines(_head(short)), _lines(_rewordings(short, most_bytes // 4, everything=everything))
    room = most_bytes - _size(head) - _size(tail) - _ROOM_FOR_WORDS
    told = _first_of((_lines(_item(item)) for item in items), room)
    room -= sum(map(_size, told))
    sides = _first_of((_lines(_both_sides(item)) for item in items[: len(told)]), room)
    parts, tier = [head], ""
    sides += [""] * (len(told) - len(sides))
    for item, text, side in zip(items, told, sides, strict=False):
        if item["tier"] != tier:
            tier = item["tier"]
            parts.append(f"#### {_TITLES[tier]}\n\n")
        parts += [text, side]
    if more := len(items) - len(told):
        parts.append(f"… and {more:,} more.\n\n")
    return "".join([*parts, tail]).rstrip("\n")


def _first_of(texts: Iterable[str], room: int) -> list[str]:
    """As many as fit."""
    found: list[str] = []
    for text in texts:
        room -= _size(text)
        if room < 0:
            break
        found.append(text)
    return found


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _size(text: str) -> int:
    return len(text.encode())


def _head(change: ChangeDocument) -> Iterator[str]:
    counts = [
        f"**{number:,}** {said}" for name, said in _COUNTS.items() if (number := change["counts"].get(name))
    ]
    yield MARKER
    yield "### What changed in the recordings"
    yield ""
    if same := sum(
        item["tier"] == "same" and item["change"] in ("changed", "replaced") for item in change["items"]
    ):
        counts.append(f"**{same:,}** with the same answer in another file")
    nothing = "no change can be seen" if change.get("findings") else "nothing changed"
    yield f"{_code(change['base'])} → {_code(change['head'])}: {', '.join(counts) or nothing}"
    yield ""
    if findings := change.get("findings", []):
        count = output.count(findings, "finding")
        yield f"**{count}: files that their index does not vouch for are not compared.**"
        yield ""
        yield from (f"- {_code(finding)}" for finding in findings[:_MOST_FINDINGS])
        if len(findings) > _MOST_FINDINGS:
            yield f"- and {len(findings) - _MOST_FINDINGS:,} more"
        yield ""


def _item(item: ChangeItem) -> Iterator[str]:
    """What changed, in one line for each difference."""
    scopes = [] if item["change"] == "road" else item["scopes"]  # of a road, they are its title
    about = [_code(text) for text in (item["who"], item["key"][:8], *scopes[:_MOST_SCOPES]) if text]
    if len(scopes) > _MOST_SCOPES:
        about.append(f"and {len(scopes) - _MOST_SCOPES} more")
    said = f" ({', '.join(about)})" if about else ""
    yield f"- {_CHANGES[item['change']]}{_code(item['title'] or item['path'])}{said}"
    for difference in item["differences"][:_MOST_SENTENCES]:
        yield f"  - {_code(difference['text'])}"
    if len(item["differences"]) > _MOST_SENTENCES:
        yield f"  - and {len(item['differences']) - _MOST_SENTENCES} more differences"
    yield ""


def _both_sides(item: ChangeItem) -> Iterator[str]:
    before, after = _sides(item)
    found = [
        output.escape(line)[:_SPAN] for line in islice(unified_diff(before, after, n=1, lineterm=""), 2, None)
    ]
    if not found:
        return
    fence = _fence(found, least=3)
    yield "  <details><summary>both sides</summary>"
    yield ""
    yield f"  {fence}diff"
    yield from (f"  {line}" for line in found[:_MOST_LINES])
    yield f"  {fence}"
    if len(found) > _MOST_LINES:
        yield ""
        yield f"  … and {len(found) - _MOST_LINES} more lines"
    yield ""
    yield "  </details>"
    yield ""


def _sides(item: ChangeItem) -> tuple[list[str], list[str]]:
    """What stands on either side, line by line."""
    for one in item["differences"]:
        if one["kind"] == "road" and isinstance(one["before"], list) and isinstance(one["after"], list):
            return [str(turn) for turn in one["before"]], [str(turn) for turn in one["after"]]
    before, after = (
        [line for answer in answers for line in _answer_lines(answer)]
        for answers in (item["before"], item["after"])
    )
    return before, after


def _answer_lines(answer: AnswerDocument) -> Iterator[str]:
    if answer["status"] is not None:
        yield f"status {answer['status']}"
    for call in answer["tool_calls"]:
        yield f"calls {call['name']}"
        yield from _pretty(call["arguments"])
    if answer["parsed"] is not None:
        yield from _pretty(answer["parsed"])
    else:
        yield from _SENTENCE_END.split(answer["text"])
    if answer["finish_reason"]:
        yield f"finish reason: {answer['finish_reason']}"


def _pretty(value: Any) -> list[str]:
    return json.dumps(value, indent=2, ensure_ascii=False).split("\n")


def _rewordings(change: ChangeDocument, room: int, *, everything: bool) -> Iterator[str]:
    items = [item for item in change["items"] if item["tier"] == "words"]
    total = max(len(items), change["counts"].get("words", 0))
    if total == 0:
        return
    shown = items if everything else items[:_MOST_REWORDINGS]
    told = _first_of((_lines(_item(item) if everything else _title(item)) for item in shown), room)
    yield f"<details><summary>{output.count(total, 'recording')} only reworded</summary>"
    yield ""
    yield "".join(told)
    if total > len(told):
        yield f"… and {total - len(told):,} more."
        yield ""
    yield "</details>"


def _title(item: ChangeItem) -> Iterator[str]:
    yield f"- {_code(item['title'] or item['path'])} ({_code(item['who'])})"


def _code(text: str) -> str:
    """One line of recorded text as a code span."""
    shown = output.escape(text)
    shown = shown if len(shown) <= _SPAN else f"{shown[: _SPAN - 1]}…"
    if not shown.strip():
        return "(empty)"
    marks = _fence([shown], least=1)
    # One blank is taken off at each end, if both have one.
    gap = " " if "`" in (shown[0], shown[-1]) or shown[0] == shown[-1] == " " else ""
    return f"{marks}{gap}{shown}{gap}{marks}"


def _fence(lines: Iterable[str], least: int) -> str:
    """So many backticks that none of the lines has as many in a row."""
    longest = max((len(run) for line in lines for run in _BACKTICKS.findall(line)), default=0)
    return "`" * max(least, longest + 1)
