"""[remote]: a store whose files are in a bucket: push, cold pull, and opening with all in the cache.

MinIO runs on this machine. Ours is the command, as a user runs it, with all that it checks, hashes and keeps;
the peer is a program around ``obstore`` that does nothing but to put or get the same objects. Both start
Python and load ``obstore``. A warm open is held to the same store with its files in the work tree.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from time import perf_counter
from unittest.mock import patch

import pytest

from benchmarks.data import usual_fixtures, write_store
from benchmarks.measure import Times, children_cpu, say, smallest_times, times_of
from benchmarks.table import Goal, Row
from cortex_replay import Store
from integration.remote.servers import start_minio
from tests.servers.s3 import S3Server

__all__ = ["run"]

_COUNT = 10_000
_ROUNDS = 3
_OPENINGS = 5
_PEER = Path(__file__).with_name("remote_peer.py")
_COMMAND = Path(sys.executable).with_name("cortex-replay")
_NO_SLOWER = 1.1
"""No slower, but for what two runs of the same differ by."""


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    server = folder / "server"
    server.mkdir()
    try:
        with start_minio(server) as minio:
            return _Bench(folder, minio).rows()
    except pytest.skip.Exception as reason:
        say(f"skipped: {reason}")
        return []


class _Bench:
    """A project with files in its work tree, a clone of it without, and a bucket for each round."""

    def __init__(self, folder: Path, minio: S3Server) -> None:
        self._minio = minio
        self._folder = folder
        say(f"writing a store of {_COUNT:,} fixtures")
        self._plain = folder / "plain"
        index = write_store(self._plain / "llm", usual_fixtures(_COUNT))
        first = index.fixtures[0]
        self._key = (first.model or "", first.prompt_hash or "")
        self._clone = folder / "clone"
        (self._clone / "llm").mkdir(parents=True)
        shutil.copy(self._plain / "llm" / "INDEX.toml", self._clone / "llm")
        self._objects = folder / "objects"
        for row in index.fixtures:
            target = self._objects / "b3" / row.blake3[:2] / row.blake3
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(self._plain / "llm" / row.path, target)

    @property
    def environment(self) -> dict[str, str]:
        cache = {"CORTEX_REPLAY_CACHE": os.fspath(self._folder / "cache"), "HOME": os.fspath(self._folder)}
        return self._minio.environment(os.environ) | cache

    def rows(self) -> list[Row]:
        say(f"pushing and pulling {_COUNT:,} objects")
        taken = smallest_times(
            _ROUNDS, {"push": self._push, "put": self._put, "pull": self._pull, "get": self._get}
        )
        say("opening the store with a full cache")
        opened = smallest_times(
            _OPENINGS,
            {name: self._opening(name) for name in ("full", "on-read", "plain full", "plain on-read")},
        )
        rows = []
        for ours, peer, what in (("pull", "get", "cold pull"), ("push", "put", "push")):
            goal = Goal("slower", 1.5) if ours == "pull" else None
            name = f"bare obstore, {peer}"
            many = f"{what} of {_COUNT:,} objects"
            rows.append(Row("remote", many, taken[ours].wall, name, taken[peer].wall, goal, clock="wall"))
            rows.append(Row("remote", "  the same", taken[ours].cpu, name, taken[peer].cpu))
        for verify in ("full", "on-read"):
            plain = opened[f"plain {verify}"].cpu
            what = f'warm Store.open(verify="{verify}") and one answer, {_COUNT:,} rows'
            goal = Goal("slower", _NO_SLOWER)
            rows.append(Row("remote", what, opened[verify].cpu, "files in the work tree", plain, goal))
        return rows

    def _configure(self, project: Path, bucket: str) -> None:
        settings = f'store = "llm"\n[remote]\nurl = "s3://{bucket}"\nkeep = "git"\n'
        (project / "cortex-replay.toml").write_text(settings)

    def _push(self) -> Times:
        self._configure(self._plain, self._minio.new_bucket())
        return self._time([_COMMAND, "push", "--json"], self._plain)

    def _put(self) -> Times:
        return self._time([sys.executable, _PEER, "put", self._minio.new_bucket(), self._objects])

    def _pull(self) -> Times:
        """Into an empty cache, from the bucket that was pushed to last."""
        shutil.copy(self._plain / "cortex-replay.toml", self._clone)
        shutil.rmtree(self._folder / "cache", ignore_errors=True)
        taken = self._time([_COMMAND, "pull", "--json"], self._clone)
        if sum(1 for _ in (self._folder / "cache").glob("b3/*/*")) != _COUNT:
            raise RuntimeError("the pull to measure left the cache without some objects")
        return taken

    def _get(self) -> Times:
        bucket = (self._plain / "cortex-replay.toml").read_text().partition("s3://")[2].partition('"')[0]
        return self._time([sys.executable, _PEER, "get", bucket, self._objects])

    def _time(self, command: Sequence[str | Path], folder: Path | None = None) -> Times:
        """What a program takes, which has to end well."""
        wall, cpu = perf_counter(), children_cpu()
        subprocess.run(command, cwd=folder, env=self.environment, stdout=subprocess.DEVNULL, check=True)
        return Times(children_cpu() - cpu, perf_counter() - wall)

    def _opening(self, name: str) -> Callable[[], Times]:
        """What opens a store and reads one fixture, with its files here, or all in the cache."""
        root = (self._plain if name.startswith("plain") else self._clone) / "llm"
        verify = name.removeprefix("plain ")

        def open_and_read() -> Store:
            store = Store.open(root, verify="full" if verify == "full" else "on-read")
            store.get(*self._key)
            return store

        def take() -> Times:
            # No server is there any more, as far as it knows: whoever asks one fails.
            with patch.dict(os.environ, self.environment | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}):
                return times_of(open_and_read)

        return take
