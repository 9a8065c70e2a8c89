"""What changed between two texts, short enough for the message of a failed test."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from difflib import unified_diff
from typing import Final

__all__ = ["short_diff", "volatile_kind"]

_WRAPPER: Final = textwrap.TextWrapper(
    100, expand_tabs=False, replace_whitespace=False, drop_whitespace=False, break_on_hyphens=False
)
_MOST_LINES: Final = 24
_MOST_COMPARED: Final = 400
"""Lines, from the first that differs: comparing takes time that grows with the square of them."""

_MOST_CHARACTERS: Final = 100 * _MOST_COMPARED
_WIDEST: Final = 2000

_KINDS: Final = (
    ("a time", re.compile(r"\d{4}-\d\d-\d\d|\d?\d:\d\d(?::\d\d(?:\.\d+)?)?|\b1\d{9}(?:\d{3})?(?:\.\d+)?\b")),
    ("an id", re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)),
)


def short_diff(
    before: str | None, after: str | None, name_before: str, name_after: str, most: int = _MOST_LINES
) -> str:
    """A unified diff without line numbers, from the first difference on; "" for equal texts.

    Args:
        before: A text, or ``None`` for nothing at all.
        after: The same.
        name_before: What the first line calls the one.
        name_after: What the second line calls the other.
        most: How many lines to show.
    """
    before, after = _crop_to_difference(before, after)
    old, new = list(_lines(before)), list(_lines(after))
    if old == new and before != after:  # a long line was broken where they differ
        old, new = [repr(before)[:_WIDEST]], [repr(after)[:_WIDEST]]
    equal = 0
    while equal < min(len(old), len(new)) and old[equal] == new[equal]:
        equal += 1
    start = max(0, equal - 1)  # one line of context, as unified_diff gives it
    diff = unified_diff(
        old[start : start + _MOST_COMPARED],
        new[start : start + _MOST_COMPARED],
        f"previous: {name_before}",
        f"current: {name_after}",
        lineterm="",
        n=1,
    )
    lines = ["@@" if line.startswith("@@") else line for line in diff]
    hidden = len(lines) - most
    if hidden > 1:  # the note is a line too
        lines[most:] = [f"... and {hidden} more lines"]
    return "\n".join(lines)


def volatile_kind(diff: str) -> str | None:
    """What the two sides of a diff have each their own of: ``a time`` or ``an id``."""
    lines = diff.split("\n")[2:]
    old = "\n".join(line for line in lines if line.startswith("-"))
    new = "\n".join(line for line in lines if line.startswith("+"))
    for kind, pattern in _KINDS:
        found, instead = set(pattern.findall(old)), set(pattern.findall(new))
        if found - instead and instead - found:
            return kind
    return None


def _crop_to_difference(before: str | None, after: str | None) -> tuple[str | None, str | None]:
    """Two texts from shortly before their first difference on, and not much longer than is compared."""
    if before is None or after is None:
        return (text if text is None else text[:_MOST_CHARACTERS] for text in (before, after))  # type: ignore[return-value]
    equal = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    equal = min(len(before), len(after)) if equal is None else equal
    line = before.rfind("\n", 0, equal) + 1
    above = before.rfind("\n", 0, max(0, line - 1)) + 1 if line else 0
    start = above if equal - above < _WIDEST else max(0, equal - _WIDEST // 2)
    return before[start : start + _MOST_CHARACTERS], after[start : start + _MOST_CHARACTERS]


def _lines(text: str | None) -> Iterator[str]:
    """The lines of a text, long ones broken, so that a difference is not a page away."""
    for line in [] if text is None else text.split("\n"):
        pieces = _WRAPPER.wrap(line) or [""]
        # A line is broken at a space, which says nothing.
        yield from map(_visible, [*(piece.removesuffix(" ") for piece in pieces[:-1]), pieces[-1]])


def _visible(line: str) -> str:
    """A line with what nobody could see spelled out: control characters, and spaces at its end."""
    end = line.rstrip(" ")
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in end)
    return shown + "\\x20" * (len(line) - len(end))
