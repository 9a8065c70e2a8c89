"""Changes by hand, as documents."""

from __future__ import annotations

import random
from typing import Any

from cortex_replay.view.shapes import AnswerDocument, ChangeDocument, ChangeItem, DifferenceDocument

__all__ = ["answer", "call", "change", "difference", "item", "large_change", "sample_change"]

_SYLLABLES = [
    f"{start}{vowel}{end}" for start in "bdfgklmnprst" for vowel in "aeiou" for end in ("", "n", "r", "st")
]
_RANDOM = random.Random(0)
_WORDS = ["".join(_RANDOM.choices(_SYLLABLES, k=_RANDOM.randint(1, 4))) for _ in range(4000)]
"""As many as a long text has: of fewer, a page would be smaller than one of real answers."""


def answer(text: str = "", **fields: Any) -> AnswerDocument:
    made: AnswerDocument = {
        "text": text,
        "reasoning": "",
        "tool_calls": [],
        "parsed": None,
        "finish_reason": "stop",
        "spent": None,
        "stream": None,
        "status": None,
    }
    made.update(fields)  # type: ignore[typeddict-item]
    return made


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def difference(tier: Any, kind: str, text: str, before: Any = None, after: Any = None) -> DifferenceDocument:
    return {"tier": tier, "kind": kind, "place": "", "before": before, "after": after, "text": text}


def item(name: str, tier: Any = "words", **fields: Any) -> ChangeItem:
    made: ChangeItem = {
        "id": name,
        "change": "changed",
        "tier": tier,
        "title": f"question {name}",
        "who": "claude-haiku-5-5",
        "key": name.encode().hex().ljust(64, "0")[:64],
        "path": f"fixtures/{name}.json",
        "scopes": [],
        "why": "",
        "differences": [],
        "before": [answer("one")],
        "after": [answer("two")],
    }
    made.update(fields)  # type: ignore[typeddict-item]
    return made


def change(*items: ChangeItem, base: str = "main", head: str = "working tree") -> ChangeDocument:
    counts = {
        tier: sum(one["tier"] == tier for one in items) for tier in ("contract", "behaviour", "words", "same")
    }
    counts |= {kind: sum(one["change"] == kind for one in items) for kind in ("added", "removed")}
    return {"base": base, "head": head, "counts": counts, "items": list(items), "left_out": 0}


def sample_change() -> ChangeDocument:
    """One of each kind."""
    told = "I looked at your order 1042.\nIt left Berlin on Monday.\nIt should arrive on Thursday."
    return change(
        item(
            "refund",
            "contract",
            title="Refund order 1042, please",
            scopes=["tests/test_agent.py::test_refund"],
            differences=[
                difference("contract", "tool", "find_order is no longer called", before=True),
                difference("contract", "tool", "issue_refund is called, and was not before", after=True),
                difference(
                    "contract", "finish reason", "finish reason: tool_use became length", "tool_use", "length"
                ),
            ],
            before=[
                answer("Let me look.", tool_calls=[call("find_order", number=1042)], finish_reason="tool_use")
            ],
            after=[
                answer(
                    "Let me look.",
                    tool_calls=[call("issue_refund", number=1042, amount=19.5)],
                    finish_reason="length",
                )
            ],
        ),
        item(
            "triage",
            "contract",
            title="Classify this ticket as JSON",
            who="gpt-6-luna",
            differences=[
                difference(
                    "contract", "schema", "the output breaks its schema: priority is a text", 2, "high"
                ),
                difference("behaviour", "output", "tags: 2 items became 1", ["late", "angry"], ["late"]),
            ],
            before=[
                answer(
                    '{"priority":2}', parsed={"priority": 2, "team": "shipping", "tags": ["late", "angry"]}
                )
            ],
            after=[
                answer(
                    '{"priority":"high"}', parsed={"priority": "high", "team": "shipping", "tags": ["late"]}
                )
            ],
        ),
        item(
            "search",
            "behaviour",
            title="Where is my parcel? (+2 messages)",
            scopes=["tests/test_agent.py::test_tracking", "run 7f3a"],
            differences=[
                difference(
                    "behaviour",
                    "argument",
                    'search #1 query: "parcel 1042" became "parcel 1042 status Berlin"',
                    "parcel 1042",
                    "parcel 1042 status Berlin",
                ),
            ],
            before=[answer(tool_calls=[call("search", query="parcel 1042", limit=5)])],
            after=[answer(tool_calls=[call("search", query="parcel 1042 status Berlin", limit=5)])],
        ),
        item(
            "road",
            "behaviour",
            change="road",
            title="tests/test_agent.py::test_refund",
            who="",
            key="",
            path="",
            scopes=["tests/test_agent.py::test_refund"],
            differences=[
                difference(
                    "behaviour",
                    "road",
                    "3 turns became 4: find_order, confirm, answers became find_order, issue_refund, …",
                    ["find_order", "confirm", "answers"],
                    ["find_order", "issue_refund", "confirm", "answers"],
                )
            ],
            before=[],
            after=[],
        ),
        item(
            "new",
            "behaviour",
            change="added",
            title="Is it raining in Lisbon?",
            before=[],
            after=[answer("No, the sky over Lisbon is clear.")],
        ),
        item(
            "gone",
            "behaviour",
            change="removed",
            title="Is it raining in Warsaw?",
            before=[answer("Yes, a little.")],
            after=[],
        ),
        item(
            "parcel",
            "words",
            title="When will it arrive?",
            before=[answer(told)],
            after=[
                answer(told.replace("should arrive", "will be with you").replace("I looked at", "I checked"))
            ],
        ),
        item(
            "hello",
            "words",
            title="Say hello",
            before=[answer("Hello! How can I help?")],
            after=[answer("Hi! How can I help you today?")],
        ),
    )


def large_change(number: int, seed: int = 23) -> ChangeDocument:
    """Many recordings with answers of 4 kB, a third of which behave otherwise."""
    chance = random.Random(seed)
    return change(*(_changed(at, chance) for at in range(number)))


def _changed(at: int, chance: random.Random) -> ChangeItem:
    before = _text(chance)
    if at % 3:
        words = before.split(" ")
        for _ in range(12):
            words[chance.randrange(len(words))] = chance.choice(_WORDS).upper()
        after = " ".join(words)
        return item(f"item-{at}", "words", before=[answer(before)], after=[answer(after)])
    tier = "contract" if at % 2 else "behaviour"
    return item(
        f"item-{at}",
        tier,
        scopes=[f"tests/test_{at}.py::test_it"],
        differences=[
            difference(tier, "argument", f"search #{n} query is another value", _line(chance), _line(chance))
            for n in range(3)
        ],
        before=[answer(before, tool_calls=[call("search", query=_line(chance))])],
        after=[answer(_text(chance), tool_calls=[call("search", query=_line(chance))])],
    )


def _line(chance: random.Random) -> str:
    return " ".join(chance.choices(_WORDS, k=8))


def _text(chance: random.Random) -> str:
    lines: list[str] = []
    while sum(map(len, lines)) < 4000:
        lines.append(f"{' '.join(chance.choices(_WORDS, k=14))} {chance.randrange(10_000)}.")
    return "\n".join(lines)
