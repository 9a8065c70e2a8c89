"""``cortex-replay init``."""

from __future__ import annotations

import importlib.util
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from cortex_replay.cli import output
from cortex_replay.cli.init_files import add_lines, new_file, refuse_unsafe_store, render_hooks
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.config.files import read_at_most
from cortex_replay.errors import InvalidRequest, StoreIo
from cortex_replay.store import Answer, Fixture, Store
from cortex_replay.store.git import find_top
from cortex_replay.store.journal import STATE_FOLDER
from cortex_replay.store.merge_driver import install_driver
from cortex_replay.store.paths import INDEX_NAME, UNPRINTABLE, escape
from cortex_replay.types import LlmRequest

__all__ = ["init_command"]

_ATTRIBUTES = (f"{INDEX_NAME} -text merge=cortex-replay", "fixtures/** -text")
_IGNORED = (f"{STATE_FOLDER}/",)
_MAX_BYTES = 2**20
_TOLD = "told git, in this clone, how to merge the index"
_EXAMPLE = '''\
"""A first test on a recorded answer: no key, no network, the same bytes each time."""

from pathlib import Path

from cortex_replay import LlmRequest, ReplayAdapter

STORE = Path(__file__).parent
REQUEST = LlmRequest(
    model="example-model",
    system="You are a friendly assistant.",
    messages=[{{"role": "user", "content": "Say hello."}}],
    temperature=0.0,
    max_tokens=64,
)

{body}'''
_PYTEST = """
def test_says_hello():
    llm = ReplayAdapter(STORE).sync
    assert llm.complete(REQUEST).text == "Hello!"
"""
_UNITTEST = """
class SaysHello(unittest.TestCase):
    def test_says_hello(self):
        llm = ReplayAdapter(STORE).sync
        self.assertEqual(llm.complete(REQUEST).text, "Hello!")


if __name__ == "__main__":
    unittest.main()
"""


@command(
    "init",
    epilog="""Examples:

  cortex-replay init                       a store in this folder
  cortex-replay init --store tests/llm     in another one
  cortex-replay init --framework unittest
  cortex-replay init --driver-only         in a fresh clone of a project that has a store

Exit status:
  0  the store is there, with an example that passes
  1  something is there already, or it could not be written; nothing was overwritten
  2  wrong usage
""",
)
@store_option
@click.option(
    "--framework",
    type=click.Choice(["pytest", "unittest"]),
    help="Whose example to write.  [default: pytest where the project uses it]",
)
@click.option("--driver-only", is_flag=True, help="Only tell git, in this clone, how to merge an index.")
@json_option
@click.pass_context
def init_command(
    ctx: click.Context, store: Path | None, framework: str | None, driver_only: bool, as_json: bool
) -> None:
    """Make a store: index, git settings, a pre-commit hook, and a first test that passes.

    Git keeps its merge drivers in each clone, so everyone runs --driver-only once. Without it,
    git's own merge rarely leaves a conflict, which `cortex-replay resolve` resolves.
    """
    root = Path(os.path.normpath(store_root(ctx, store)))  # as `disk` takes it; what is looked at is written
    if driver_only:
        install_driver(root)
        if as_json:
            output.print_json({"merge_driver": True})
        else:
            output.talk(_TOLD)
        return
    refuse_unsafe_store(root)
    top, below = _project(root)
    framework = framework or ("pytest" if _uses_pytest(top) else "unittest")
    example = new_file(root / "test_llm_example.py", _example(framework))
    lists = (add_lines(root / ".gitattributes", _ATTRIBUTES), add_lines(root / ".gitignore", _IGNORED))
    files = [example, *(file for file in lists if file is not None)]
    hooks, pre_commit = render_hooks(below), top / ".pre-commit-config.yaml"
    has_hooks = os.path.lexists(pre_commit)
    if not has_hooks:
        files.append(new_file(pre_commit, hooks))
    # Nothing is in the way of any of them.
    opened = Store.create(root)
    opened.add(_example_fixture())
    opened.commit()
    for file in files:
        file.write()
    written = [
        root / INDEX_NAME,
        *(root / item.path for item in opened.list()),
        *(file.path for file in files),
    ]
    problem = _driver_problem(root)
    made = {
        "store": str(root),
        "framework": framework,
        "written": [str(path) for path in written],
        "merge_driver": problem is None,
        "pre_commit": hooks if has_hooks else None,
    }
    if as_json:
        output.print_json(made)
    else:
        _print(made, pre_commit, example.path, problem)


def _print(made: dict[str, Any], pre_commit: Path, example: Path, problem: str | None) -> None:
    for path in made["written"]:
        output.echo(f"wrote {output.escape(path)}")
    if made["pre_commit"]:
        output.talk(f"{output.escape(str(pre_commit))} is there already; add to it:\n{made['pre_commit']}")
    output.talk(_TOLD if problem is None else output.escape(problem))
    output.talk("for the hook: pip install pre-commit && pre-commit install")
    run = "pytest" if made["framework"] == "pytest" else "python -m unittest"
    output.talk(f"try: {run} {output.escape(str(example))}")


def _project(root: Path) -> tuple[Path, str]:
    """The top of the user's project, and the store's place below it.

    Raises:
        InvalidRequest: That place would be no name but a line, or steer a terminal.
    """
    existing = root.absolute()
    while not existing.is_dir():
        existing = existing.parent
    top = find_top(existing.resolve()) or existing.resolve()
    below = os.path.relpath(root.absolute().resolve(), top)
    if UNPRINTABLE.search(below):
        raise InvalidRequest("store", f"{escape(below)} holds a character that cannot be printed; rename it")
    return top, below.replace(os.sep, "/")


def _driver_problem(root: Path) -> str | None:
    """Tell git, in this clone, how to merge an index; why that is not possible, if so."""
    if find_top(root.resolve()) is None and "GIT_DIR" not in os.environ:
        return "not in a git repository yet; once it is, run: cortex-replay init --driver-only"
    try:
        install_driver(root)
    except StoreIo as error:
        return f"git was not told how to merge the index: {error}"
    return None


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


def _example_fixture() -> Fixture:
    request = LlmRequest(
        model="example-model",
        system="You are a friendly assistant.",
        messages=[{"role": "user", "content": "Say hello."}],
        temperature=0.0,
        max_tokens=64,
    )
    return Fixture.of(request, Answer("Hello!", finish_reason="stop"), meta={"adapter": "handwritten"})


def _example(framework: str) -> str:
    if framework == "pytest":
        return _EXAMPLE.format(body=_PYTEST)
    text = _EXAMPLE.format(body=_UNITTEST)
    return text.replace("from pathlib import Path\n", "import unittest\nfrom pathlib import Path\n")
