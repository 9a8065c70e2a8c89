"""``cortex-replay init``."""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import ExampleCommand, json_option, store_option, the_store
from cortex_replay.errors import StoreIo
from cortex_replay.store import Answer, Fixture, Store
from cortex_replay.store.git import Repository
from cortex_replay.store.journal import STATE_FOLDER
from cortex_replay.store.merge_driver import install_driver
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.types import LlmRequest

__all__ = ["init_command"]

_ATTRIBUTES = f"{INDEX_NAME} -text merge=cortex-replay\nfixtures/** -text\n"
_IGNORED = f"{STATE_FOLDER}/\n"
_PRE_COMMIT = """\
repos:
  - repo: local
    hooks:
      - id: cortex-replay-verify
        name: cortex-replay verify
        entry: cortex-replay verify --staged --store {store}
        language: system
        always_run: true
        pass_filenames: false
      - id: cortex-replay-scan
        name: cortex-replay scan
        entry: cortex-replay scan --store {store}
        language: system
        always_run: true
        pass_filenames: false
"""
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


@click.command(
    "init",
    cls=ExampleCommand,
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
    git's own merge leaves conflict markers, which `cortex-replay index` resolves.
    """
    root = the_store(ctx, store)
    if driver_only:
        if not _install_driver(root):
            raise StoreIo(f"{root} is not in a git repository")
        if as_json:
            output.print_json({"merge_driver": True})
        else:
            output.talk("told git, in this clone, how to merge the index")
        return
    top, below = _project(root)
    framework = framework or ("pytest" if _uses_pytest(top) else "unittest")
    example = root / "test_llm_example.py"
    for path in (root / INDEX_NAME, example):
        if path.exists() or path.is_symlink():
            raise StoreIo(f"{path} is there already; nothing was written")
    opened = Store.create(root)
    opened.add(_example_fixture())
    opened.commit()
    written = [root / INDEX_NAME, *(root / item.path for item in opened.list()), example]
    example.write_text(_example(framework), encoding="utf-8")
    for path, lines in ((root / ".gitattributes", _ATTRIBUTES), (root / ".gitignore", _IGNORED)):
        if _add_lines(path, lines):
            written.append(path)
    pre_commit, snippet = top / ".pre-commit-config.yaml", _PRE_COMMIT.format(store=below)
    if not pre_commit.exists():
        pre_commit.write_text(snippet, encoding="utf-8")
        written.append(pre_commit)
        snippet = ""
    made = {
        "store": str(root),
        "framework": framework,
        "written": [str(path) for path in written],
        "merge_driver": _install_driver(root),
        "pre_commit": snippet or None,
    }
    if as_json:
        output.print_json(made)
    else:
        _print(made, pre_commit, example)


def _print(made: dict[str, Any], pre_commit: Path, example: Path) -> None:
    for path in made["written"]:
        click.echo(f"wrote {path}")
    if made["pre_commit"]:
        output.talk(f"{pre_commit} is there already; add to it:\n{made['pre_commit']}")
    if made["merge_driver"]:
        output.talk("told git, in this clone, how to merge the index")
    output.talk("for the hook: pip install pre-commit && pre-commit install")
    run = "pytest" if made["framework"] == "pytest" else "python -m unittest"
    output.talk(f"try: {run} {example}")
    if not made["merge_driver"]:
        output.talk("not in a git repository yet; once it is, run: cortex-replay init --driver-only")


def _project(root: Path) -> tuple[Path, str]:
    """The top of the user's project, and the store's place below it."""
    existing = root.absolute()
    while not existing.exists():
        existing = existing.parent
    with suppress(StoreIo):
        repository = Repository(existing)
        top = repository.top.resolve()
        return top, root.absolute().resolve().relative_to(top).as_posix()
    return root if root.exists() else existing, "."


def _uses_pytest(top: Path) -> bool:
    if importlib.util.find_spec("pytest") is not None:
        return True  # it runs unittest's tests too
    if any((top / name).exists() for name in ("pytest.ini", "conftest.py", "tests/conftest.py")):
        return True
    for name in ("pyproject.toml", "setup.cfg", "tox.ini", "requirements-dev.txt"):
        with suppress(OSError, UnicodeDecodeError):
            if "pytest" in (top / name).read_text(encoding="utf-8"):
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


def _add_lines(path: Path, lines: str) -> bool:
    """Append the lines that are not there yet; gives whether there were any."""
    present = path.read_text(encoding="utf-8") if path.exists() else ""
    missing = [line for line in lines.splitlines() if line not in present.splitlines()]
    if missing:
        start = present if present.endswith("\n") or not present else f"{present}\n"
        path.write_text(start + "".join(f"{line}\n" for line in missing), encoding="utf-8", newline="\n")
    return bool(missing)


def _install_driver(root: Path) -> bool:
    """Tell git, in this clone, how to merge an index."""
    try:
        install_driver(root)
    except StoreIo:
        return False
    return True
