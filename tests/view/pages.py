"""Documents for tests of the page, and the page of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cortex_replay.view.page import file_page
from cortex_replay.view.shapes import CallRow, PageDocument, RunRow, Spent, StoreDocument, SweepCell

__all__ = [
    "HOSTILE",
    "call_row",
    "drift_report",
    "page_document",
    "run_report",
    "store_document",
    "sweep_report",
    "write_page",
]

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u202e"
)


def page_document(*screens: Any) -> PageDocument:
    return {
        "title": "agent/fixtures",
        "version": "0",
        "made_at": "2026-11-16T12:00:00Z",
        "screens": [*screens],
        "is_file": True,
    }


def spent(prompt: int, completion: int, money: str = "") -> Spent:
    made: Spent = {"prompt": prompt, "completion": completion, "cached": 0, "cache_write": 0}
    return {**made, "money": money} if money else made


def call_row(number: int, **changes: Any) -> CallRow:
    """A recording; the later its number, the older it is."""
    row: CallRow = {
        "id": f"call-{number}",
        "kind": "model",
        "who": "claude-haiku-5-5",
        "key": f"{number:064x}",
        "path": f"claude/{number:08x}.json",
        "question": f"Question {number}",
        "answer": f"Answer {number}",
        "answers": 1,
        "runs": ["run-1"],
        "scopes": [],
        "at": 1_790_000_000.0 - 60 * number,
        "bytes": 1000 + number,
        "spent": spent(100, number),
        "is_old": False,
        "is_unused": False,
    }
    return row | changes  # type: ignore[return-value]


def store_document(calls: list[CallRow], tests: int = 0) -> StoreDocument:
    def row(name: str, number: int) -> RunRow:
        return {
            "id": f"{name}-{number}",
            "name": f"tests/test_agent.py::test_{number}" if name == "test" else f"{name}-{number}",
            "calls": 3,
            "mcp_calls": 1,
            "at": 1_790_000_000.0,
            "seconds": 12.5,
            "spent": spent(10, 10),
        }

    names = sorted({call["who"] for call in calls})
    return {
        "calls": calls,
        "models": [
            {"name": name, "calls": 1, "bytes": 1, "oldest": None, "newest": None, "spent": spent(1, 1)}
            for name in names
        ],
        "runs": [row("run", 1)],
        "tests": [row("test", number) for number in range(tests)],
        "bytes": sum(call["bytes"] for call in calls),
        "spent": spent(12_345, 678, "1.25 USD"),
        "max_age_days": None,
        "findings": [f"{HOSTILE}.json: its bytes are not what the index says"],
    }


def run_report() -> dict[str, Any]:
    run = {
        "mode": "replay",
        "command_status": 1,
        "counts": {"hits": 4, "missed": 2},
        "tokens": {"prompt": 0, "completion": 0, "replayed": 900},
        "paid": None,
        "saved": "0.5 USD",
        "misses": [{"what": f"m {HOSTILE}", "explanation": "nothing is recorded\n  nearest: b", "times": 2}],
        "problems": [{"title": "Not recorded", "texts": ["the answer holds a secret"]}],
        "unused": [{"who": "m", "key": "k", "path": f"m/{n}.json", "scope": ""} for n in range(20)],
        "unused_count": 20,
        "servers": [{"name": "files", "hits": 1, "missed": 0, "recorded": 0, "live": 0, "failed": 0}],
        "bypassed": [["example.com:443", 2]],
        "remarks": [["files printed something", 3]],
    }
    return {"kind": "run", "name": "r.json", "runs": [run], "varying": [], "sweep": None, "drift": None}


def sweep_report() -> dict[str, Any]:
    """Two calls, and three faults; the first call does not survive two of them."""
    verdicts = ["failed", "survived", "hung", "survived", "survived", "not applicable"]
    cells: list[SweepCell] = [
        {
            "turn": at // 3 + 1,
            "tool": "",
            "fault": ("429", "malformed-tool", "malformed-json")[at % 3],
            "verdict": verdict,  # type: ignore[typeddict-item]
            "status": None if verdict == "hung" else int(verdict == "failed"),
            "calls": 2,
            "again": f"cortex-replay replay --fault {at}",
            "log": f"line of {at}\n{HOSTILE}",
        }
        for at, verdict in enumerate(verdicts)
    ]
    sweep = {"calls": 2, "tool_calls": 0, "survived": False, "cells": cells}
    return {"kind": "sweep", "name": "s.json", "runs": [], "varying": [], "sweep": sweep, "drift": None}


def drift_report() -> dict[str, Any]:
    def item(number: int, tier: str) -> dict[str, Any]:
        def answer(text: str) -> dict[str, Any]:
            return {
                "text": text,
                "reasoning": "",
                "tool_calls": [],
                "parsed": None,
                "finish_reason": "stop",
            } | {
                "spent": None,
                "stream": None,
                "status": None,
            }

        text = f"the model answers with {HOSTILE}"
        difference = {
            "tier": tier,
            "kind": "text",
            "place": "",
            "before": "a",
            "after": HOSTILE,
            "text": text,
        }
        return {
            "id": str(number),
            "change": "changed",
            "tier": tier,
            "title": f"Question {number}",
            "who": "claude-haiku-5-5",
            "key": "k",
            "path": f"claude/{number}.json",
            "scopes": [],
            "why": "",
            "differences": [difference],
            "before": [answer("It is sunny.")],
            "after": [answer("The sun shines.")],
        }

    drift = {
        "asked": 9,
        "tiers": {"contract": 1, "behaviour": 0, "words": 2, "same": 6},
        "items": [item(1, "contract"), item(2, "words"), item(3, "words")],
        "failed": ["claude/4.json: no answer in time"],
        "not_asked": [["there is no key for it", 3]],
        "beyond_budget": 2,
        "written": [],
        "paid": "0.01 USD",
    }
    return {"kind": "drift", "name": "d.json", "runs": [], "varying": [], "sweep": None, "drift": drift}


def write_page(folder: Path, name: str, **documents: Any) -> str:
    """Write a page; gives its address."""
    file = folder / f"{name}.html"
    file.write_text("".join(file_page("Recordings", documents.items())))
    return file.as_uri()
