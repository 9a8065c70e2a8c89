"""The programs in the README that nobody here wrote: recorded, then replayed without upstream or key."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.servers.llamacpp import start_llamacpp

README = (Path(__file__).parent.parent / "README.md").read_text()
PROGRAM = Path(sys.executable).with_name("cortex-replay")
KEY = "only-the-gateway-has-this-key"


def commands(program: str) -> tuple[str, str]:
    """The command that records a program, and the one that replays it."""
    lines = [line for line in README.splitlines() if line.startswith("$ ") and program in line]
    record, replay = (line[line.index("cortex-replay") :] for line in lines)
    return record, replay


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A change that waits to be committed."""
    (tmp_path / "model").mkdir()
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    for name, value in (("user.email", "a@example.com"), ("user.name", "A")):
        git(folder, "config", name, value)
    (folder / "a.txt").write_text("hello\n")
    git(folder, "add", "a.txt")
    git(folder, "commit", "-qm", "first")
    (folder / "a.txt").write_text("hello, world\n")
    git(folder, "add", "a.txt")
    return folder


def run(command: str, folder: Path, path: str, **variables: str) -> str:
    kept = {name: os.environ[name] for name in ("PIP_CERT", "SSL_CERT_FILE") if name in os.environ}
    done = subprocess.run(
        [str(PROGRAM), *shlex.split(command)[1:]],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder.parent), **kept, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert KEY not in done.stdout + done.stderr
    return done.stdout


def test_a_program_in_python(tmp_path: Path, repository: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv/bin"
    subprocess.run([binaries / "pip", "install", "--quiet", "llm"], check=True, timeout=300)
    path = f"{binaries}:{os.environ['PATH']}"
    record, replay = commands("llm -m")
    own = {"LLM_USER_PATH": str(tmp_path / "llm"), "OPENAI_API_KEY": KEY}
    with start_llamacpp(tmp_path / "model", api_key=KEY) as url:
        first = run(record, repository, path, **own, OPENAI_BASE_URL=f"{url}/v1")
    again = run(replay, repository, path, LLM_USER_PATH=own["LLM_USER_PATH"])

    assert first == again != ""


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_a_program_in_typescript(tmp_path: Path, repository: Path) -> None:
    install = [
        "npm",
        "install",
        "--silent",
        "--no-fund",
        "--no-audit",
        "--prefix",
        str(tmp_path / "npm"),
        "opencommit",
    ]
    subprocess.run(install, check=True, timeout=300)
    path = f"{tmp_path / 'npm/node_modules/.bin'}:{os.environ['PATH']}"
    record, replay = commands("oco --yes")
    own = {"OCO_AI_PROVIDER": "openai", "OCO_MODEL": "gpt-6-luna"}
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", str(remote))
    git(repository, "remote", "add", "origin", str(remote))
    messages = []
    with start_llamacpp(tmp_path / "model", api_key=KEY) as url:
        run(record, repository, path, **own, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=f"{url}/v1")
        messages.append(git(repository, "log", "-1", "--format=%B"))
    git(repository, "reset", "-q", "--soft", "HEAD~1")
    run(replay, repository, path, **own)
    messages.append(git(repository, "log", "-1", "--format=%B"))

    assert messages[0] == messages[1] != "first\n\n"
    assert git(remote, "for-each-ref") == "", "an example must not push what a reader tries"
