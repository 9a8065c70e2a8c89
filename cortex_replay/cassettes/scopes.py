"""Whose cassette it is: the tests that a cassette's place, or a test file beside it, tells.

pytest-recording writes ``cassettes/<module>/<test>.yaml`` beside the test file, pytest-vcr
``cassettes/<test>.yaml``; a test in a class is ``<Class>.<test>``. Where a test names its cassette (by a
marker ``default_cassette`` or ``vcr``, by ``use_cassette``), that name stands in its code. Test files are
read as text, and nothing in them is run.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cortex_replay.disk import absolute_path
from cortex_replay.engine.core import owner_name
from cortex_replay.engine.owners import scope_of_test

__all__ = ["CassetteScopes"]

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_MAX_BYTES: Final = 4 * 2**20
"""Of a test file that is read."""
_MOST_FILES: Final = 500
"""Of test files that are looked through for a cassette's name, in one folder."""
_CONFIGURED: Final = {
    "pytest.toml": re.compile(""),
    "pytest.ini": re.compile(""),
    ".pytest.ini": re.compile(""),
    "pyproject.toml": re.compile(r"(?m)^\s*\[tool\.pytest"),
    "tox.ini": re.compile(r"(?m)^\[pytest\]"),
    "setup.cfg": re.compile(r"(?m)^\[tool:pytest\]"),
}
"""The files by which pytest knows its rootdir, and what must stand in them."""


@dataclass
class _TestFile:
    """The tests of a file, ``Class::test`` or ``test``, and the texts that stand in the code of each."""

    texts: dict[str, set[str]] = field(default_factory=dict)

    def naming(self, cassette: str) -> list[str]:
        """The tests that name a cassette."""
        stem = _stem(cassette)
        return [
            test
            for test, texts in self.texts.items()
            if any(_stem(text.replace("\\", "/").rpartition("/")[2]) == stem for text in texts)
        ]


class CassetteScopes:
    """Finds the scopes of cassettes; a class to read each test file once.

    Args:
        rootdir: What the ids of tests are relative to; by default as pytest finds it from the test file.
    """

    def __init__(self, rootdir: Path | None = None) -> None:
        self._rootdir = None if rootdir is None else absolute_path(rootdir)
        self._files: dict[Path, _TestFile] = {}
        self._roots: dict[Path, Path] = {}

    def of(self, cassette: Path) -> tuple[list[str], bool]:
        """The scopes that a cassette is of, and whether they are those of tests.

        Of a cassette that no test is known for, the scope is its own path.
        """
        file = absolute_path(cassette)
        found = list(dict.fromkeys(self._tests_of(file)))
        if found:
            return found, True
        return [owner_name(_relative(file, self._root_of(file.parent)))], False

    def _tests_of(self, file: Path) -> Iterator[str]:
        module = self._module_of(file)
        name = _test_name(file.name)
        if module is not None:
            tests = self._read(module)
            named = [] if _without_parameters(name) in tests.texts else tests.naming(file.name)
            for test in named or [name]:
                yield self._scope(module, test)
            return
        modules = [one for folder in self._above(file) for one in _test_files(folder)]
        by_name = [one for one in modules if _without_parameters(name) in self._read(one).texts]
        for one in by_name:
            yield self._scope(one, name)
        for one in () if by_name else modules:
            for test in self._read(one).naming(file.name):
                yield self._scope(one, test)

    def _module_of(self, file: Path) -> Path | None:
        """The test file that the folder of a cassette is called after, in whatever folder above it."""
        name = f"{file.parent.name}.py"
        return next((one / name for one in self._above(file)[1:] if _is_plain_file(one / name)), None)

    def _above(self, file: Path) -> list[Path]:
        """The folders above a cassette, up to the rootdir."""
        root = self._root_of(file.parent)
        return [folder for folder in file.parents if folder.is_relative_to(root)] or [file.parent]

    def _scope(self, module: Path, test: str) -> str:
        return scope_of_test(_relative(module, self._root_of(module.parent)), test)

    def _read(self, module: Path) -> _TestFile:
        if module not in self._files:
            self._files[module] = _read_tests(module)
        return self._files[module]

    def _root_of(self, folder: Path) -> Path:
        if self._rootdir is not None:
            return self._rootdir
        if folder not in self._roots:
            self._roots[folder] = _find_rootdir(folder)
        return self._roots[folder]


def _find_rootdir(folder: Path) -> Path:
    """What pytest takes for its rootdir when it runs a test in this folder."""
    above = [folder, *folder.parents]
    for one in above:
        if any(_holds(one / name, pattern) for name, pattern in _CONFIGURED.items()):
            return one
    for name in ("setup.py", "pyproject.toml"):
        for one in above:
            if _is_plain_file(one / name):
                return one
    here = Path.cwd()
    return here if folder.is_relative_to(here) else folder


def _holds(path: Path, pattern: re.Pattern[str]) -> bool:
    if not _is_plain_file(path):
        return False
    return not pattern.pattern or pattern.search(_read_text(path)) is not None


def _is_plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _relative(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name


def _test_files(folder: Path) -> list[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False))
    except OSError:
        return []
    return [folder / name for name in names if name.endswith(".py")][:_MOST_FILES]


def _stem(name: str) -> str:
    for suffix in _SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


def _test_name(name: str) -> str:
    """``Class.test[parameters].yaml`` as the id of the test has it."""
    test, bracket, parameters = _stem(name).partition("[")
    return "::".join(test.rsplit(".", 1)) + bracket + parameters


def _without_parameters(test: str) -> str:
    return test.partition("[")[0]


def _read_tests(module: Path) -> _TestFile:
    found = _TestFile()
    try:
        tree = ast.parse(_read_text(module))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    for prefix, node in _functions(tree.body, ""):
        if node.name.startswith("test"):
            texts = {
                one.value
                for one in ast.walk(node)
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and len(one.value) < 512
            }
            found.texts[f"{prefix}{node.name}"] = texts
    return found


def _functions(
    body: list[ast.stmt], prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{node.name}::")
