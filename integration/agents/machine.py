"""Machines that differ in all that an agent tells its model of them: made of namespaces, on this one."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from integration.agents import install
from integration.agents.agents import Agent
from integration.agents.upstream import KEY
from integration.install import completed, needed

__all__ = ["Machine", "Ran", "can_be_made", "leading_to", "write_file"]

_SECONDS: Final = 180
_NAMESPACES: Final = ("unshare", "--map-root-user", "--mount", "--uts")
_SETTLE: Final = 'mount --bind "$1" /etc/passwd && hostname "$2" && shift 2 && exec "$@"'
_DAY: Final = "2026-01-05T12:00:00+00:00"
"""When the project was committed: the same in every checkout of it."""


def can_be_made() -> None:
    """Skip the test where nobody may make namespaces, or the clock cannot be changed."""
    unshare = needed(_NAMESPACES[0], "make another machine")
    if (
        platform.machine() != "x86_64"
        or subprocess.run([unshare, *_NAMESPACES[1:], "true"], check=False).returncode
    ):
        pytest.skip("namespaces, of an x86-64 Linux, make another machine; there are none")


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command of ours ended."""

    status: int
    said: str
    told: str
    ledger: dict[str, Any]

    @property
    def hits(self) -> int:
        hits: int = self.ledger["hits"]
        return hits

    def __str__(self) -> str:
        return f"status {self.status}\n{self.said}\n{self.told}\n{json.dumps(self.ledger, indent=1)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Who works where, and when."""

    cwd: Path
    home: Path
    tmp: Path
    user: str
    host: str
    zone: str
    release: str = field(default_factory=platform.release)
    days: int = 0
    """How far it is from today there."""

    def check_out(self, agent: Agent) -> None:
        """A fresh checkout of the project, and the files that the agent finds at home."""
        shutil.rmtree(self.cwd, ignore_errors=True)
        for folder in (self.cwd, self.home, self.tmp):
            folder.mkdir(parents=True, exist_ok=True)
        person = f"[user]\nname = {self.user.title()} Example\nemail = {self.user}@example.com\n"
        for name, text in {".gitconfig": person, **agent.home}.items():
            write_file(self.home / name, text)
        for name, text in {"README.md": "# A project\n", **agent.project}.items():
            write_file(self.cwd / name, text)
        author = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_AUTHOR_DATE": _DAY}
        made = author | {name.replace("AUTHOR", "COMMITTER"): value for name, value in author.items()}
        for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Start"]):
            completed(["git", "-C", self.cwd, *words], **made)

    def run(self, verb: str, store: Path, agent: Agent, *options: str, upstream: str | None = None) -> Ran:
        """Our own program with the agent behind it; with a server, it has a key for that."""
        self.check_out(agent)
        report = self.tmp / "report.json"
        report.unlink(missing_ok=True)
        chosen = ["--store", os.fspath(store), *options]
        if verb in ("record", "replay"):
            chosen += ["--report", os.fspath(report)]
        done = subprocess.run(
            self._inside([sys.executable, "-m", "cortex_replay", verb, *chosen, "--", *agent.command]),
            cwd=self.cwd,
            env=self._environment(agent) | (leading_to(upstream) if upstream else {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        ledger = json.loads(report.read_text()) if report.exists() else {}
        return Ran(done.returncode, done.stdout, done.stderr, ledger)

    def _environment(self, agent: Agent) -> dict[str, str]:
        programs = install.program(agent.program).parent
        return {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": os.fspath(self.home),
            "TMPDIR": os.fspath(self.tmp),
            "USER": self.user,
            "LOGNAME": self.user,
            "TZ": self.zone,
            "LANG": "C.UTF-8",
            **agent.variables,
        }

    def _inside(self, command: Sequence[str]) -> list[str]:
        """The command on this machine: its user, its host name, its kernel and its date."""
        users = self.tmp / "passwd"
        users.write_text(f"{self.user}:x:0:0:{self.user.title()}:{self.home}:/bin/sh\n")
        settled = [*_NAMESPACES, "sh", "-c", _SETTLE, "sh", os.fspath(users), self.host]
        return [*settled, os.fspath(install.elsewhere()), str(self.days), self.release, *command]


def leading_to(url: str) -> dict[str, str]:
    """The variables that lead clients to a server, and the keys for it."""
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), KEY)
    places = {"ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1", "GOOGLE_GEMINI_BASE_URL": url}
    return keys | places


def write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
