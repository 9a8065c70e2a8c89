"""What agents say of where they run, beyond what every program says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.bindings import Binder, BindingRules, Surroundings
from cortex_replay.types import LlmRequest
from tests.bindings.test_repository import make


def bound(text: str, known: Surroundings) -> str:
    return Binder(BindingRules(), known).bind(LlmRequest("m", system=text)).request.system


@pytest.mark.parametrize(
    ("folder", "bindings"),
    [
        ("shop", "⟦home⟧/.gemini/tmp/⟦cwd:name⟧/memory"),
        ("shop-1", "⟦home⟧/.gemini/tmp/⟦cwd:name⟧/memory"),
        ("shop-12", "⟦home⟧/.gemini/tmp/⟦cwd:name⟧/memory"),
        ("shop-0", "⟦home⟧/.gemini/tmp/shop-0/memory"),
        ("shop-a", "⟦home⟧/.gemini/tmp/shop-a/memory"),
        ("shopping", "⟦home⟧/.gemini/tmp/shopping/memory"),
    ],
)
def test_a_folder_that_a_program_names_after_the_project(folder: str, bindings: str) -> None:
    """Gemini CLI counts on where it knows another project of that name."""
    known = Surroundings.of({"HOME": "/srv/ann"}, "/srv/work/shop")
    assert bound(f"/srv/ann/.gemini/tmp/{folder}/memory", known) == bindings


def test_a_counted_name_is_filled_as_it_is_today() -> None:
    recorded = Surroundings.of({"HOME": "/srv/ann"}, "/srv/work/shop")
    request = LlmRequest("m", system="/srv/ann/.gemini/tmp/shop-3/memory")
    again = Binder(BindingRules(), recorded).bind(request)
    assert again.filling.text("⟦cwd:name⟧", again.names) == "shop-3"


def test_a_short_commit_that_is_a_number_is_a_commit(tmp_path: Path) -> None:
    """One in twenty-seven has no letter in it; aider tells its model each that it makes."""
    root = make(tmp_path.resolve(), head=f"8393743{33 * 'a'}\n")
    known = Surroundings.of({"HOME": "/srv/ann"}, root)

    assert bound("with git hash 8393743 & more", known) == "with git hash ⟦commit:7⟧ & more"
    assert bound("18393743 83937431 x8393743", known) == "18393743 83937431 x8393743"


def test_the_zone_of_the_system_counts_beside_that_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codex reads no ``TZ``."""
    monkeypatch.setattr("cortex_replay.bindings.machine._zones_of_system", lambda: ["Europe/Vienna"])
    known = Surroundings.of({"TZ": "Asia/Tokyo"}, "/srv/work/shop")

    assert bound("<timezone>Europe/Vienna</timezone>", known) == "<timezone>⟦tz⟧</timezone>"
    assert bound("<timezone>Asia/Tokyo</timezone>", known) == "<timezone>⟦tz⟧</timezone>"
