"""A machine of its own for a group: home, project, temporary files; and all bytes that came to be in it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.security.campaign.judge import Judge
from tests.security.campaign.plant import Planter
from tests.security.campaign.tally import Outcome

__all__ = ["PYTHON", "Sandbox"]

PYTHON: Final = Path(sys.executable)
PROGRAM: Final = Path(sys.executable).with_name("cortex-replay")
ROOT: Final = Path(__file__).parents[3]
_TAG: Final = re.compile(rb"tag-\d{5}")
_LOGGING: Final = """
import logging, os
logging.basicConfig(level=logging.DEBUG, filename=os.environ["CAMPAIGN_LOG"])
"""


class Sandbox:
    """Runs processes in which the planted known values are known, with every logger at DEBUG.

    What a test itself writes for a process to read goes into ``given``, which is not judged.
    """

    def __init__(self, root: Path, planter: Planter) -> None:
        self.planter = planter
        self.given = root / "given"
        self.written = root / "written"
        self.project = self.written / "project"
        self.summary = self.written / "summary.md"
        self.said: list[tuple[str, bytes]] = []
        for folder in (self.given, self.project, self.written / "home", self.written / "tmp"):
            folder.mkdir(parents=True)
        (self.given / "sitecustomize.py").write_text(_LOGGING)

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "SSL_CERT_FILE", "LANG") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.written / "home"),
            "TMPDIR": str(self.written / "tmp"),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "PYTHONPATH": f"{self.given}{os.pathsep}{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "CAMPAIGN_LOG": str(self.written / "debug.log"),
            **self.planter.known,
            **(more or {}),
        }

    def run(
        self,
        *arguments: str,
        variables: Mapping[str, str] | None = None,
        program: Path = PROGRAM,
        stdin: bytes = b"",
    ) -> subprocess.CompletedProcess[bytes]:
        """A command to its end; all that it says is judged."""
        done = subprocess.run(
            [str(program), *arguments],
            cwd=self.project,
            env=self.environment(variables),
            input=stdin,
            capture_output=True,
            timeout=120,
            check=False,
        )
        name = f"{program.name} {arguments[0]}"
        self.say(f"stdout of {name}", done.stdout)
        self.say(f"stderr of {name}", done.stderr)
        return done

    @contextmanager
    def serve(
        self, *options: str, variables: Mapping[str, str], stop: signal.Signals = signal.SIGINT
    ) -> Iterator[dict[str, Any]]:
        """A gateway for as long as the block lasts; gives what it says of itself."""
        command = [str(PROGRAM), "serve", "--store", "llm", "--json", *options]
        with (
            (self.written / "serve.stderr").open("ab") as talk,
            subprocess.Popen(
                command,
                cwd=self.project,
                env=self.environment(variables),
                stdout=subprocess.PIPE,
                stderr=talk,
            ) as process,
        ):
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (self.written / "serve.stderr").read_text()
            try:
                yield json.loads(line)
            finally:
                process.send_signal(stop)
                out, _ = process.communicate(timeout=300)
                self.say("stdout of serve", line + out)

    def say(self, name: str, data: bytes) -> None:
        self.said.append((name, data))

    def sources(self) -> Iterator[tuple[str, bytes]]:
        """Every file by name and content, and every byte that was said."""
        yield from self.said
        names = []
        for path in sorted(self.written.rglob("*")):
            names.append(str(path.relative_to(self.written)))
            if path.is_file():
                yield names[-1], path.read_bytes()
        yield "names of files", "\n".join(names).encode("utf-8", "surrogateescape")

    def judged(self) -> Outcome:
        sources = list(self.sources())
        kept = {tag.decode() for _, data in sources for tag in _TAG.findall(data)}
        return Outcome(
            tuple(self.planter.planted), frozenset(kept), Judge(self.planter.planted).leaks(sources)
        )
