"""Projects that are recorded with the installed program, and their pages: live, and as a file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from integration.view.shop_model import ShopModel
from integration.view.upstream import KEY, Speaker, speaking
from tests.servers.process import running

__all__ = ["Project", "record_shop"]

_SHOP: Final = Path(__file__).parent / "shop"
_KEPT: Final = ("PATH", "LANG", "SSL_CERT_FILE", "PYTHONPATH")
_SETTINGS: Final = """
[tool.cortex-replay]
store = "llm"
currency = "USD"

[tool.cortex-replay.prices]
"claude-haiku-5-5" = { input = 1.0, output = 5.0, cached = 0.1, cache_write_5m = 1.25 }
"gpt-6-luna" = { input = 0.4, output = 1.6, cached = 0.1 }

[tool.pytest.ini_options]
llm_store = "llm"
"""
_ASK: Final = (
    sys.executable,
    "-c",
    "import sys; sys.path.insert(0, 'tests'); import agent; print(agent.track('Where is my parcel?'))",
)
_TESTS: Final = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


class Project:
    """A folder under git, with a store ``llm``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        self._environment |= {"HOME": str(folder.parent), "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}

    @classmethod
    def create(cls, folder: Path) -> Project:
        folder.mkdir(parents=True)
        made = cls(folder)
        (folder / "pyproject.toml").write_text(_SETTINGS)
        made.git("init", "-q", "-b", "main")
        return made

    def git(self, *arguments: str) -> None:
        who = ["-c", "user.name=shop", "-c", "user.email=shop@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(
            ["git", *who, *arguments], cwd=self.folder, env=self._environment, check=True, capture_output=True
        )

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def run(
        self,
        *arguments: str | Path,
        status: int | None = 0,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Run a command of the program; gives what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "cortex_replay", *map(str, arguments)],
            cwd=self.folder,
            env={**self._environment, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert status is None or done.returncode == status, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def record(self, speaker: Speaker, *commands: Sequence[str], pace_s: float = 0, **variables: str) -> None:
        """Record anew what commands ask of a model that speaks so."""
        shutil.rmtree(self.folder / "llm", ignore_errors=True)
        with speaking(speaker, pace_s) as model:
            own = {"OPENAI_BASE_URL": f"{model.url}/v1", "ANTHROPIC_BASE_URL": model.url}
            for command in commands:
                self.run("record", "--store", "llm", "--", *command, environment={**own, **variables})

    def check_drift(self, speaker: Speaker, file: str) -> None:
        """Ask a model again, and keep the report."""
        with speaking(speaker) as model:
            own = {"OPENAI_BASE_URL": f"{model.url}/v1", "ANTHROPIC_BASE_URL": model.url}
            asked = ["refresh", "--store", "llm", "--check", "--words", "--scope", "*", "--json"]
            text = self.run(*asked, status=4, environment=own)
        (self.folder / file).write_text(text)

    def export(self, *options: str, name: str = "page.html") -> str:
        """The page as a file; gives its address."""
        self.run("view", "--store", "llm", *options, "--export", name)
        return (self.folder / name).as_uri()

    @contextmanager
    def serve(self, *options: str) -> Iterator[str]:
        """The page of a server, until the block ends; gives its address."""
        store = str(self.folder / "llm")
        # The settings are those of the folder in which a command starts.
        start = (
            "import os, runpy, sys; os.chdir(sys.argv.pop(1)); "
            "runpy.run_module('cortex_replay', None, '__main__', True)"
        )
        command = [
            sys.executable,
            "-c",
            start,
            str(self.folder),
            "view",
            "--store",
            store,
            *options,
            "--json",
        ]
        log = self.folder.parent / f"{self.folder.name}-view.log"
        with running(command, log, environment=self._environment) as server:
            yield str(json.loads(server.announced(r"(?m)^(\{.*\})$"))["url"])


def record_shop(folder: Path) -> Project:
    """A shop with an agent: recorded on main, and again with a later model in the working tree.

    ``run.json``, ``sweep.json`` and ``drift.json`` are reports of it.
    """
    shop = Project.create(folder)
    (folder / "tests").mkdir()
    for name in ("agent.py", "orders.py", "prompt.md"):
        shutil.copy(_SHOP / name, folder / "tests")
    shutil.copy(_SHOP / "suite.py", folder / "tests" / "test_shop.py")
    (folder / ".gitignore").write_text("*.json\n*.html\n__pycache__/\n!llm/**\n")
    shop.record(ShopModel(), _TESTS, _ASK, pace_s=0.02)
    shop.commit("Record the shop")
    shop.check_drift(ShopModel(is_later=True), "drift.json")
    faults = [part for kind in ("429", "500", "malformed-json") for part in ("--fault", kind)]
    matrix = shop.run("sweep", "--store", "llm", *faults, "--json", "--", *_ASK, status=4)
    (folder / "sweep.json").write_text(matrix)
    edited = (folder / "tests" / "test_shop.py").read_text().replace("on Saturdays", "on Sundays")
    (folder / "tests" / "test_sundays.py").write_text(edited)
    told = ["replay", "--store", "llm", "--report", "run.json"]
    shop.run(*told, "--", *_TESTS, "tests/test_sundays.py", "-k", "opening or discount", status=None)
    (folder / "tests" / "test_sundays.py").unlink()
    shop.record(ShopModel(is_later=True), _TESTS, pace_s=0.02, NEXT="1")
    return shop
