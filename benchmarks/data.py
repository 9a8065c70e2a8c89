"""The stores to measure on, the same on every machine: all of it comes from seeded dice."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from cortex_replay import LlmRequest, TokenUsage, blake3_hex
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import FixtureRow, Index
from cortex_replay.store.paths import INDEX_NAME

__all__ = [
    "MODEL",
    "Script",
    "Texts",
    "disk_folder",
    "fixture_of",
    "flat_copy",
    "is_in_memory",
    "small_fixtures",
    "usual_fixtures",
    "work_folder",
    "write_store",
]

MODEL = "bench-model-1"
Script = Literal["ascii", "mixed", "japanese"]
"""In which letters a text is; a mixed one is English with words of many scripts."""

META = {"recorded_at": "2026-11-15T00:00:00Z", "adapter": "benchmark", "version": "0.1.0"}

_SYSTEM = "You are a terse assistant in a test suite."
_MEMORY = Path("/dev/shm")
_DISK = Path(__file__).resolve().parent.parent / ".bench"
_ROOM_NEEDED = 2**30
_POOL_WORDS = 100_000
_WORDS = (
    "the of and to in is that for it was on are as with his they at be this from have or by one had "
    'not but what all were when we there can an "quoted" said: which, their; how each if will up '
    "about\n out many then them would like so these her long make thing see him two has more\n\n day"
)
_FOREIGN_WORDS = "größer naïve Straße où café 東京 日本語 Ελλάδα Москва 🙂 “so”"
_JAPANESE_WORDS = (
    "東京は 日本の 首都です。 これは 長い 質問で、 答えは 短く 書いて ください。 テストの ため、\n 毎回"
)


class Texts:
    """Pieces of prose of a wanted length, cut from a pool at random places.

    A class to carry the dice and the pools; making each piece word by word would take longer than
    the measurements.
    """

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        vocabularies: dict[Script, str] = {
            "ascii": _WORDS,
            "mixed": f"{_WORDS} {_FOREIGN_WORDS}",
            "japanese": _JAPANESE_WORDS,
        }
        self._pools = {
            script: " ".join(self._dice.choices(words.split(" "), k=_POOL_WORDS))
            for script, words in vocabularies.items()
        }

    def between(self, shortest: int, longest: int, script: Script = "ascii") -> str:
        """A new piece of some length, in characters."""
        pool = self._pools[script]
        length = self._dice.randint(shortest, longest)
        start = self._dice.randrange(len(pool) - length)
        return pool[start : start + length]


def fixture_of(request: LlmRequest, answer: str) -> Fixture:
    """A fixture as a recording leaves it: the request, one answer, and when it was made."""
    key = FixtureKey(request.model, request.prompt_hash())
    answers = (Answer(answer, usage=TokenUsage(900, 200), finish_reason="stop"),)
    return Fixture(key, answers, request, dict(META))


def usual_fixtures(count: int) -> Iterator[Fixture]:
    """Fixtures of about 4 KiB; every tenth holds more than ASCII."""
    texts = Texts(seed=1)
    for number in range(count):
        script: Script = "mixed" if number % 10 == 0 else "ascii"
        prompt = f"{number}: {texts.between(2200, 3000, script)}"
        request = LlmRequest(MODEL, _SYSTEM, prompt, 0.0, 1024)
        yield fixture_of(request, texts.between(600, 1000, script))


def small_fixtures(count: int) -> Iterator[Fixture]:
    """As small as fixtures get, for where only their number counts and none of them is opened."""
    for number in range(count):
        yield fixture_of(LlmRequest(MODEL, "", str(number)), "Yes.")


def write_store(root: Path, fixtures: Iterable[Fixture]) -> Index:
    """Write fixtures and their index in this project's own layout."""
    folder = root / "fixtures" / MODEL
    folder.mkdir(parents=True)
    rows = []
    for fixture in fixtures:
        data = render_fixture(fixture)
        digest = blake3_hex(data)
        name = f"{fixture.key.prompt_hash[:16]}-{digest[:8]}.json"
        (folder / name).write_bytes(data)
        rows.append(FixtureRow(f"fixtures/{MODEL}/{name}", digest, *fixture.key))
    index = Index(sorted(rows))
    (root / INDEX_NAME).write_text(render_index(index), encoding="utf-8", newline="\n")
    return index


def flat_copy(root: Path, index: Index, target: Path) -> None:
    """The same files as ``crtx-llm`` wants them: beside an index without keys."""
    target.mkdir()
    blocks = []
    for row in index.fixtures:
        name = row.path.rpartition("/")[2]
        shutil.copyfile(root / row.path, target / name)
        blocks.append(f'[[fixture]]\npath = "{name}"\nblake3 = "{row.blake3}"\n')
    (target / INDEX_NAME).write_text("\n".join(blocks), encoding="utf-8", newline="\n")


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder that is gone afterwards, in memory where possible: no disk is to be measured."""
    with tempfile.TemporaryDirectory(prefix="cortex-replay-bench-", dir=_roomy_memory()) as name:
        yield Path(name).resolve()


@contextmanager
def disk_folder() -> Iterator[Path]:
    """A folder that is gone afterwards, on the disk that this project lies on."""
    _DISK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cortex-replay-bench-", dir=_DISK) as name:
        yield Path(name)


def is_in_memory(folder: Path) -> bool:
    return folder.is_relative_to(_MEMORY)


def _roomy_memory() -> Path | None:
    """The folder in memory, if there is one with room; in a container it is often a small one."""
    try:
        if shutil.disk_usage(_MEMORY).free < _ROOM_NEEDED:
            return None
        with tempfile.TemporaryFile(dir=_MEMORY):
            return _MEMORY
    except OSError:
        return None
