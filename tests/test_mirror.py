"""Tests stand where the code stands that they test: ``tests/`` mirrors the package."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
CROSS_CUTTING = {
    "mutants": "planted bugs, and what plants them",
    "property": "laws that hold for any value",
    "security": "attacks, each on whatever stands in its way",
    "servers": "servers that tests of several areas ask",
    "torture": "crashes, power losses and full disks",
    "typing": "what a user's code looks like to a type checker",
    "vectors": "golden data of the reference",
}
"""Folders that belong to no area, and why."""
ELSEWHERE = {
    "disk": "security/test_disk.py",
    "expressions": "security/test_pattern_limit.py",
    "secret_names": "security/test_names.py",
}
"""Areas whose tests are attacks."""
WHOLE_PROJECT = {
    "action",
    "agents_page",
    "benchmarks",
    "cases",
    "clients_page",
    "layers",
    "mirror",
    "mutants",
    "one_owner",
    "public_surface",
    "published",
    "readme",
    "suites",
    "sample_store",
    "sampling",
    "warm",
    "waiting",
    "workflows",
}
"""What the tests at the top are about, if it is no area."""


def areas(package: Path) -> set[str]:
    modules = {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    return modules | {path.parent.name for path in package.glob("*/__init__.py")}


def problems(package: Path, tests: Path) -> list[str]:
    """What is not where it is looked for, in words."""
    known = areas(package)
    folders = {path.name for path in tests.iterdir() if path.is_dir() and any(path.rglob("*.*"))}
    folders -= {"__pycache__"}
    files = {path.stem.removeprefix("test_") for path in tests.glob("test_*.py")}
    tested = files | {name for name in folders if any((tests / name).glob("test_*.py"))}
    tested |= {area for area, place in ELSEWHERE.items() if (tests / place).is_file()}
    below = [path.relative_to(tests) for path in tests.glob("*/*/") if any(path.glob("test_*.py"))]
    return [
        *(f"no tests of {area}" for area in sorted(known - tested)),
        *(f"tests/{name} is no area" for name in sorted(folders - known - set(CROSS_CUTTING))),
        *(f"tests/test_{name}.py is no area" for name in sorted(files - known - WHOLE_PROJECT)),
        *(
            f"tests/{path} is no package"
            for path in sorted(below)
            if path.parts[0] not in CROSS_CUTTING and not (package / path / "__init__.py").is_file()
        ),
    ]


def test_every_area_has_its_tests_and_every_folder_its_area() -> None:
    assert problems(ROOT / "cortex_replay", ROOT / "tests") == []
    assert all((ROOT / "tests" / name).is_dir() for name in CROSS_CUTTING)


def test_the_check_sees_what_is_in_the_wrong_place(tmp_path: Path) -> None:
    for path in (
        "package/__init__.py",
        "package/alone.py",
        "package/engine/__init__.py",
        "package/store/__init__.py",
        "tests/engine/http/test_routes.py",
        "tests/engine/test_scope.py",
        "tests/recorder/test_tape.py",
        "tests/security/deep/test_attack.py",
        "tests/store/helper.py",
        "tests/test_gone.py",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()

    assert problems(tmp_path / "package", tmp_path / "tests") == [
        "no tests of alone",
        "no tests of store",
        "tests/recorder is no area",
        "tests/test_gone.py is no area",
        "tests/engine/http is no package",
    ]
