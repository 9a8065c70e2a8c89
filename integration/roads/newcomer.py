"""A newcomer at a shell: an empty home, no key, and a check after every step."""

from __future__ import annotations

import os
import shlex
import shutil
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from integration.install import BENCH

__all__ = ["KEY", "Newcomer", "Step", "listen", "live", "shell"]

KEY: Final = "canary-of-the-recording-alone"
"""Of no shape that a redactor knows: where it is not stored, it was never written."""
_MOST_SECONDS: Final = 600
# What leads to registries and their certificates: without it nothing can be installed here or there.
_KEPT: Final = ("LANG", "NODE_EXTRA_CA_CERTS", "PIP_", "REQUESTS_CA_BUNDLE", "SSL_CERT_", "npm_config_")
_AUTHOR: Final = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "New Comer"), ("EMAIL", "new@example.com"))
}


@dataclass(frozen=True, slots=True)
class Step:
    """A command that has ended as it should."""

    command: str
    out: str
    err: str

    @property
    def text(self) -> str:
        """Both streams."""
        return self.out + self.err

    def says(self, *words: str) -> Step:
        """Fail unless all of these words are there."""
        for word in words:
            assert word in self.text, f"no {word!r} in what `{self.command}` said:\n{self.text}"
        return self

    def hides(self, *words: str) -> Step:
        """Fail if one of these words is there."""
        for word in words:
            assert word not in self.text, f"{word!r} in what `{self.command}` said:\n{self.text}"
        return self

    def says_once(self, word: str) -> Step:
        """Fail unless a word is there exactly once."""
        count = self.text.count(word)
        assert count == 1, f"{count} times {word!r} in what `{self.command}` said:\n{self.text}"
        return self


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Somebody in a folder, with an environment of a few words."""

    folder: Path
    environment: Mapping[str, str] = field(repr=False)

    def run(self, command: str, status: int = 0, variables: Mapping[str, str] | None = None) -> Step:
        """Take a step; its exit status must be this one."""
        done = subprocess.run(
            shlex.split(command),
            cwd=self.folder,
            env={**self.environment, **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_MOST_SECONDS,
            check=False,
        )
        step = Step(command, done.stdout, done.stderr)
        assert done.returncode == status, (
            f"`{command}` ended with {done.returncode}, not {status}:\n{step.text}"
        )
        return step.hides(KEY)

    def at(self, folder: Path) -> Newcomer:
        """The same in another folder."""
        return replace(self, folder=folder)

    def clone(self, source: Path, into: Path) -> Newcomer:
        """In a fresh clone."""
        self.at(source.parent).run(f"git clone -q {shlex.quote(str(source))} {shlex.quote(str(into))}")
        return self.at(into)

    def write(self, name: str, text: str) -> None:
        """Write a file below this folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        """Change some words of a file, which must be there."""
        text = (self.folder / name).read_text("utf-8")
        assert old in text, f"no {old!r} in {name}"
        self.write(name, text.replace(old, new))

    def commit(self, message: str) -> Step:
        """Commit everything."""
        self.run("git add --all")
        return self.run(f"git commit -q -m {shlex.quote(message)}")

    def refuse_secrets(self) -> None:
        """Fail if the key of the recording stands in any file of this folder."""
        for path in self.folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert KEY.encode() not in path.read_bytes(), path


def shell(folder: Path, wheel: Path, *packages: str) -> Newcomer:
    """An empty project and a fresh virtual environment, with cortex-replay and these packages installed."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
    caches = {"PIP_CACHE_DIR": str(BENCH / "pip"), "npm_config_cache": str(BENCH / "npm")}
    home, project, environment = (folder / name for name in ("home", "project", "environment"))
    for made in (home, project):
        made.mkdir(parents=True)
    path = os.pathsep.join([str(environment / "bin"), *_programs(), os.defpath])
    variables = {**kept, **caches, **_AUTHOR, "HOME": str(home), "PATH": path}
    newcomer = Newcomer(project, {**variables, "npm_config_update_notifier": "false"})
    newcomer.run(f"{shlex.quote(sys.executable)} -m venv {shlex.quote(str(environment))}")
    newcomer.run(shlex.join(["pip", "install", "--quiet", str(wheel), *packages]))
    newcomer.run("git init -q -b main")
    return newcomer


def live(url: str) -> dict[str, str]:
    """What leads the SDKs to a server that wants the key."""
    servers = {"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url}
    return {**servers, "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}


def _programs() -> Iterator[str]:
    """Where git, node and npm are, if they are not where everything is."""
    for name in ("git", "node", "npm"):
        found = shutil.which(name)
        if found is not None:
            yield str(Path(found).parent)


@contextmanager
def listen(*urls: str) -> Iterator[None]:
    """Take the place of servers that are gone, and fail if anybody connects to one of them."""
    calls: list[str] = []
    with ExitStack() as stack:
        for url in urls:
            server = stack.enter_context(_Listener(url, calls))
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            stack.callback(server.shutdown)
        yield
    assert not calls, f"a live call went to {calls[0]}"


class _Listener(socketserver.TCPServer):
    """Hangs up on whoever connects, so that nobody waits for an answer, and notes it."""

    allow_reuse_address = True

    def __init__(self, url: str, calls: list[str]) -> None:
        parts = urlsplit(url)
        super().__init__((parts.hostname or "", parts.port or 0), socketserver.BaseRequestHandler)
        self._url, self._calls = url, calls

    def process_request(self, request: Any, client_address: Any) -> None:
        self._calls.append(self._url)
        self.shutdown_request(request)
