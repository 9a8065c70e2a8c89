"""The peers that are programs: found, or built once below ``.bench/``, or done without."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.measure import say

__all__ = ["b3sum", "built", "crtx_open", "installed"]

_PROJECT = Path(__file__).resolve().parent.parent
_BUILT = _PROJECT / ".bench"
_B3SUM_VERSION = "1.8.7"


def b3sum() -> str | None:
    """The ``b3sum`` to measure against; ``None`` if there is none and it cannot be built."""
    return shutil.which("b3sum") or installed("b3sum", crate="b3sum", version=_B3SUM_VERSION)


def crtx_open() -> str | None:
    """The program that opens a folder with ``crtx-llm``; ``None`` if it cannot be built."""
    return built(Path(__file__).parent / "crtx_open")


def built(source: Path) -> str | None:
    """The program of a folder with a ``Cargo.toml``, named as its folder is."""
    # Cargo writes a lock file beside what it builds, so it gets a copy.
    copy = shutil.copytree(source, _BUILT / source.name, dirs_exist_ok=True)
    manifest = os.fspath(copy / "Cargo.toml")
    if not _cargo(source.name, ["build", "--release", "--manifest-path", manifest]):
        return None
    return shutil.which(os.fspath(_BUILT / "target" / "release" / source.name))


def installed(program: str, *, crate: str, version: str) -> str | None:
    """A program that a crate ships, with the dependencies it was released with."""
    place = os.fspath(_BUILT / "bin" / program)
    found = shutil.which(place)
    arguments = ["install", crate, "--version", version, "--bin", program, "--locked"]
    if found is None and _cargo(program, [*arguments, "--root", os.fspath(_BUILT)]):
        found = shutil.which(place)
    return found


def _cargo(program: str, arguments: list[str]) -> bool:
    """Run cargo, and say what is skipped and why where that fails."""
    cargo = shutil.which("cargo")
    if cargo is None:
        say(f"skipped: {program} is not here, and there is no cargo to build it with")
        return False
    say(f"building {program}, unless it is built already")
    done = subprocess.run(
        [cargo, "--quiet", *arguments],
        env=os.environ | {"CARGO_TARGET_DIR": os.fspath(_BUILT / "target")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        say(f"skipped: {program} cannot be built:\n{done.stderr.strip()}")
    return done.returncode == 0
