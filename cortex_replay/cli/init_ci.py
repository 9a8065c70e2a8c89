"""``cortex-replay init --ci``: what CI runs, for GitHub or GitLab."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

import click

from cortex_replay.cli import output
from cortex_replay.cli.init_files import Step, found, new_file, read_text
from cortex_replay.config.files import shown_path
from cortex_replay.errors import InvalidRequest, StoreIo
from cortex_replay.providers import PROVIDERS
from cortex_replay.store.paths import UNPRINTABLE, escape

__all__ = ["Project", "ci_options", "render_action_refresh", "write_ci"]

_COMMANDS: Final = {"pytest": "pytest", "unittest": "python -m unittest", "js": "npm test"}
_INCLUDE: Final = ".gitlab/cortex-replay.yml"
_GITLAB: Final = ".gitlab-ci.yml"
_PLACE: Final = re.compile("@([A-Z]+)@")
_ROUTINE: Final = {"SAMPLE": "20%", "BY": "age", "BUDGET_TOKENS": "200000", "BRANCH": "cortex-replay/refresh"}
"""What the weekly refresh asks, and where it puts that."""


def ci_options(function: click.decorators.FC) -> click.decorators.FC:
    """The options of this part of ``init``."""
    ci = click.option(
        "--ci",
        type=click.Choice(["github", "gitlab"]),
        help="Only write what CI runs: verify, replay, the change as a comment; for GitHub a weekly refresh.",
    )
    overwrite = click.option(
        "--overwrite", is_flag=True, help="With --ci: replace files that say something else."
    )
    return ci(overwrite(function))


@dataclass(frozen=True, slots=True)
class Project:
    """What is to be known of a project for which CI is set up."""

    top: Path
    store: str
    """Its place below the top."""
    framework: str
    version: str
    """Of cortex-replay."""

    def __post_init__(self) -> None:
        is_outside = self.store.split("/")[0] == ".."
        if is_outside or "$" in self.store or UNPRINTABLE.search(self.store):
            raise InvalidRequest("store", f"{escape(self.store)} cannot be named in a file of the project")

    @property
    def command(self) -> str:
        """What runs the tests."""
        return _COMMANDS[self.framework]

    def installation(self) -> Iterator[str]:
        """The commands that install the project, as far as its files tell, and us."""
        python = "python -m pip install --quiet"
        if self.framework == "js":
            yield "npm ci" if os.path.lexists(self.top / "package-lock.json") else "npm install"
        for name in ("requirements.txt", "requirements-dev.txt"):
            if os.path.lexists(self.top / name):
                yield f"{python} -r {name}"
        if os.path.lexists(self.top / "pyproject.toml") and "[project]" in (
            read_text(self.top / "pyproject.toml")[0] or ""
        ):
            yield f"{python} -e ."
        more = " pytest" if self.framework == "pytest" else ""
        yield f'{python} "cortex-replay=={self.version}"{more}'


def write_ci(forge: str, project: Project, *, overwrite: bool, as_json: bool) -> None:
    """Write the files, and say what to do with them. All are looked at before any is written.

    Raises:
        StoreIo: Something else is in the place of one.
    """
    texts = _github_files(project) if forge == "github" else _gitlab_files(project)
    steps = [_plan(project.top / name, text, overwrite=overwrite) for name, text in texts.items()]
    if forge == "gitlab":
        steps.append(_plan_include(project.top / _GITLAB))
    different = [step for step in steps if step.note and step.path.name != _GITLAB]
    for step in different:
        output.talk("\n".join(output.quote(line) for line in step.note.split("\n")))
    if different and not overwrite:
        names = ", ".join(output.escape(shown_path(step.path)) for step in different)
        raise StoreIo(
            f"{names}: something else is there, as shown; nothing was written. To replace it: --overwrite"
        )
    for step in steps:
        step.write()
    if as_json:
        written = [str(step.path) for step in steps if step.writes]
        outcomes = [{"path": str(step.path), "outcome": step.outcome} for step in steps]
        output.print_json({"ci": forge, "written": written, "steps": outcomes})
        return
    for step in steps:
        output.echo(f"{step.outcome} {output.escape(shown_path(step.path))}")
    _tell(forge, project, steps)


def _tell(forge: str, project: Project, steps: list[Step]) -> None:
    output.talk(f"the tests are run by `{project.command}`: look at the files, and change what does not fit")
    if forge == "github":
        output.talk(
            "for the weekly refresh, add the keys of your providers as secrets of the repository, and let "
            "GitHub Actions create pull requests (Settings, Actions, General)"
        )
        return
    output.talk("for the note, add a project access token (scope api) as the masked variable GITLAB_TOKEN")
    if steps[-1].note:
        output.talk(output.escape_lines(steps[-1].note))


def _github_files(project: Project) -> dict[str, str]:
    values = {
        "STORE": json.dumps(project.store),
        "INSTALL": "|\n" + "\n".join(f"          {line}" for line in project.installation()),
        "COMMAND": project.command,
    }
    settings = {"CORTEX_REPLAY_STORE": project.store, "VERSION": project.version, **_ROUTINE}
    return {
        ".github/workflows/cortex-replay.yml": _render("github.yml", values),
        ".github/workflows/cortex-replay-refresh.yml": _render_refresh(_WEEKLY, settings),
    }


def _gitlab_files(project: Project) -> dict[str, str]:
    values = {
        "STORE": json.dumps(project.store),
        "VERSION": project.version,
        "SCRIPT": "\n".join(f"    - {_quote(line)}" for line in project.installation()),
        "COMMAND": project.command,
    }
    return {_INCLUDE: _render("gitlab.yml", values)}


_WEEKLY: Final = """\
# Asks a sample of the recordings again every week, and opens a pull request with what has drifted.
# `cortex-replay init --ci github` wrote this file; it is yours to change.
name: Refresh recordings
on:
  schedule:
    - cron: "17 4 * * 1"
  workflow_dispatch:"""
_REUSABLE: Final = """\
# Asks a sample of the recordings again, and opens a pull request with what has drifted. Call it from a
# workflow of yours (docs/ci.md). `cortex-replay init --ci github` writes one that does the same by itself.
name: Refresh recordings
on:
  workflow_call:
    inputs:
{inputs}
    secrets:
{secrets}"""
_INPUTS: Final = {
    "CORTEX_REPLAY_STORE": ("store", "The folder of the store. By default as the project's settings say."),
    "VERSION": ("version", "The release of cortex-replay to install."),
    "SAMPLE": ("sample", "How many recordings to ask again, as a number or a share."),
    "BY": ("by", "Which ones first, `age`, `use`, `money` or `random`."),
    "BUDGET_TOKENS": ("budget-tokens", "Stop before more tokens than this."),
    "BRANCH": ("branch", "The branch of the pull request. It is overwritten each time."),
}
_PULL_TOKEN: Final = "PULL_REQUEST_TOKEN"  # noqa: S105 - the name of a secret


def render_action_refresh(version: str) -> str:
    """The workflow that others call."""
    defaults = {"CORTEX_REPLAY_STORE": "", "VERSION": version, **_ROUTINE}
    inputs = "\n".join(
        f"      {name}:\n        description: {text}\n        type: string\n"
        f"        default: {json.dumps(defaults[variable])}"
        for variable, (name, text) in _INPUTS.items()
    )
    names = (*_key_variables(), _PULL_TOKEN)
    secrets = "\n".join(f"      {name}:\n        required: false" for name in names)
    settings = {variable: f"${{{{ inputs.{name} }}}}" for variable, (name, _) in _INPUTS.items()}
    return _render_refresh(_REUSABLE.format(inputs=inputs, secrets=secrets), settings)


def _render_refresh(head: str, settings: dict[str, str]) -> str:
    values = {
        "HEAD": head,
        "GROUP": settings["BRANCH"],
        "ENV": "\n".join(
            f"      {name}: {value if value.startswith('${{') else json.dumps(value)}"
            for name, value in settings.items()
        ),
        "KEYS": "\n".join(f"          {name}: ${{{{ secrets.{name} }}}}" for name in _key_variables()),
    }
    return _render("refresh.yml", values)


def _key_variables() -> list[str]:
    """Where each provider's key is looked for: by the name that its own SDK has for it."""
    rows = [
        [name for name in row.key_variables if not name.startswith("CORTEX_")] for row in PROVIDERS.values()
    ]
    return sorted({names[0] for names in rows if names})


def _render(name: str, values: dict[str, str]) -> str:
    text = (files(__package__) / "ci" / name).read_text("utf-8")
    # All at once: what is put in may be called like one of them, and the keys must not follow it.
    return _PLACE.sub(lambda found: values[found[1]], text)


def _quote(line: str) -> str:
    return "'" + line.replace("'", "''") + "'" if line.endswith('"') or ": " in line else line


def _plan(path: Path, text: str, *, overwrite: bool) -> Step:
    """A file of ours: new, as it should be, or another one, with what would change as the note."""
    if not os.path.lexists(path):
        return new_file(path, text)
    present, mode = read_text(path)
    if present is None:
        raise StoreIo(f"{output.escape(shown_path(path))} is no plain text file; nothing was written")
    if present == text:
        return found(path)
    name = shown_path(path)
    lines = difflib.unified_diff(present.splitlines(), text.splitlines(), name, f"{name} (new)", lineterm="")
    return Step(path, "wrote" if overwrite else "left alone", text.encode(), mode, "\n".join(lines))


def _plan_include(path: Path) -> Step:
    """GitLab reads one file; what is there stays, and the user adds a line."""
    text = f"include:\n  - local: {_INCLUDE}\n"
    if not os.path.lexists(path):
        return new_file(path, text)
    if _INCLUDE in (read_text(path)[0] or ""):
        return found(path)
    return Step(path, "left alone", note=f"add to {shown_path(path)}:\n{text.rstrip()}")
