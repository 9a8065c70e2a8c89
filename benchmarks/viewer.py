"""[viewer]: what stands behind a page of the viewer, against reading and parsing the files that it shows.

Whatever a page says of a recording, its file has to be read and parsed for; ``orjson`` does nothing else.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from benchmarks.data import usual_fixtures, write_store
from benchmarks.measure import cpu_of, cpu_of_child, say, smallest
from benchmarks.table import Goal, Row
from cortex_replay.store.fixture import Fixture
from cortex_replay.view.library import Library
from cortex_replay.view.recordings import Surroundings

__all__ = ["run"]

_RECORDINGS = 10_000
_CHANGED = 500
_ROUNDS = 3
_LIMIT_S = 4.0
_MOST_TIMES = 20
_NAMES = ("-c", "user.name=bench", "-c", "user.email=bench@example.com", "-c", "commit.gpgsign=false")


def run(folder: Path, _: Collection[str]) -> list[Row]:
    say(f"writing a store of {_RECORDINGS:,} fixtures, and one of which {_CHANGED} are changed")
    root = folder / "store"
    write_store(root, usual_fixtures(_RECORDINGS))
    project = folder / "project"
    _change(project, list(usual_fixtures(_CHANGED)))
    say("measuring the list of the first, and the page of what changed in the second")
    program = [sys.executable, "-m", "cortex_replay", "diff", "--store", "llm", "--format", "html"]
    taken = smallest(
        _ROUNDS,
        {
            "list": lambda: cpu_of(lambda: _list(root)),
            "files": lambda: cpu_of(lambda: _parse(root)),
            "page": lambda: cpu_of_child([*program, "--output", str(folder / "page.html")], project),
        },
    )
    listed = f"the list of {_RECORDINGS:,} recordings"
    page = f"`diff --format html` of {_CHANGED} changed recordings, the whole command"
    return [
        Row("viewer", listed, taken["list"], "orjson", taken["files"], Goal("slower", _MOST_TIMES)),
        Row("viewer", page, taken["page"], goal=Goal("seconds", _LIMIT_S)),
    ]


def _list(root: Path) -> bytes:
    """The document behind the first page of ``view``."""
    document: Any = Library(root, Surroundings()).document("store")
    if len(document["calls"]) != _RECORDINGS:
        raise RuntimeError(f"the store to measure on shows {len(document['calls'])} recordings")
    return orjson.dumps(document)


def _parse(root: Path) -> int:
    return sum(1 for path in root.glob("fixtures/*/*.json") if orjson.loads(path.read_bytes()))


def _change(project: Path, fixtures: Sequence[Fixture]) -> None:
    """A repository with a store, and the same store with other answers in its working tree."""
    store = project / "llm"
    write_store(store, fixtures)
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Record"]):
        subprocess.run(["git", *_NAMES, *words], cwd=project, check=True)
    shutil.rmtree(store)
    write_store(store, map(_other, fixtures))


def _other(fixture: Fixture) -> Fixture:
    answers = tuple(replace(answer, text=f"No. {answer.text[::-1]}") for answer in fixture.answers)
    return replace(fixture, answers=answers)
