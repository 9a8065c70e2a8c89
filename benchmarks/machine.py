"""The machine that is measured on: its kind, how busy it is, and how fast it is right now."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.measure import cpu_of
from cortex_replay import blake3_hex

__all__ = ["calibration", "commit", "kind", "load", "today", "versions"]

_PROJECT = Path(__file__).resolve().parent.parent
_CPU_INFO = Path("/proc/cpuinfo")
_PACKAGES = ("blake3", "orjson", "httpx", "vcrpy")
_TIMES = 7
_STEPS = 400


def kind() -> str:
    """What machines are compared by, in a line: nothing that names one of them."""
    cores = os.cpu_count() or 1
    python = ".".join(platform.python_version_tuple()[:2])
    return f"{_processor()}, {cores} core{'s' * (cores > 1)}, Python {python}"


def load() -> float:
    """How many processes wanted a core, on average over the last minute."""
    return round(os.getloadavg()[0], 1)


def today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


def versions() -> dict[str, str]:
    """The releases that a figure depends on."""
    return {"Python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def commit() -> str:
    """The commit that is measured, and whether something was changed since; "unknown" outside of git."""
    found = _git("rev-parse", "--short=10", "HEAD")
    if not found:
        return "unknown"
    # What a run publishes is no change of what it measures.
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs", ":!README.md")
    return f"{found} with changes" if changed else found


def calibration() -> float:
    """The CPU seconds of a fixed piece of work, by which times without a peer can be compared."""
    return min(cpu_of(_fixed_work) for _ in range(_TIMES))


def _fixed_work() -> str:
    """Some of all that the measured code does: interpreted steps, JSON, small objects, hashes."""
    text = ""
    for step in range(_STEPS):
        values = {f"name {i}": [step, i, str(step * i)] for i in range(20)}
        text = blake3_hex(json.dumps(json.loads(json.dumps(values)), sort_keys=True).encode() + text.encode())
    return text


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", _CPU_INFO.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=_PROJECT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
