"""Imports go down only, and areas on one line do not know each other (`docs/design.md`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "cortex_replay"
# From the top down. A module belongs to the area that is the first part of its name.
LAYERS = [
    {"__main__"},
    {"cli", "pytest_plugin"},
    {"view"},
    {"gateway", "interception"},
    {"run"},
    {"faults", "cassettes", "testing", "admin"},
    {"engine"},
    {"behaviour", "misses"},
    {"adapters", "history", "sharing"},
    {"store"},
    {"forge", "remote"},
    {"mcp"},
    {"wire"},
    {"prompt"},
    {"redact"},
    {"config"},
    {"bindings"},
    {"types"},
    {"providers"},
    {"hosts", "strict_json", "validation"},
    {"canonical", "expressions", "hashing", "modes"},
    {"disk", "errors", "gc_pause", "progress", "printable", "secret_names", "shim"},
]
RANK = {area: rank for rank, areas in enumerate(LAYERS) for area in areas}


@cache
def import_statements(source: str) -> list[ast.Import | ast.ImportFrom]:
    """Also those inside functions and under TYPE_CHECKING. No expression holds one, so none is looked at."""
    found: list[ast.Import | ast.ImportFrom] = []
    blocks: list[ast.AST] = [ast.parse(source)]
    while blocks:
        node = blocks.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, part, ())
            blocks += inner if isinstance(inner, list) else ()  # an expression's own is no block
    return found


def imported_areas(source: str) -> Iterator[str]:
    """The areas a module imports."""
    for node in import_statements(source):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert node.level == 0, "imports are absolute"
            is_root = node.module == "cortex_replay"
            names = [f"cortex_replay.{alias.name}" if is_root else node.module or "" for alias in node.names]
        yield from (
            name.split(".")[1] for name in names if name.startswith("cortex_replay.") and name.count(".") >= 1
        )


def violations(area: str, source: str) -> list[str]:
    return [
        f"{area} imports {other}"
        for other in imported_areas(source)
        if other != area and (other not in RANK or RANK[other] <= RANK[area])
    ]


MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def test_a_module_imports_only_from_below() -> None:
    """A module imports its own area and lower ones."""
    for path in MODULES:
        area = path.relative_to(PACKAGE).parts[0].removesuffix(".py")

        assert area in RANK, f"{area} has no layer yet"
        assert violations(area, path.read_text()) == [], path


def test_no_module_imports_the_package_root() -> None:
    """The root re-exports everything, so importing it from inside would hide every edge."""
    roots = [path for path in MODULES if "import cortex_replay\n" in path.read_text()]

    assert [path.relative_to(PACKAGE).as_posix() for path in roots] == ["cli/main.py"]  # for the version


def test_the_check_sees_a_planted_violation() -> None:
    """An import upward, sideways or inside a function is found."""
    assert violations("types", "from cortex_replay.store import Store") != []
    assert violations("wire", "def f():\n    import cortex_replay.store.store") != []
    for block in (
        "if x:\n  pass\nelse:\n  {}",
        "try:\n  pass\nexcept E:\n  {}",
        "match x:\n  case 1:\n    {}",
    ):
        assert violations("wire", block.format("from cortex_replay.store import Store")) != []
    assert violations("gateway", "from cortex_replay.interception import intercept") != []
    assert violations("store", "from cortex_replay import adapters") != []
    assert violations("store", "from cortex_replay.types import LlmRequest") == []


def test_only_two_places_may_import_the_http_client() -> None:
    """httpx belongs to adapters/http, and nothing that could run code from a file is imported.

    The one other place asks no model but a forge, from a command of its own.
    """
    for path in MODULES:
        for node in import_statements(path.read_text()):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            tops = {name.split(".")[0] for name in names}
            foreign = {"yaml"} if path.match("cassettes/documents.py") else set()  # others', read safely
            assert not tops & ({"pickle", "marshal", "yaml", "shelve"} - foreign), path
            may_ask = path.parent == PACKAGE / "adapters/http" or path == PACKAGE / "forge/client.py"
            assert not tops & {"httpx", "httpcore"} or may_ask, path


def imported_files(path: Path, package: Path = PACKAGE) -> set[Path]:
    """The files of the package that one of them imports, also for its types alone."""
    found = set()
    for node in import_statements(path.read_text()):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            steps = name.split(".")
            if steps[0] == package.name:
                places = [package.joinpath(*steps[1:end]) for end in (len(steps), len(steps) - 1)]
                files = [place.with_suffix(".py") for place in places]
                files += [place / "__init__.py" for place in places]
                found.add(next((file for file in files if file.is_file()), path))
    return found - {path}


def circles(package: Path = PACKAGE) -> list[list[str]]:
    """Files that import each other in a circle: what is left when each one goes that imports no other one, or
    that no other one imports."""
    imports = {path: imported_files(path, package) for path in package.rglob("*.py")}
    count = 0
    while len(imports) != count:
        count = len(imports)
        used = set[Path]().union(*imports.values())
        imports = {path: found & imports.keys() for path, found in imports.items() if path in used}
        imports = {path: found for path, found in imports.items() if found}
    return sorted([path.relative_to(package).as_posix()] for path in imports)


def test_no_files_import_each_other_in_a_circle() -> None:
    """Not even for their types: whoever reads one of them would have to read all."""
    assert circles() == []


def test_the_check_sees_a_circle(tmp_path: Path) -> None:
    package = tmp_path / "house"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.two import B"
    )
    (package / "two.py").write_text("from house import one")

    assert circles(package) == [["one.py"], ["two.py"]]
