"""In which parts two requests differ, for a person: in the order in which a model reads them.

What is compared is the plain form of what is hashed. So what the key does not see, such as the ids that a
client makes up for tool calls, is no difference, and what only Python takes for equal, such as 1, 1.0 and
true, is one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Final, Literal, NamedTuple

import orjson

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.types import LlmRequest

__all__ = [
    "MISSING",
    "Difference",
    "Hunk",
    "common_length",
    "differences",
    "escape_text",
    "hunks",
    "plain_form",
]

MISSING: Final = object()
"""What stands for a part that one of the two does not have; ``None`` is a value."""

_SHORT: Final = 60
_CONTEXT: Final = 28
_MOST_HUNKS: Final = 3
_MOST_SHOWN: Final = 80
_MOST_TOKENS: Final = 240
_MOST_COMPARED: Final = 2000
"""Characters, from the first that differs: only the first differences are shown."""

_TOKEN: Final = re.compile(r"\w+|\s+|[^\w\s]")
_Opcode = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]
_FIRST: Final = ("model", "tools", "system", "messages")


@dataclass(frozen=True, slots=True)
class Difference:
    """One part that is not what was recorded."""

    part: str
    """Such as ``message 3 (user)``."""
    recorded: object
    """A JSON value, or :data:`MISSING`."""
    asked: object

    def __str__(self) -> str:
        before, after = self.recorded, self.asked
        if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > _SHORT:
            return f"{escape_text(self.part)}: {_word_diff(before, after)}"
        show = ascii if _are_lookalikes(before, after) else _quote
        return f"{escape_text(self.part)}: {show(before)} → {show(after)}"


class Hunk(NamedTuple):
    """Words that were replaced by others, and where they stood in the one text."""

    before: str
    after: str
    start: int
    end: int


def plain_form(request: LlmRequest) -> dict[str, JsonValue]:
    """Everything that makes a key, as plain values."""
    return {"model": request.model, **orjson.loads(request.canonical_bytes())}


def differences(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[Difference]:
    """Every part in which two plain forms differ; parameters come last."""
    for name in dict.fromkeys([*_FIRST, *recorded, *asked]):
        before, after = recorded.get(name), asked.get(name)
        if _are_same(before, after):
            continue
        if name == "tools":
            yield from _tool_differences(before or [], after or [])
        elif name == "messages":
            yield from _conversation_differences(before or [], after or [])
        else:
            yield from _value_differences(name, _or_missing(before), _or_missing(after))


def _or_missing(value: object) -> object:
    return MISSING if value is None else value  # a parameter that is null was not given


def _tool_differences(before: list[Any], after: list[Any]) -> Iterator[Difference]:
    old, new = _by_name(before), _by_name(after)
    for name, tool in new.items():
        there = old.get(name, MISSING)
        if not _are_same(there, tool):
            yield from _value_differences(f"tool {name}", there, tool, joint=", ")
    for name, tool in old.items():
        if name not in new:
            yield Difference(f"tool {name}", tool, MISSING)
    if [name for name in old if name in new] != [name for name in new if name in old]:
        yield Difference(
            "order of the tools", [name.strip("'") for name in old], [name.strip("'") for name in new]
        )


def _by_name(tools: list[Any]) -> dict[str, object]:
    named: dict[str, object] = {}
    for number, tool in enumerate(tools, start=1):
        inner = tool.get("function", tool) if isinstance(tool, dict) else None
        name = inner.get("name") if isinstance(inner, dict) else None
        named[repr(name) if isinstance(name, str) and repr(name) not in named else str(number)] = tool
    return named


def _conversation_differences(before: list[Any], after: list[Any]) -> Iterator[Difference]:
    for kind, i1, i2, j1, j2 in _opcodes(list(map(compact, before)), list(map(compact, after))):
        if kind == "equal":
            continue
        both = min(i2 - i1, j2 - j1)
        for i, j in zip(range(i1, i1 + both), range(j1, j1 + both), strict=True):
            yield from _message_differences(_message(j, after[j]), before[i], after[j])
        for i in range(i1 + both, i2):
            yield Difference(_message(i, before[i]), _only_text(before[i]), MISSING)
        for j in range(j1 + both, j2):
            yield Difference(_message(j, after[j]), MISSING, _only_text(after[j]))


def _message(number: int, message: Mapping[str, Any]) -> str:
    return f"message {number + 1} ({message['role']})"


def _only_text(message: Mapping[str, Any]) -> object:
    """A message that has no counterpart: its text, where that says it all."""
    return message["content"] if len(message) == 2 else message


def _message_differences(where: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Difference]:
    is_said_twice = all(_texts(message) == message["content"] for message in (before, after))
    for name in dict.fromkeys([*before, *after]):
        one, other = before.get(name, MISSING), after.get(name, MISSING)
        if _are_same(one, other) or (name == "content" and is_said_twice):
            continue
        yield from _value_differences(where if name == "content" else f"{where}, {name}", one, other)


def _texts(message: Mapping[str, Any]) -> str | None:
    """The texts of a message's parts, where it has parts: mostly its content once more."""
    texts = [part.get("text") for part in message.get("parts", ()) if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str)) if any(texts) else None


def _value_differences(where: str, before: object, after: object, joint: str = ".") -> Iterator[Difference]:
    if isinstance(before, list) and isinstance(after, list):
        for i, (one, other) in enumerate(zip_longest(before, after, fillvalue=MISSING)):
            if not _are_same(one, other):
                yield from _value_differences(f"{where}[{i}]", one, other)
    elif isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys([*before, *after]):
            one, other = before.get(name, MISSING), after.get(name, MISSING)
            if not _are_same(one, other):
                yield from _value_differences(f"{where}{joint}{name}", one, other)
    else:
        yield Difference(where, before, after)


def _are_same(before: Any, after: Any) -> bool:
    """As the key sees it."""
    if before is MISSING or after is MISSING:
        return before is after
    return compact(before) == compact(after)


def _quote(value: object) -> str:
    if value is MISSING:
        return "nothing"
    if isinstance(value, str):
        text = value if len(value) <= _SHORT else f"{value[: _SHORT - 1]}…"
        return repr(text)
    text = escape_text(orjson.dumps(value).decode())
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"


def _are_lookalikes(before: object, after: object) -> bool:
    """Whether two texts differ in what nobody sees: an accent of its own, or not."""
    if not isinstance(before, str) or not isinstance(after, str):
        return False
    return unicodedata.normalize("NFC", before) == unicodedata.normalize("NFC", after)


def escape_text(text: str) -> str:
    """A text on one line, with every character that a terminal would obey spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _word_diff(before: str, after: str) -> str:
    """Two long texts as one, with context around the first differences.

    Such as ``… in [-Paris-]{+Oslo+} today …``.
    """
    found = hunks(before, after)
    first = found[0].start
    begin = _context_start(before, first)
    pieces = ["… " if begin else "", escape_text(before[begin:first])]
    at = first
    for hunk in found[:_MOST_HUNKS]:
        between = before[at : hunk.start]
        if len(between) > 2 * _CONTEXT:
            between = f"{between[:_CONTEXT]} … {between[-_CONTEXT:]}"
        pieces += [escape_text(between), _mark_hunk(hunk)]
        at = hunk.end
    end = _context_end(before, at)
    pieces += [escape_text(before[at:end]), " …" if end < len(before) else ""]
    more = len(found) - _MOST_HUNKS
    return "".join([*pieces, f" (and {more} more)" if more > 0 else ""])


def _mark_hunk(hunk: Hunk) -> str:
    spell = ascii if _are_lookalikes(hunk.before, hunk.after) else escape_text
    old, new = spell(_cut(hunk.before)), spell(_cut(hunk.after))
    return (f"[-{old}-]" if hunk.before else "") + (f"{{+{new}+}}" if hunk.after else "")


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _context_start(text: str, at: int) -> int:
    """Where the context before a place begins, at a word if there is one."""
    begin = max(0, at - _CONTEXT)
    space = text.find(" ", begin, at) + 1
    return space if begin and space else begin


def _context_end(text: str, at: int) -> int:
    end = min(len(text), at + _CONTEXT)
    space = text.rfind(" ", at + 1, end)
    return space if end < len(text) and space > 0 else end


def hunks(before: str, after: str) -> list[Hunk]:
    """Which words differ; of long texts that differ in much, only the first."""
    shorter = min(len(before), len(after))
    start = common_length(before, after, shorter)
    end = common_length(before[::-1], after[::-1], shorter - start)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    a = _TOKEN.findall(old[:_MOST_COMPARED])[:_MOST_TOKENS]
    b = _TOKEN.findall(new[:_MOST_COMPARED])[:_MOST_TOKENS]
    found: list[Hunk] = []
    at = start
    for kind, i1, i2, j1, j2 in _opcodes(a, b):
        length = sum(map(len, a[i1:i2]))
        if kind != "equal":
            hunk = Hunk("".join(a[i1:i2]), "".join(b[j1:j2]), at, at + length)
            if found and not before[found[-1].end : at].strip():  # only white space stays between the two
                last = found.pop()
                gap = before[last.end : at]
                hunk = Hunk(
                    last.before + gap + hunk.before, last.after + gap + hunk.after, last.start, hunk.end
                )
            found.append(hunk)
        at += length
    return found


def _opcodes(a: Sequence[str], b: Sequence[str]) -> list[_Opcode]:
    """As difflib has them. Its time grows with the square: so what is equal at both ends is left out,
    and what is still too much is one replacement."""
    least = min(len(a), len(b))
    start = next((i for i in range(least) if a[i] != b[i]), least)
    end = next((i for i in range(least - start) if a[-1 - i] != b[-1 - i]), least - start)
    old, new = a[start : len(a) - end], b[start : len(b) - end]
    if max(len(old), len(new)) > _MOST_TOKENS:
        return [("equal", 0, start, 0, start), ("replace", start, len(a) - end, start, len(b) - end)]
    inner = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    moved = ((kind, i1 + start, i2 + start, j1 + start, j2 + start) for kind, i1, i2, j1, j2 in inner)
    return [("equal", 0, start, 0, start), *moved]


def common_length(before: str, after: str, most: int) -> int:
    """How long the common start is, up to the start of a word."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if before[low:middle] == after[low:middle] else (low, middle - 1)
    for at in range(low, max(0, low - 64), -1):
        if not before[at - 1].isalnum():
            return at
    return 0 if low < 64 else low
