"""A gateway that replays, as a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.process import running

__all__ = ["serving"]


@contextmanager
def serving(store: Path, log: Path) -> Iterator[tuple[str, int]]:
    """Its URL and the id of its process, until the block ends."""
    here = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "cortex_replay", "serve", "--store", str(store), "--json"]
    with running(command, log, environment=os.environ | {"PYTHONPATH": str(here)}) as server:
        port = server.announced(r"http://127\.0\.0\.1:(\d+)")
        yield f"http://127.0.0.1:{port}", server.process.pid
