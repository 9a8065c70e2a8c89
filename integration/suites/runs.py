"""One suite, run twice: with vcrpy as it is, and moved over."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from integration.suites.catalogue import Suite
from integration.suites.environments import environment_of, program
from integration.suites.moving import move_over, pytest_options
from integration.suites.sources import check_out

__all__ = ["Outcomes", "SuiteRun", "run_suite"]

_INSIDE: Final = Path(__file__).resolve().parent / "inside"
_OURS: Final = "llm_replay"
_LIMIT_S: Final = 3000
_UNWANTED: Final = ("cacheprovider", "sugar", "pretty")
"""Plugins that only change what is shown, or would remember one run in the next."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What came of one run of a suite."""

    cpu_s: float
    tests: dict[str, dict[str, Any]]
    played: list[dict[str, str]]
    """Calls that vcrpy answered though their body was not the recorded one."""

    @property
    def good(self) -> set[str]:
        """The ids of all tests that passed."""
        return {name for name, test in self.tests.items() if test["outcome"] == "passed"}

    def passed(self) -> set[str]:
        """The ids of the marked tests that passed."""
        return {name for name in self.good if self.tests[name]["marked"]}


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """Both runs of a suite, and what the import said."""

    suite: Suite
    with_vcrpy: Outcomes
    moved: Outcomes
    imported: dict[str, Any]
    absent: list[str]
    """Files that the clone does not have: what needs them fails in both runs."""


def run_suite(suite: Suite, place: Path, *, repeats: int = 1) -> SuiteRun:
    """Run a suite as it is, move a copy over, and run that.

    Args:
        suite: Which.
        place: Where to; not below a folder with settings of pytest, which would be found.
        repeats: How often each is run to measure CPU time, of which the least counts.
    """
    work = place.resolve() / suite.name
    shutil.rmtree(work, ignore_errors=True)
    original, copy = work / "vcrpy", work / "moved"
    absent = check_out(suite, original)
    shutil.copytree(original, copy, symlinks=True)
    before = environment_of(suite, original, is_moved=False)
    after = _fresh(environment_of(suite, original, is_moved=True), work / "environment")
    with_vcrpy = _run(suite, before, original, "vcr")
    imported = move_over(copy, after, _variables(work), keeps_vcrpy=suite.keeps_vcrpy)
    moved = _run(suite, after, copy, _OURS)
    # A test that fails costs what its report costs: only those that pass in both are compared.
    both = work / "both.txt"
    both.write_text("".join(f"{name}\n" for name in with_vcrpy.tests if name in moved.good & with_vcrpy.good))
    # In turns: what else the machine does meanwhile slows both down.
    kinds = ((before, original, "vcr"), (after, copy, _OURS))
    cpu_s = [[_run(suite, *kind, both).cpu_s for kind in kinds] for _ in range(repeats)]
    cpu_vcrpy_s, cpu_moved_s = map(min, zip(*cpu_s, strict=True))
    return SuiteRun(
        suite, replace(with_vcrpy, cpu_s=cpu_vcrpy_s), replace(moved, cpu_s=cpu_moved_s), imported, absent
    )


def _fresh(environment: Path, copy: Path) -> Path:
    """A copy that may be changed: the guide uninstalls a package."""
    shutil.copytree(environment, copy, symlinks=True)
    for path in (copy / "bin").iterdir():  # programs name the folder that they were installed to
        if path.is_file() and not path.is_symlink():
            text = path.read_bytes()
            path.write_bytes(re.sub(re.escape(os.fsencode(environment)), os.fsencode(copy), text))
    return copy


def _run(suite: Suite, environment: Path, folder: Path, marker: str, only: Path | None = None) -> Outcomes:
    """Run a suite.

    Args:
        suite: Which.
        environment: Whose Python.
        folder: Where it is.
        marker: The marker of tests with recordings.
        only: A file with the ids of the tests to run; all without it.
    """
    name = folder.name if only is None else f"{folder.name}-both"
    report = folder.with_name(f"{name}-outcomes.json")
    report.unlink(missing_ok=True)
    options = [option for name in _UNWANTED for option in ("-p", f"no:{name}")]
    options += ["-m", marker] if suite.marked_only else []
    options += pytest_options() if marker == _OURS else []
    options += suite.tests if only is None else [f"@{only}"]
    with folder.with_name(f"{name}-output.txt").open("wb") as output:
        subprocess.run(
            [program(environment, "python"), "-m", "pytest", "-q", "-p", "suite_outcomes", *options],
            cwd=folder,
            env={**_variables(folder.parent), "PYTHONPATH": str(_INSIDE), "SUITE_OUTCOMES": str(report)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=_LIMIT_S,
            check=False,
        )
    if not report.exists():
        raise RuntimeError(f"pytest wrote no outcomes, see {output.name}")
    document = json.loads(report.read_text("utf-8"))
    return Outcomes(document["cpu"], document["tests"], document["played"])


def _variables(work: Path) -> dict[str, str]:
    """No key, no settings and no home of the person who runs this."""
    home = work / "home"
    home.mkdir(exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "AWS_MAX_ATTEMPTS": "1",  # a call that nobody answers is not tried five times
    }
