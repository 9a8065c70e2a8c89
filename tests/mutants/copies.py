"""Copies of the tree, in which bugs are planted; the tree itself is only read."""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.mutants.catalogue import PACKAGE, ROOT, Mutant

LEFT_OUT: Final = (
    *(".git", ".venv", ".bench", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
    "node_modules",
)
_FIRST: Final = """\
import site, sys; sys.path.insert(0, {copy!r})
import site; site.addsitedir({packages!r})
"""
"""A ``.pth``: the copy before the product that is installed, and the libraries of the environment in use."""


@dataclass(frozen=True)
class Finish:
    """How a run of tests ended."""

    code: int | None
    """That of pytest; ``None`` if the run took too long."""
    failed: tuple[str, ...]
    cpu: float


class Copy:
    """A tree with an environment of its own, and a process that runs tests in it."""

    def __init__(self, place: Path, source: Path = ROOT) -> None:
        """Copies ``source``, and starts nothing yet."""
        self.root = place / "tree"
        self._temporary = place / "t"  # short: sockets are made below it
        self._temporary.mkdir(parents=True)
        shutil.copytree(source, self.root, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        # Files are copied with their times: only what nobody has imported yet is compiled here.
        if (self.root / PACKAGE).is_dir():
            compileall.compile_dir(self.root / PACKAGE, quiet=2)
        _make_environment(self.root)
        self._process: subprocess.Popen[str] | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """The bug is in this tree meanwhile."""
        path = self.root / mutant.file
        source = path.read_bytes()
        changed = mutant.plant(source.decode()).encode()
        for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            stale.unlink()  # or it is taken for the changed one's, if size and second are the same
        path.write_bytes(changed)
        try:
            yield
        finally:
            path.write_bytes(source)

    def run(self, tests: Sequence[str], limit: float, *, stop: bool = True) -> Finish:
        """Runs tests until one fails, or all of them.

        Raises:
            RuntimeError: The process that runs them has ended.
        """
        if self._is_closed:
            raise RuntimeError("this copy is closed")
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"tests": list(tests), "stop": stop, "limit": limit}) + "\n")
        process.stdin.flush()
        if not (line := process.stdout.readline()):
            raise RuntimeError("the process that runs the tests has ended")
        answer = json.loads(line)
        return Finish(answer["code"], tuple(answer["failed"]), answer["cpu"])

    @property
    def log(self) -> str:
        """What pytest printed in the last run."""
        return Path(f"{self._temporary}.log").read_text(errors="replace")

    def close(self) -> None:
        """Ends the process; a run that is under way is given up."""
        if (process := self._process) is not None:
            self._process = None
            self._is_closed = True
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):
                process.stdin.close()  # a signal that comes just before it reads would not end its waiting
            process.terminate()
            process.wait()
            process.stdout.close()

    def _start(self) -> subprocess.Popen[str]:
        binaries = self.root / ".venv/bin"
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))
        }
        environment = inherited | {
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "PYTHONHASHSEED": "0",  # what depends on the order of a set is to be seen each time, or never
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": "",
            "TMPDIR": str(self._temporary),
            "VIRTUAL_ENV": str(binaries.parent),
        }
        return subprocess.Popen(
            [binaries / "python", Path(__file__).with_name("server.py")],
            cwd=self.root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


def _make_environment(root: Path) -> None:
    """An environment with the libraries of this one, whose programs run the product of ``root``."""
    place = root / ".venv"
    venv.create(place, symlinks=True)
    [packages] = place.glob("lib/python*/site-packages")
    real = next(path for path in map(Path, sys.path) if path.name == "site-packages" and path.is_dir())
    (packages / "first.pth").write_text(_FIRST.format(copy=str(root), packages=str(real)))
    for script in Path(sys.executable).parent.iterdir():
        own = place / "bin" / script.name
        if script.is_file() and not own.exists():
            text = script.read_bytes()
            line = f"#!{sys.executable}".encode()
            if text.startswith(line):
                own.write_bytes(text.replace(line, f"#!{place / 'bin/python'}".encode(), 1))
                own.chmod(0o755)
