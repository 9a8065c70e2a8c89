"""[index]: a store of a million rows beside one of ten thousand: the first answer, one commit, memory.

The files of the rows need not be there: opened on-read, a store looks at what it is asked for. Those that are
asked for are written, and spread over all shards as any keys are.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from functools import partial
from math import inf
from pathlib import Path
from typing import Final

from benchmarks.data import MODEL, fixture_of
from benchmarks.gateway import first_answer
from benchmarks.load import drive, rendered
from benchmarks.measure import Times, say, smallest, smallest_times, times_of
from benchmarks.peers import can_measure, running
from benchmarks.table import Goal, Row
from cortex_replay import LlmRequest, Store, blake3_hex
from cortex_replay.store.fixture import Fixture
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import FixtureRow, Index, Row as IndexRow
from cortex_replay.store.index.shards import MOST_ROWS_IN_ONE_FILE, replace_shards, shard_of
from cortex_replay.store.paths import INDEX_NAME

__all__ = ["run"]

_FEW: Final = 10_000
_MANY: Final = 1_000_000
_ASKED: Final = 1_000
_ROUNDS: Final = 7
_STARTS: Final = 5
_MOST_BYTES: Final = 500e6
_PATH: Final = "/v1/chat/completions"


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    for size in (_FEW, _MANY):
        say(f"writing an index of {size:,} rows")
        _write(folder / str(size), size)
    return [*_commit_rows(folder), *_gateway_rows(folder)]


def _commit_rows(folder: Path) -> list[Row]:
    say("measuring commits")
    taken = smallest_times(_ROUNDS, {size: _committing(folder / size) for size in (f"{_FEW}", f"{_MANY}")})
    many, few = taken[f"{_MANY}"], taken[f"{_FEW}"]
    what, peer, goal = f"one answer onto {_MANY:,} rows", f"onto {_FEW:,}", Goal("slower", 3)
    return [
        Row("index", what, many.cpu, peer, few.cpu, goal),
        Row("index", what, many.wall, peer, few.wall, goal, clock="wall"),
    ]


def _committing(root: Path) -> Callable[[], Times]:
    store = Store.open(root, verify="on-read")
    count = 0

    def one_commit() -> Times:
        nonlocal count
        count += 1
        store.add(fixture_of(LlmRequest(MODEL, "new", str(count)), "Yes."))
        return times_of(store.commit)

    return one_commit


def _gateway_rows(folder: Path) -> list[Row]:
    if not can_measure():
        say("skipped: the gateway, because this system does not tell what other processes use")
        return []
    say("measuring how long after its start a gateway answers")
    requests = [_request(number) for number in range(_ASKED)]
    sizes = (_FEW, _MANY)
    first = smallest(
        _STARTS,
        {size: partial(first_answer, folder, _serving(folder / str(size)), requests[0]) for size in sizes},
    )
    say(f"measuring memory, over {_ASKED:,} answers")
    with running(_serving(folder / str(_MANY)), folder) as server:
        load = drive(server.port, requests, 1, seconds=inf, count=_ASKED)
        memory = server.memory()
    return [
        Row(
            "index",
            f"first answer of a gateway, {_MANY:,} rows",
            first[_MANY],
            f"{_FEW:,} rows",
            first[_FEW],
            Goal("seconds", 1),
            clock="wall",
        ),
        Row("index", f"one of {_ASKED:,} different answers", load.per_request, unit="call", clock="wall"),
        Row("index", "  memory after them", memory, goal=Goal("bytes", _MOST_BYTES), clock="bytes"),
    ]


def _serving(root: Path) -> list[str]:
    options = ["--store", str(root), "--mode", "replay", "--port", "0", "--json"]
    return [sys.executable, "-m", "cortex_replay", "serve", *options]


def _asked(number: int) -> LlmRequest:
    return LlmRequest(MODEL, "", f"question {number}", 0.0, 256)


def _request(number: int) -> bytes:
    messages = [{"role": "user", "content": f"question {number}"}]
    body = {"model": MODEL, "messages": messages, "temperature": 0.0, "max_tokens": 256}
    return rendered(_PATH, json.dumps(body).encode())


def _write(root: Path, size: int) -> None:
    """An index of so many rows, in the form that its size gives it, and the files that are asked for."""
    (root / "fixtures" / MODEL).mkdir(parents=True)
    rows: list[IndexRow] = [
        _write_fixture(root, fixture_of(_asked(number), "Yes.")) for number in range(_ASKED)
    ]
    rows += (_made_up(number) for number in range(size - _ASKED))
    if size <= MOST_ROWS_IN_ONE_FILE:
        for row in rows[_ASKED:]:
            (root / row.path).touch()  # here they are looked for
        (root / INDEX_NAME).write_text(render_index(Index.of(rows, {})), encoding="utf-8", newline="\n")
    else:
        _write_shards(root, rows)


def _write_shards(root: Path, rows: Iterable[IndexRow]) -> None:
    by_shard: defaultdict[str, list[IndexRow]] = defaultdict(list)
    for row in rows:
        by_shard[shard_of(row)].append(row)
    _, files = replace_shards(Index(), {name: Index.of(found, {}) for name, found in by_shard.items()})
    (root / "index").mkdir()
    for name, data in files.shards.items():
        (root / f"index/{name}.toml").write_bytes(data)
    (root / INDEX_NAME).write_bytes(files.root)


def _write_fixture(root: Path, fixture: Fixture) -> FixtureRow:
    data = render_fixture(fixture)
    digest = blake3_hex(data)
    path = f"fixtures/{MODEL}/{fixture.key.prompt_hash[:16]}-{digest[:8]}.json"
    (root / path).write_bytes(data)
    return FixtureRow(path, digest, *fixture.key)


def _made_up(number: int) -> FixtureRow:
    digest, prompt_hash = blake3_hex(b"file %d" % number), blake3_hex(b"key %d" % number)
    return FixtureRow(f"fixtures/{MODEL}/{prompt_hash[:16]}-{digest[:8]}.json", digest, MODEL, prompt_hash)
