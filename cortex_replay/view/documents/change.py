"""Two sides of a store as a document: without secrets, and as much of each text as a reviewer needs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any, Final, cast

from cortex_replay.behaviour.differences import Difference, Tier
from cortex_replay.behaviour.questions import Question
from cortex_replay.behaviour.report import ChangeReport, Item
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import Finding
from cortex_replay.misses.differences import common_length
from cortex_replay.redact.names import without_secrets
from cortex_replay.redact.redactor import Redactor
from cortex_replay.view.documents.answers import compared_answer
from cortex_replay.view.documents.cutter import Cutter, cut_short
from cortex_replay.view.shapes import AnswerDocument, ChangeDocument, ChangeItem, DifferenceDocument, TierWord

__all__ = [
    "change_document",
    "clean_change",
    "difference_documents",
    "shorten_change",
    "tier_word",
    "whole_change",
]

_LONGEST: Final = 64 * 1024
"""Of a text that is only reworded; a change of behaviour may be four times as long."""
_SHORTEST: Final = 2 * 1024
_MOST_TOGETHER: Final = 8 * 1024 * 1024
"""Of one side, whatever it is: a browser takes the document whole."""
_FACTOR: Final = 4
_AHEAD: Final = 200
"""So much of what is the same stands before the first difference."""
_SENTENCE: Final = 400
_TITLE: Final = 300
_LEAF: Final = 200
_MOST_CALLS: Final = 50
_MOST_DIFFERENCES: Final = 200
_CUT: Final = "…"


def change_document(
    report: ChangeReport, redactor: Redactor, findings: Iterable[Finding] = (), longest: int | None = None
) -> ChangeDocument:
    """A change as the page shows it.

    Args:
        report: The change.
        redactor: Takes secrets out, before a text is cut and half of one could stay.
        findings: Why files of either side are not compared.
        longest: As :func:`clean_change` takes it.
    """
    change: ChangeDocument = {**whole_change(report, redactor), "findings": list(map(str, findings))}
    return clean_change(change, redactor, longest)


def whole_change(report: ChangeReport, redactor: Redactor) -> ChangeDocument:
    """A change for programs, with all that its answers say.

    Args:
        report: The change.
        redactor: Takes secrets out of what was recorded.
    """
    cut = Cutter(redactor)
    return {
        "base": report.base,
        "head": report.head,
        "counts": report.counts,
        "items": [_item(item, cut) for item in report.items],
        "left_out": 0,
    }


def clean_change(change: ChangeDocument, redactor: Redactor, longest: int | None = None) -> ChangeDocument:
    """The same change without secrets, and with as much of each text as a reviewer needs.

    Args:
        change: All of it.
        redactor: Takes secrets out.
        longest: So many characters of a text that is only reworded. If it is not said, the fewer the
            more items there are.
    """
    clean = cast("ChangeDocument", without_secrets(cast("JsonValue", change), redactor))
    return shorten_change(clean, longest or _length_for(len(clean["items"])))


def _item(item: Item, cut: Cutter) -> ChangeItem:
    return {
        "id": item.id,
        "change": item.how,
        "tier": tier_word(item.tier),
        "title": item.title,
        "who": cut.text(item.who),
        "key": item.key,
        "path": item.path,
        "scopes": [cut.text(scope) for scope in item.scopes],
        "why": cut.text(item.why),
        "differences": difference_documents(item.differences),
        "before": _answers(item.before, cut),
        "after": _answers(item.after, cut),
    }


def _answers(question: Question | None, cut: Cutter) -> list[AnswerDocument]:
    return [] if question is None else [compared_answer(said, cut) for _, said in question.answers]


def difference_documents(differences: Iterable[Difference]) -> list[DifferenceDocument]:
    """Differences, each as it is."""
    return [cast("DifferenceDocument", one.to_dict()) for one in differences]


def tier_word(tier: Tier) -> TierWord:
    """A tier as documents have it."""
    return cast("TierWord", tier.word)


def _length_for(items: int) -> int:
    return max(_SHORTEST, min(_LONGEST, _MOST_TOGETHER // max(1, items)))


def shorten_change(change: ChangeDocument, longest: int) -> ChangeDocument:
    """The same change with shorter texts. What is the same on both sides goes first, and what behaves
    otherwise keeps more."""
    return {**change, "items": [_shorten_item(item, longest) for item in change["items"]]}


def _shorten_item(item: ChangeItem, longest: int) -> ChangeItem:
    room = longest if item["tier"] in ("words", "same") else _FACTOR * longest
    pairs = [
        _shorten_pair(before, after, room) for before, after in zip_longest(item["before"], item["after"])
    ]
    return {
        **item,
        "title": cut_short(item["title"], _TITLE),
        "why": cut_short(item["why"], _SENTENCE),
        "differences": _shorten_differences(item["differences"], room),
        "before": [before for before, _ in pairs if before is not None],
        "after": [after for _, after in pairs if after is not None],
    }


def _shorten_pair(
    before: AnswerDocument | None, after: AnswerDocument | None, room: int
) -> tuple[AnswerDocument | None, AnswerDocument | None]:
    """Two answers to one call. A text is cut in front only where both sides are the same."""
    start = 0
    if before is not None and after is not None:
        old, new = before["text"], after["text"]
        if max(len(old), len(new)) > room:
            start = _word_start(old, common_length(old, new, min(len(old), len(new))) - _AHEAD)
    return (
        None if before is None else _shorten_answer(before, start, room),
        None if after is None else _shorten_answer(after, start, room),
    )


def _word_start(text: str, at: int) -> int:
    """Where the word begins that stands there, if it is not a very long one."""
    blank = max(text.rfind(" ", at - _AHEAD, at), text.rfind("\n", at - _AHEAD, at)) if at > 0 else -1
    return max(blank + 1 or at, 0)


def _shorten_answer(answer: AnswerDocument, start: int, room: int) -> AnswerDocument:
    text = answer["text"]
    # What an earlier cut left out stays left out.
    ahead, behind = answer.get("left_out", (0, 0))
    short: AnswerDocument = {
        **answer,
        "text": text[start : start + room],
        "reasoning": cut_short(answer["reasoning"], room),
        "tool_calls": _shorten_calls(answer["tool_calls"], room),
        "parsed": _shorten_value(answer["parsed"], room),
        "stream": None,
    }
    ahead, behind = ahead + start, behind + max(len(text) - start - room, 0)
    if ahead or behind:
        short["left_out"] = ahead, behind
    return short


def _shorten_calls(calls: list[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    shown = [
        {"name": cut_short(str(call["name"]), _LEAF), "arguments": _shorten_value(call["arguments"], room)}
        for call in calls[:_MOST_CALLS]
    ]
    more = len(calls) - _MOST_CALLS
    return [*shown, {"name": f"{_CUT} and {more} more calls", "arguments": None}] if more > 0 else shown


def _shorten_differences(differences: Iterable[DifferenceDocument], room: int) -> list[DifferenceDocument]:
    listed = list(differences)
    short: list[DifferenceDocument] = [
        {
            **one,
            "place": cut_short(one["place"], _LEAF),
            "text": cut_short(one["text"], _SENTENCE),
            # Words stand in the answers, once.
            "before": None if one["tier"] == "words" else _shorten_value(one["before"], room),
            "after": None if one["tier"] == "words" else _shorten_value(one["after"], room),
        }
        for one in listed[:_MOST_DIFFERENCES]
    ]
    more = len(listed) - _MOST_DIFFERENCES
    if more > 0:
        rest = listed[_MOST_DIFFERENCES]
        text = f"and {more} more differences, none of a higher tier"
        short.append({**rest, "kind": "more", "place": "", "before": None, "after": None, "text": text})
    return short


def _shorten_value(value: Any, room: int) -> Any:
    """A JSON value that is not larger than this: its texts are cut, or else it is a text itself."""
    if isinstance(value, str):
        return cut_short(value, room)
    if value is None or len(whole := _compact(value)) <= room:
        return value
    short = _cut_leaves(value)
    return short if len(_compact(short)) <= room else cut_short(whole, room)


def _cut_leaves(value: Any) -> Any:
    if isinstance(value, str):
        return cut_short(value, _LEAF)
    if isinstance(value, dict):
        return {cut_short(name, _LEAF): _cut_leaves(item) for name, item in value.items()}
    return [_cut_leaves(item) for item in value] if isinstance(value, list) else value


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
