"""The page of clients says what the matrix found, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from integration.matrix.clients import CLIENTS
from integration.matrix.page import render

DOCS = Path(__file__).parents[1] / "docs"
FOUND: dict[str, Any] = json.loads((DOCS / "clients.json").read_text("utf-8"))
GOOD = {
    "recorded": True,
    "equal": 20,
    "stream": True,
    "tools": True,
    "structured": None,
    "miss": True,
    "why": "",
}


def page_of(**roads: dict[str, Any]) -> str:
    client = {"name": "c", "language": "Go", "server": "scripted", "version": "1", "roads": roads}
    facts = {"date": "2026-01-01", "python": "3", "system": "Linux", "rounds": 20, "not_run": []}
    return render({**facts, "clients": [client]})


def test_the_page_is_made_of_what_was_found() -> None:
    assert (DOCS / "clients.md").read_text("utf-8") == render(FOUND), "run: make matrix"


def test_no_client_is_missing_without_a_word() -> None:
    known = [(client.language, client.name) for client in CLIENTS]

    found = [(row["language"], row["name"]) for row in FOUND["clients"]]
    assert [one for one in known if one not in found] == [
        tuple(name.split("/", 1)) for name in FOUND["not_run"]
    ]
    assert [one for one in found if one not in known] == [], "run: make matrix"
    assert len(found) >= 30
    assert len({language for language, _ in found}) >= 4


def test_a_road_is_good_only_if_everything_on_it_is() -> None:
    skipped = {"not_tried": "No way."}
    assert "| 1 of 1 | 20 of 20 | ✓ | ✓ | – | ✓ | – (1) | ✓ | – (1) |" in page_of(
        process=skipped, gateway=GOOD, proxy=skipped
    )
    for change in ({"equal": 19}, {"stream": False}, {"recorded": False}):
        bad = {**GOOD, **change, "why": "It broke."}
        page = page_of(process=skipped, gateway=GOOD, proxy=bad)
        assert "| – (1) | ✓ | ✗ (2) |" in page, change
        assert "\n2. It broke.\n" in page
    silent = page_of(process=skipped, gateway={**GOOD, "miss": False, "why": "It says 424."}, proxy=skipped)
    assert "| – | 0 of 1 (1) | – (2) | ✓ | – (2) |" in silent
