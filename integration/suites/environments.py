"""The environments of a suite: one with vcrpy, as the suite locks it, and one that is to be moved over."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

from integration import install
from integration.suites.catalogue import Suite

__all__ = ["ROOT", "environment_of", "program"]

ROOT: Final = Path(__file__).resolve().parent.parent.parent
_UV: Final = "uv==0.13.7"


def environment_of(suite: Suite, project: Path, *, is_moved: bool) -> Path:
    """A virtual environment with a suite's versions, installed once below ``.bench``.

    Args:
        suite: Whose.
        project: Where its lock file is.
        is_moved: Whether cortex-replay is installed beside.
    """
    versions = _versions(suite, project)
    own = [str(ROOT), (ROOT / "pyproject.toml").read_text("utf-8")] if is_moved else []
    facts = (platform.python_version(), _UV, *versions, *suite.packages, suite.versions, str(is_moved))
    identity = "\0".join([*facts, *own])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    kind = "moved" if is_moved else "vcrpy"
    folder = install.BENCH / "suites" / "environments" / f"{suite.name}-{kind}-{digest}"

    def fill(place: Path) -> None:
        install.completed([_uv(), "venv", "--quiet", "--clear", "--seed", "--python", sys.executable, place])
        wanted = place / "requirements.txt"
        wanted.write_text("\n".join(versions) + "\n")
        add: list[str | Path] = [_uv(), "pip", "install", "--quiet", "--python", place]
        newest = ["--exclude-newer", suite.versions] if suite.versions else []
        install.completed([*add, *newest, "--requirement", wanted])
        # Apart: a lock file may be older than what the package asks for.
        install.completed([*add, *newest, "--only-binary", ":all:", *suite.packages])
        if is_moved:
            install.completed([*add, "--editable", ROOT])

    return install.once(folder, fill)


def program(environment: Path, name: str) -> Path:
    """A program of an environment."""
    return environment / ("Scripts" if os.name == "nt" else "bin") / name


def _versions(suite: Suite, project: Path) -> list[str]:
    if not suite.lock_options:
        return list(suite.requirements)
    options = ["--frozen", "--no-hashes", "--no-annotate", "--no-header"]
    options += ["--no-emit-workspace", "--no-emit-local"]
    options += [option for name in suite.left_out for option in ("--no-emit-package", name)]
    done = subprocess.run(
        [_uv(), "export", "--quiet", *options, *suite.lock_options],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    )
    return [*done.stdout.splitlines(), *suite.requirements]


def _uv() -> Path:
    def fill(place: Path) -> None:
        install.completed([sys.executable, "-m", "venv", place])
        install.completed([program(place, "python"), "-m", "pip", "install", "--quiet", _UV])

    return program(install.once(install.BENCH / "suites" / _UV.replace("==", "-"), fill), "uv")
