"""[record]: ``batch --jobs 16`` of a server that answers at once, against vcrpy through httpx.

Each side is a whole process, from its start until what it recorded is written: it reads the same file of
requests, has as many calls under way, and hands over answers that are parsed. The server is a
process of its own. Ours stores each answer by the rules of trust, without the key in use, durably; the
index is written once for all of them, or this fails. vcrpy writes one cassette, as JSON, because its YAML
takes longer, and leaves the key out of it.

vcrpy is measured twice. A cassette that is to give a prompt its own answer is matched on bodies, and then
each request is held against all that were recorded before: its time grows with the square of their
number, so it is measured at numbers that it can do, and at each of them beside ours. As it comes, it is
matched on the URL, and no prompt is told from another; that is as fast as httpx alone, at any number.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path

from benchmarks.data import MODEL, Texts, disk_folder
from benchmarks.measure import Times, say, smallest_times
from benchmarks.record_index import index_changes
from benchmarks.table import Goal, Row
from cortex_replay import Store

__all__ = ["run"]

_PROJECT = Path(__file__).resolve().parent.parent
_COUNT = 10_000
_ROUNDS = 2
_MATCHED_COUNTS = (250, 500, 1_000)
_MATCHED_ROUNDS = 1
"""The largest takes two minutes; it shows far more than what a machine adds by chance."""
_OURS_ROUNDS = 3
_JOBS = 16
_TOKENS = 200
_KEY_NAME, _KEY = "BENCH_API_KEY", "the-key-of-nobody-at-all-00017"
_CONFIGURATION = f"""
provider = "bench"

[providers.bench]
kind = "openai-compat"
base_url = "{{url}}"
key_env = "{_KEY_NAME}"
"""

_Tasks = dict[str, Callable[[], Times]]


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    batches = {count: _batch(folder, count) for count in (*_MATCHED_COUNTS, _COUNT)}
    with _server() as url, disk_folder() as disk:
        say(f"measuring the recording of {_COUNT:,} answers")
        many = smallest_times(
            _ROUNDS,
            {
                "ours": partial(_ours, folder, batches[_COUNT], _COUNT, url),
                "on disk": partial(_ours, disk, batches[_COUNT], _COUNT, url),
                "vcrpy": partial(_vcrpy, folder, batches[_COUNT], "url", url),
            },
        )
        tasks: _Tasks = {}
        for count in _MATCHED_COUNTS:
            tasks[f"ours {count}"] = partial(_ours_at_best, folder, batches[count], count, url)
            tasks[f"vcrpy {count}"] = partial(_vcrpy, folder, batches[count], "body", url)
        say(f"measuring the recording of {', '.join(map(str, _MATCHED_COUNTS))} answers")
        few = smallest_times(_MATCHED_ROUNDS, tasks)

    rows = []
    for count in _MATCHED_COUNTS:
        ours, peer = few[f"ours {count}"].wall / count, few[f"vcrpy {count}"].wall / count
        goal = Goal("faster", 10) if count == _MATCHED_COUNTS[-1] else None
        rows.append(_row(count, "", ours, "vcrpy, matched on bodies", peer, goal))
    ours, on_disk, peer = (many[name].wall / _COUNT for name in ("ours", "on disk", "vcrpy"))
    as_it_comes = "vcrpy, matched on the URL"
    rows += [
        _row(_COUNT, "", ours, as_it_comes, peer, Goal("faster", 1.5)),
        _row(_COUNT, ", on disk", on_disk, as_it_comes, peer),
        Row(
            "record",
            f"{_COUNT:,} answers",
            many["ours"].cpu / _COUNT,
            as_it_comes,
            many["vcrpy"].cpu / _COUNT,
            unit="call",
        ),
    ]
    return rows


def _row(count: int, where: str, ours: float, peer_name: str, peer: float, goal: Goal | None = None) -> Row:
    what, note = f"{count:,} answers{where}", f"{1 / ours:,.0f} a second, vcrpy {1 / peer:,.0f}"
    return Row("record", what, ours, peer_name, peer, goal, "call", "wall", note)


def _batch(folder: Path, count: int) -> Path:
    """A file of requests of about 3 KiB."""
    texts = Texts(seed=9)
    path = folder / f"{count}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            request = {
                "model": MODEL,
                "system": "You are a terse assistant in a test suite.",
                "messages": f"{number}: {texts.between(2200, 3000)}",
                "temperature": 0.0,
                "max_tokens": _TOKENS,
            }
            file.write(json.dumps(request) + "\n")
    return path


@contextlib.contextmanager
def _server() -> Iterator[str]:
    """The base URL of a server that answers at once."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.adapter_server"],
        cwd=_PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"


def _ours(folder: Path, batch: Path, count: int, url: str) -> Times:
    root = folder / "store"
    root.mkdir()
    try:
        Store.create(root)
        (root / "cortex-replay.toml").write_text(_CONFIGURATION.format(url=url), encoding="utf-8")
        os.sync()  # nobody is to wait for what another has written, or removed
        command = ["cortex_replay", "batch", os.fspath(batch), "--jobs", str(_JOBS)]
        with index_changes(root) as changes:
            taken = _times_of_child(command, root)
        if len(Store.open(root, verify="on-read")) != count:
            raise RuntimeError("not every answer was recorded")
        if changes.count not in (1, None):
            raise RuntimeError(f"the index was written {changes.count} times for one batch")
        return taken
    finally:
        shutil.rmtree(root)


def _ours_at_best(folder: Path, batch: Path, count: int, url: str) -> Times:
    """A short one can be taken several times while vcrpy is measured once."""
    return smallest_times(_OURS_ROUNDS, {"": partial(_ours, folder, batch, count, url)})[""]


def _vcrpy(folder: Path, batch: Path, match_on: str, url: str) -> Times:
    cassette = folder / "cassette.json"
    command = ["benchmarks.record_vcrpy", os.fspath(batch), os.fspath(cassette), match_on, str(_JOBS), url]
    try:
        return _times_of_child(command, _PROJECT)
    finally:
        cassette.unlink(missing_ok=True)


def _times_of_child(command: list[str], folder: Path) -> Times:
    """What a module takes as a process, in an environment with one key and no proxy."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment | {_KEY_NAME: _KEY},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    return Times(usage.ru_utime + usage.ru_stime, wall)
