"""``cortex-replay init --js``: a file that gives each test of vitest or jest its scope."""

from __future__ import annotations

import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

import click

from cortex_replay.cli import output
from cortex_replay.cli.init_files import new_file
from cortex_replay.config.files import read_at_most
from cortex_replay.errors import StoreIo
from cortex_replay.strict_json import JsonError, loads

__all__ = ["AUTO", "RUNNERS", "js_option", "render_setup", "write_setup"]

Runner = Literal["vitest", "jest"]

AUTO: Final = "auto"
RUNNERS: Final[tuple[Runner, ...]] = ("vitest", "jest")
_NAMES: Final = {"vitest": "cortex-replay.setup.mjs", "jest": "cortex-replay.setup.cjs"}
"""Jest takes a module only with a flag of Node, and vitest nothing else."""
_WIRES: Final = {
    "vitest": 'vitest.config:  test: {{ setupFiles: ["./{name}"] }}',
    "jest": 'jest.config:  setupFilesAfterEnv: ["<rootDir>/{name}"]',
}
_MANIFEST: Final = "package.json"
_MAX_BYTES: Final = 2**20

js_option = click.option(
    "--js",
    type=click.Choice([*RUNNERS, AUTO]),
    is_flag=False,
    flag_value=AUTO,
    metavar="[vitest|jest]",
    help="Only write a file that gives each test of vitest or jest its scope.",
)


def write_setup(wanted: str, *, as_json: bool) -> None:
    """Write the file beside ``package.json``, and say what to do with it.

    Raises:
        StoreIo: Another file is in its place.
    """
    folder = _project()
    runner = _runner_in(folder / _MANIFEST) if wanted == AUTO else wanted
    path, text = folder / _NAMES[runner], render_setup(runner)
    is_there = path.is_file() and not path.is_symlink() and path.read_text("utf-8") == text
    if not is_there:
        step = new_file(path, text)
        if not step.writes:
            raise StoreIo(f"{output.escape(os.path.relpath(path))} is there already; nothing was written")
        step.write()
    wiring = _WIRES[runner].format(name=path.name)
    shown = os.path.relpath(path)
    if as_json:
        output.print_json({"runner": runner, "written": [] if is_there else [shown], "wiring": wiring})
        return
    output.echo(f"{'found' if is_there else 'wrote'} {output.escape(shown)}")
    output.talk(f"add to {wiring}")
    output.talk("then, with a key: cortex-replay record -- npm test")
    output.talk("and without one:  cortex-replay replay -- npm test")


def render_setup(runner: str) -> str:
    """The file for a runner: a module as it is kept, or the same for ``require``."""
    text = (files(__package__) / "js_setup.mjs").read_text("utf-8")
    if runner == "vitest":
        return text
    shared, _, _ = text.partition(_LAST_PART)
    return shared.replace(_IMPORT, _REQUIRE).replace("export function", "function") + _JEST_LAST_PART


_IMPORT: Final = 'import { afterAll, afterEach, beforeEach } from "vitest";'
_REQUIRE: Final = """\
const { relative } = require("node:path");
const { afterAll, afterEach, beforeEach, expect } = require("@jest/globals");"""
_LAST_PART: Final = "// Nobody can tell"
_JEST_LAST_PART: Final = """\
// Concurrent tests have no hooks; Jest itself knows which of them asks.
const current = () => {
  const name = expect.getState().currentConcurrentTestName?.();
  return name ? scopeOf(nameOf(name)) : state.scope;
};
/** @param {string} [test] */
const nameOf = (test) => {
  const file = relative(process.cwd(), expect.getState().testPath ?? "").replaceAll("\\\\", "/");
  return `${file} > ${test}`;
};
if (gateway) {
  beforeEach(() => {
    state.scope = scopeOf(nameOf(expect.getState().currentTestName));
  });
  afterEach(() => end());
}

module.exports = { scopedUrl };
"""


def _project() -> Path:
    """The nearest folder with a ``package.json``, up to the top of the repository."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / _MANIFEST).is_file():
            return folder
        if (folder / ".git").exists():
            break
    raise click.UsageError(f"there is no {_MANIFEST} here; run it where your tests run")


def _runner_in(manifest: Path) -> str:
    """The runner that a project uses, by what its scripts run, else by what it depends on."""
    try:
        document = loads(read_at_most(manifest, _MAX_BYTES)[1])
    except JsonError as error:
        raise click.UsageError(f"{_MANIFEST} is not JSON: {error}") from None
    fields = document if isinstance(document, dict) else {}
    tables = [fields.get(name) for name in ("scripts", "devDependencies", "dependencies")]
    scripts, *packages = [table if isinstance(table, dict) else {} for table in tables]
    by_script = [name for name in RUNNERS if re.search(rf"\b{name}\b", str(scripts.get("test", "")))]
    by_package = [name for name in RUNNERS if any(name in table for table in packages)]
    found = by_script or by_package
    if len(found) != 1:
        raise click.UsageError(f"{_MANIFEST} does not tell how your tests run; say --js vitest or --js jest")
    return found[0]
