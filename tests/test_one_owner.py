"""What belongs to a run is made in one place, so that no entrance has a copy that drifts apart."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "cortex_replay"
MODES = {"replay", "record", "once", "live"}


@cache
def package_sources() -> dict[str, str]:
    return {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in PACKAGE.rglob("*.py")}


def callers_of(name: str, sources: dict[str, str] | None = None) -> list[str]:
    """The modules that call something of a name, once for each call."""
    return sorted(
        path
        for path, source in (sources or package_sources()).items()
        if name in source  # to parse them all takes seconds
        for node in ast.walk(ast.parse(source))
        if _calls(node, name)
    )


def _calls(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    return name == (called.id if isinstance(called, ast.Name) else getattr(called, "attr", None))


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("Engine", ["run/run.py"]),
        ("Upstreams", ["cli/import_cassettes.py", "run/run.py"]),
        ("Ledger", ["engine/state.py"]),
        ("known_secrets", ["redact/settings.py"]),
        ("FileClaims", ["engine/state.py"]),
    ],
)
def test_it_is_made_in_one_place(name: str, place: list[str]) -> None:
    """An importer of cassettes has no run; an interception looks up where the services of providers are."""
    assert callers_of(name) == place


def test_a_budget_is_of_a_run_or_of_a_caller() -> None:
    """And nobody else reserves tokens."""
    assert callers_of("Budget") == ["admin/service.py", "engine/state.py"]


def modes_in(source: str) -> Iterator[set[object]]:
    """The names of modes that stand together in one display, such as ``("once", "record")``."""
    if sum(mode in source for mode in MODES) < 2:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            said: set[object] = {item.value for item in node.elts if isinstance(item, ast.Constant)}
            if len(said & MODES) > 1:
                yield said


def test_modes_are_listed_once() -> None:
    """Whoever asks whether a mode writes asks the mode. Options that take two of them list those."""
    others = ("modes.py", "cli/main.py")  # where they are defined; where commands have these names
    listed = {path: list(modes_in(text)) for path, text in package_sources().items() if path not in others}

    assert {path: said for path, said in listed.items() if said} == {
        "cli/import_cassettes.py": [{"once", "record"}],
        "cli/options.py": [{"once", "record"}],
        "config/mcp.py": [{"replay", "live", "refuse"}],  # policies, two of which are called as modes are
    }


def test_the_checks_see_a_copy() -> None:
    """An engine of one's own, and a mode tested by name."""
    planted = {"cli/mine.py": "engine = http.Engine(run)\nif mode in ('once', 'record'): pass"}

    assert callers_of("Engine", planted) == ["cli/mine.py"]
    assert list(modes_in(planted["cli/mine.py"])) == [{"once", "record"}]
