"""What server-everything echoes: secrets of 27 kinds, and answers for clients of both eras."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest

from integration.mcp.reference_servers import copy_servers, entry_of
from tests.redact.kinds import IN_CONTEXT, KINDS

CLIENT: Final = Path(__file__).parent / "clients" / "echo.py"
PROGRAM: Final = Path(sys.executable).with_name("cortex-replay")
SECRETS: Final = {
    kind: make(Random(f"echo {kind}"))
    for kind, make in {**dict(list(KINDS.items())[::5]), **IN_CONTEXT}.items()
}
PLACEHOLDER: Final = re.compile(r"\[REDACTED:[a-z0-9-]+\]")


class Road:
    """A client that has the shim in place of server-everything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.servers = copy_servers(folder / "servers")
        self.printed = ""

    def take(self, mode: str, texts: Sequence[str], era: str = "auto") -> list[str]:
        """What is echoed."""
        file = self.folder.parent / "texts.json"
        file.write_text(json.dumps(texts))
        server = ["node", os.fspath(entry_of(self.servers, "everything")), "stdio"]
        shim = [os.fspath(PROGRAM), "mcp", "every", "--mode", mode, "--", *server]
        done = subprocess.run(
            [sys.executable, CLIENT, era, file, *shim],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self.printed += done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


def test_no_secret_is_stored_and_each_call_is_found_again(tmp_path: Path) -> None:
    assert len(SECRETS) == 27
    road = Road(tmp_path)
    texts = [f"{kind}: {secret.whole} and so on" for kind, secret in SECRETS.items()]

    recorded = road.take("record", texts)
    shutil.rmtree(road.servers)

    assert recorded == [f"Echo: {text}" for text in texts]
    stored = b"".join(path.read_bytes() for path in road.folder.rglob("*") if path.is_file()).decode()
    for kind, secret in SECRETS.items():
        assert json.dumps(secret.text)[1:-1] not in stored, kind
    replayed = road.take("replay", texts)
    assert [len(PLACEHOLDER.findall(said)) for said in replayed] == [1] * len(texts)
    assert [said.partition(": ")[2].partition(":")[0] for said in replayed] == list(SECRETS)
    # As a model asks that is replayed: its answers have lost the secrets, too.
    asked = [said.removeprefix("Echo: ") for said in replayed]
    assert road.take("replay", asked) == replayed
    for kind, secret in SECRETS.items():
        assert secret.text not in road.printed, kind


def test_a_miss_says_what_differs(tmp_path: Path) -> None:
    road = Road(tmp_path)
    road.take("record", ["hello"])
    shutil.rmtree(road.servers)

    [said] = road.take("replay", ["hullo"])

    assert "nothing is recorded for tool echo of server every (" in said
    assert "argument message: 'hello' → 'hullo'" in said


@pytest.mark.parametrize("recording", ["legacy", "auto"])
@pytest.mark.parametrize("replaying", ["legacy", "auto"])
def test_a_recording_serves_clients_of_both_eras(tmp_path: Path, recording: str, replaying: str) -> None:
    """The server shakes hands. A newer client asks for versions first, and an older one does not."""
    road = Road(tmp_path)
    recorded = road.take("record", ["hello", "again"], recording)
    shutil.rmtree(road.servers)

    assert road.take("replay", ["hello", "again"], replaying) == recorded == ["Echo: hello", "Echo: again"]
