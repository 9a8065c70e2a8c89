"""``cortex-replay init``."""

from __future__ import annotations

import importlib.util
import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.init_ci import Project, ci_options, write_ci
from cortex_replay.cli.init_files import (
    Step,
    add_lines,
    new_file,
    refuse_unsafe_store,
    wire_hooks,
    wire_pytest,
    wire_store_setting,
)
from cortex_replay.cli.init_js import js_option, write_setup
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.config.files import OWN_NAME, PYPROJECT, read_at_most, shown_path
from cortex_replay.errors import InvalidRequest, StoreIo
from cortex_replay.store import Store
from cortex_replay.store.git.attributes import ATTRIBUTES, ATTRIBUTES_NAME
from cortex_replay.store.git.merge_driver import install_driver
from cortex_replay.store.git.repository import find_top
from cortex_replay.store.journal import STATE_FOLDER
from cortex_replay.store.paths import INDEX_NAME, UNPRINTABLE, escape

__all__ = ["init_command"]

_IGNORED = (f"{STATE_FOLDER}/",)
_EXAMPLE_NAME = "test_llm_example.py"
_HOOKS = ".pre-commit-config.yaml"
_MAX_BYTES = 2**20
_TOLD = "told git, in this clone, how to merge the index"
_PYTHON = ("pytest.toml", "pytest.ini", ".pytest.ini", PYPROJECT, "tox.ini", "setup.cfg")
_CONFIGURED = (*_PYTHON, OWN_NAME)
_JS = "js"
"""What stands where a project, or a part of one, keeps its settings."""
_EXAMPLE = '''\
"""A first test on a recorded answer: no key, no network, the same bytes each time."""

{imports}
from cortex_replay import Fixture, LlmRequest, ReplayAdapter, Store

REQUEST = LlmRequest(
    model="example-model",
    system="You are a friendly assistant.",
    messages=[{{"role": "user", "content": "Say hello."}}],
    max_tokens=64,
)


def answer_by_hand(folder):
    """Your own answers are recorded; this one is written by hand, into a store of its own."""
    store = Store.create(folder)
    store.add(Fixture.of(REQUEST, "Hello!"))
    store.commit()
    return ReplayAdapter(folder).sync

{body}'''
_PYTEST = """
def test_says_hello(tmp_path):
    llm = answer_by_hand(tmp_path)
    assert llm.complete(REQUEST).text == "Hello!"
"""
_UNITTEST = """
class SaysHello(unittest.TestCase):
    def test_says_hello(self):
        with tempfile.TemporaryDirectory() as folder:
            llm = answer_by_hand(folder)
            self.assertEqual(llm.complete(REQUEST).text, "Hello!")


if __name__ == "__main__":
    unittest.main()
"""


@command(
    "init",
    epilog="""Examples:

  cortex-replay init                       set up a store in this folder
  cortex-replay init --store tests/llm     in another one, new or not
  cortex-replay init --framework unittest
  cortex-replay init --js                  a file for vitest or jest (docs/gateway.md)
  cortex-replay init --ci github           workflows that verify, replay, and comment (docs/ci.md)
  cortex-replay init --driver-only         in a fresh clone of a project that is set up

Exit status:
  0  all is set up, or it is said what is left to do
  1  something is in the way, or it could not be written; nothing was overwritten
  2  wrong usage
""",
)
@store_option
@click.option(
    "--framework",
    type=click.Choice(["pytest", "unittest", _JS]),
    help="Whose example to write; none for js.  [default: what the project uses]",
)
@click.option("--driver-only", is_flag=True, help="Only tell git, in this clone, how to merge an index.")
@js_option
@ci_options
@json_option
@click.pass_context
def init_command(
    ctx: click.Context,
    store: Path | None,
    framework: str | None,
    driver_only: bool,
    js: str | None,
    ci: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Set up a store: index, settings, git attributes, a pre-commit hook, and a first test.

    Run it again, or on a store that is there, and it adds what is missing; it overwrites nothing. Git keeps
    its merge drivers in each clone, so everyone runs --driver-only once. Without it, git's own merge rarely
    leaves a conflict, which `cortex-replay resolve` resolves.
    """
    if overwrite and ci is None:
        raise click.UsageError("--overwrite goes with --ci: init overwrites nothing else")
    if ci is not None and (js is not None or driver_only):
        raise click.UsageError("--ci is for itself: run init once more for the rest")
    if js is not None:
        write_setup(js, as_json=as_json)
        return
    named = store is not None or ctx.find_root().params.get("store") is not None
    root = Path(os.path.normpath(store_root(ctx, store)))  # as `disk` takes it; what is looked at is written
    if driver_only:
        install_driver(root)
        if as_json:
            output.print_json({"merge_driver": True})
        else:
            output.talk(_TOLD)
        return
    if ci is not None:
        top = _top_of(Path())
        project = Project(top, _below(root, top), framework or _framework_of(top), version("cortex-replay"))
        write_ci(ci, project, overwrite=overwrite, as_json=as_json)
        return
    refuse_unsafe_store(root)
    top = _top_of(root)
    framework = framework or _framework_of(top)
    is_new = not os.path.lexists(root / INDEX_NAME)
    # All are looked at before any is written.
    steps = _plan(root, top, framework, is_new=is_new, is_named=named)
    if is_new:
        Store.create(root)
    for step in steps:
        step.write()
    problem = _driver_problem(root)
    hooks = next(step for step in steps if step.path.name == _HOOKS)
    made = {
        "store": str(root),
        "framework": framework,
        "written": [str(step.path) for step in steps if step.writes],
        "merge_driver": problem is None,
        "pre_commit": hooks.note or None,
        "steps": [
            {"path": str(step.path), "outcome": step.outcome, "note": step.note or None} for step in steps
        ],
    }
    if as_json:
        output.print_json(made)
    else:
        _print(steps, framework, problem)


def _plan(root: Path, top: Path, framework: str, *, is_new: bool, is_named: bool) -> list[Step]:
    """What is to be set up, with what is there already."""
    home = _home_of(root, top)
    steps = [
        Step(root / INDEX_NAME, "wrote" if is_new else "found"),
        add_lines(root / ATTRIBUTES_NAME, ATTRIBUTES),
        add_lines(root / ".gitignore", _IGNORED),
    ]
    if is_named and root.absolute().resolve() != home:
        steps.append(wire_store_setting(home, _below(root, home)))
    if framework == "pytest":
        steps.append(wire_pytest(home, _below(root, home), after=steps[-1]))
    steps.append(wire_hooks(top / _HOOKS, _below(root, top)))
    if is_new and framework != _JS:
        steps.append(new_file(root / _EXAMPLE_NAME, _example(framework)))
    return steps


def _print(steps: list[Step], framework: str, problem: str | None) -> None:
    for step in steps:
        output.echo(f"{step.outcome} {output.escape(shown_path(step.path))}")
        if step.note:
            output.talk("\n".join(f"  {line}" for line in output.escape_lines(step.note).split("\n")))
    output.talk(_TOLD if problem is None else output.escape(problem))
    output.talk("for the hook: pip install pre-commit && pre-commit install")
    if framework == _JS:
        output.talk("for vitest or jest: cortex-replay init --js")
    example = steps[-1]
    if example.path.name == _EXAMPLE_NAME and example.writes:
        run = "pytest" if framework == "pytest" else "python -m unittest"
        output.talk(f"try: {run} {output.escape(shown_path(example.path))}")


def _top_of(root: Path) -> Path:
    """The top of the user's project: of its repository, else this folder where the store is to be below it.

    Raises:
        InvalidRequest: The store's place below it would be no name but a line, or steer a terminal.
    """
    existing = root.absolute()
    while not existing.is_dir():
        existing = existing.parent
    here = Path.cwd()
    fallback = here if root.absolute().resolve().is_relative_to(here.resolve()) else existing
    top = find_top(existing.resolve()) or fallback.resolve()
    below = _below(root, top)
    if UNPRINTABLE.search(below):
        raise InvalidRequest("store", f"{escape(below)} holds a character that cannot be printed; rename it")
    return top


def _home_of(root: Path, top: Path) -> Path:
    """Where the settings of the part of a project are kept that the store belongs to."""
    place = root.absolute().resolve()
    for folder in (place, *place.parents):
        if any(os.path.lexists(folder / name) for name in _CONFIGURED):
            return folder
        if folder == top:
            break
    here = Path.cwd().resolve()
    return here if here.is_relative_to(top) and place.is_relative_to(here) else top


def _below(root: Path, folder: Path) -> str:
    return os.path.relpath(root.absolute().resolve(), folder).replace(os.sep, "/")


def _driver_problem(root: Path) -> str | None:
    """Tell git, in this clone, how to merge an index; why that is not possible, if so."""
    if find_top(root.resolve()) is None and "GIT_DIR" not in os.environ:
        return "not in a git repository yet; once it is, run: cortex-replay init --driver-only"
    try:
        install_driver(root)
    except StoreIo as error:
        return f"git was not told how to merge the index: {error}"
    return None


def _framework_of(top: Path) -> str:
    """What a project's tests are written with."""
    has_python = (
        any(os.path.lexists(top / name) for name in _PYTHON)
        or any(top.glob("*.py"))
        or any(top.glob("test*/*.py"))
    )
    if os.path.lexists(top / "package.json") and not has_python:
        return _JS
    return "pytest" if _uses_pytest(top) else "unittest"


def _uses_pytest(top: Path) -> bool:
    if importlib.util.find_spec("pytest") is not None:
        return True  # it runs unittest's tests too
    if any((top / name).exists() for name in ("pytest.ini", "conftest.py", "tests/conftest.py")):
        return True
    for name in ("pyproject.toml", "setup.cfg", "tox.ini", "requirements-dev.txt"):
        with suppress(OSError):
            if b"pytest" in read_at_most(top / name, _MAX_BYTES)[1]:
                return True
    return False


def _example(framework: str) -> str:
    if framework == "pytest":
        return _EXAMPLE.format(imports="", body=_PYTEST).replace('time."""\n\n\n', 'time."""\n\n')
    return _EXAMPLE.format(imports="import tempfile\nimport unittest\n", body=_UNITTEST)
