"""Clients on every library, inside marked tests: recorded from a server, replayed 20 times, and missed.

Chat completions come from llama.cpp. The wires of Gemini, Bedrock and Cohere come from a server of our own
(``wire_servers.py``), since none of theirs runs here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from integration import install
from integration.wire_servers import start_wire_server
from tests.servers import tiny_model
from tests.servers.llamacpp import start_llamacpp

ROOT = Path(__file__).parent.parent
CALLS = Path(__file__).parent / "in_process" / "client_calls.py"
KEY = "only-the-recording-has-this-key"
PYTEST = "pytest==9.2.0"
NEWEST = (
    *(PYTEST, "aiohttp==3.14.5", "boto3==1.44.0", "cohere==7.3.1", "google-genai==3.1.0"),
    *("huggingface_hub==1.33.0", "litellm==1.106.2", "mistralai==3.7.0", "requests==2.34.2"),
)
OLDER = (PYTEST, "aiohttp==3.9.5", "huggingface_hub==0.36.2", "requests==2.32.5", "urllib3==1.26.20")
OF_OLDER = "requests or urllib or http_client or aiohttp or huggingface"


def python_with(packages: Sequence[str], name: str) -> str:
    """A Python that has some packages, and this project as it is."""

    def fill(folder: Path) -> None:
        install.completed([sys.executable, "-m", "venv", folder])
        install.completed([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages])

    folder = install.once(install.BENCH / "in_process" / name, fill)
    python = folder / "bin" / "python"
    install.completed([python, "-m", "pip", "install", "--quiet", "--editable", ROOT])
    return os.fspath(python)


@pytest.mark.parametrize(
    ("packages", "name", "chosen", "count"),
    [
        (NEWEST, "newest", "client", 16),
        (OLDER, "older", f"({OF_OLDER}) and not litellm", 8),
    ],
    ids=["newest", "older"],
)
def test_clients_are_replayed_as_they_are(
    tmp_path: Path, packages: Sequence[str], name: str, chosen: str, count: int
) -> None:
    """The server throws other dice each time, and stays up: who asks it in replay is found out."""
    python = python_with(packages, name)
    (tmp_path / "model").mkdir()
    (tmp_path / "results").mkdir()
    shutil.copy(CALLS, tmp_path / "test_calls.py")

    with start_wire_server() as wires, start_llamacpp(tmp_path / "model", api_key=KEY, seed=-1) as url:

        def run(*options: str, **variables: str) -> tuple[int, str]:
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "CHAT_SERVER": url,
                "WIRE_SERVER": wires.url,
                "MODEL": tiny_model.MODEL,
                "RESULTS": str(tmp_path / "results"),
            }
            command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--llm-store", "llm"]
            done = subprocess.run(
                [*command, "-k", chosen, *options],
                cwd=tmp_path,
                env=environment | variables,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            return done.returncode, done.stdout

        status, recorded = run("--llm-mode", "once", CHAT_KEY=KEY)
        assert status == 0, recorded[-4000:]
        asked = len(wires.asked)
        status, replayed = run("--llm-mode", "replay", REPEAT="20")
        assert status == 0, replayed[-4000:]
        assert f"{count} passed" in replayed
        assert "0 misses, 0 recorded, 0 live" in replayed
        status, missed = run("--llm-mode", "replay", CHANGED=" Again.")
        assert status == 1
        assert f"{count} failed" in missed, missed[-4000:]
        assert missed.count("nothing is recorded for") >= count
        assert "Hello from requests." in missed, "and what differs"
        assert len(wires.asked) == asked
    stored = b"".join(path.read_bytes() for path in (tmp_path / "llm").rglob("*") if path.is_file())
    assert KEY.encode() not in stored
