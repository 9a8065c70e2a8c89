"""Nothing is printed, logged or stored around the doors."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "cortex_replay"
MODULES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}

TERMINAL = ("cli/output.py", "cli/progress.py", "pytest_plugin/terminal.py")
LOGS = ("redact/logs.py",)
STORE = (
    "engine/staging.py",
    "cli/init.py",  # the example that it brings along
)
_WRITES = ("write", "writelines", "buffer")
_STAGES = ("add", "replace", "add_exchange")


def name_of(node: ast.expr) -> str:
    """Its text; a name with dots, as nearly all are, without the long way through Python's own."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return ast.unparse(node)


def calls_in(source: str) -> Iterator[tuple[int, str]]:
    """Every call and every name that is taken from elsewhere, with its line, as ``sys.stdout.write``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call | ast.Attribute | ast.Name):
            target = node.func if isinstance(node, ast.Call) else node
            yield node.lineno, name_of(target) + ("()" if isinstance(node, ast.Call) else "")
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"from {node.module} import {alias.name}") for alias in node.names)


def prints(name: str) -> bool:
    """Whether a call or a name writes to a terminal."""
    if name in ("print()", "input()", "pprint.pprint()"):
        return True
    if name.startswith(("click.echo", "click.secho", "click.progressbar", "click.prompt", "click.confirm")):
        return True
    if name.startswith(("from click import echo", "from click import secho", "from sys import std")):
        return True
    if (
        name.startswith(("sys.stdout.", "sys.stderr.", "sys.__std"))
        and name.split(".")[2].rstrip("()") in _WRITES
    ):
        return True
    ending = name.rpartition(".")[2]
    return name.startswith(("reporter.", "terminalreporter.")) and ending in (
        "line()",
        "write()",
        "write_line()",
    )


def logs(name: str) -> bool:
    """Whether a call makes a logger, or logs without one."""
    made = name.startswith(("logging.getLogger", "from logging import", "warnings.warn()"))
    return made or name.startswith(
        tuple(f"logging.{level}()" for level in ("debug", "info", "warning", "error"))
    )


def stages(name: str) -> bool:
    """Whether a call stages a recording."""
    holder, _, verb = name.removesuffix("()").rpartition(".")
    is_store = holder.rpartition(".")[2].lstrip("_") in ("store", "opened") or holder.endswith("store()")
    return name.endswith("()") and verb in _STAGES and is_store


def around(
    test: Callable[[str], bool], allowed: tuple[str, ...], calls: Mapping[str, Iterable[tuple[int, str]]]
) -> list[str]:
    return [
        f"{path}:{line}: {name}"
        for path, called in calls.items()
        if path not in allowed
        for line, name in called
        if test(name)
    ]


@pytest.fixture(scope="module")
def calls() -> dict[str, list[tuple[int, str]]]:
    """Of every module, read once."""
    return {path: list(calls_in(file.read_text())) for path, file in MODULES.items()}


def test_nothing_goes_around_a_door(calls: dict[str, list[tuple[int, str]]]) -> None:
    for test, allowed in ((prints, TERMINAL), (logs, LOGS), (stages, STORE)):
        assert around(test, allowed, calls) == []
        assert all(path in calls for path in allowed)


@pytest.mark.parametrize(
    ("test", "planted"),
    [
        (prints, "print('x')"),
        (prints, "import click\nclick.echo(text)"),
        (prints, "import click\nf = click.echo"),
        (prints, "import click\nclick.secho(text)"),
        (prints, "from click import echo"),
        (prints, "import sys\ndef f():\n    sys.stdout.write(text)"),
        (prints, "import sys\nw = sys.stderr.write"),
        (prints, "import sys\nsys.stdout.buffer.write(b'')"),
        (prints, "from sys import stderr"),
        (prints, "with click.progressbar(items) as bar: pass"),
        (prints, "def f(reporter):\n    reporter.line('x')"),
        (prints, "def f(terminalreporter):\n    terminalreporter.write_line('x')"),
        (logs, "import logging\nlogger = logging.getLogger(__name__)"),
        (logs, "from logging import getLogger"),
        (logs, "import logging\nlogging.warning('x')"),
        (logs, "import warnings\nwarnings.warn('x')"),
        (stages, "self._store.add(fixture)"),
        (stages, "store.replace(fixture)"),
        (stages, "self.engine.store.add_exchange(exchange)"),
        (stages, "opened.add(fixture)"),
    ],
)
def test_the_check_sees_what_is_planted(test: Callable[[str], bool], planted: str) -> None:
    calls = {"planted.py": list(calls_in(planted))}

    assert len(around(test, (), calls)) >= 1
    assert around(test, ("planted.py",), calls) == []


def test_innocent_code_is_left_alone() -> None:
    source = (
        "import sys\nif sys.stderr.isatty(): pass\nnames.add('x')\ntext.replace('a', 'b')\n"
        "printer.print('x')\noutput.echo('x')\nos.replace(a, b)\ndataclasses.replace(x)\n"
    )

    calls = {"planted.py": list(calls_in(source))}
    assert [test for test in (prints, logs, stages) if around(test, (), calls)] == []
