"""The list of planted bugs: what stands in ``tests/mutants/*.toml``, and whether each can be planted."""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
FOLDER: Final = Path(__file__).parent
ORIGINS: Final = ("issue", "own", "tool")
PACKAGE: Final = "cortex_replay/"
PLACES: Final = (PACKAGE, "benchmarks/")
"""Where bugs are planted."""


class NoMutant(Exception):
    """What stands in the list is no planted bug, or cannot be planted."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A bug to plant: one place of one file, and the tests that have to see it."""

    name: str
    bug: str
    """What the product does wrong then, in a sentence."""
    origin: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    """Files, folders or tests; the narrowest first."""
    part: str
    """The file of the list that it stands in."""
    survives: str | None = None
    """Why no test can see it."""

    def plant(self, source: str) -> str:
        """The source with the bug in it.

        Raises:
            NoMutant: The place is not there, or there twice.
        """
        if (count := source.count(self.old)) != 1:
            raise NoMutant(f"{self.name}: what it replaces occurs {count} times in {self.file}")
        return source.replace(self.old, self.new)


def load(folder: Path = FOLDER) -> list[Mutant]:
    """All planted bugs, in the order of the list.

    Raises:
        NoMutant: A file says something else.
    """
    return [mutant for path in sorted(folder.glob("*.toml")) for mutant in _read(path)]


def _read(path: Path) -> Iterator[Mutant]:
    try:
        rows = tomllib.loads(path.read_text()).get("mutant", [])
    except tomllib.TOMLDecodeError as error:
        raise NoMutant(f"{path.name}: {error}") from None
    for row in rows:
        try:
            yield Mutant(**{**row, "tests": tuple(row["tests"])}, part=path.stem)
        except (KeyError, TypeError) as error:
            raise NoMutant(f"{path.name}: {row.get('name')}: {error}") from None


def problems(mutants: Sequence[Mutant], root: Path = ROOT) -> list[str]:
    """Why these cannot be planted in the tree at ``root``, or say nothing, one line for each reason."""
    names = Counter(mutant.name for mutant in mutants)
    twice = [f"{name}: there are {count} of this name" for name, count in names.items() if count > 1]
    return [*twice, *(f"{mutant.name}: {reason}" for mutant in mutants for reason in _reasons(mutant, root))]


def _reasons(mutant: Mutant, root: Path) -> Iterator[str]:
    if mutant.origin not in ORIGINS:
        yield f"its origin is none of {', '.join(ORIGINS)}"
    if not mutant.bug.strip().endswith("."):
        yield "its bug is not a sentence"
    if mutant.survives is not None and len(mutant.survives) < 20:
        yield "it does not say why it survives"
    if not mutant.tests:
        yield "it names no tests"
    for test in mutant.tests:
        place = root / test.partition("::")[0]
        if not test.startswith("tests/") or not place.exists() or place.name == "test_mutants.py":
            yield f"{test} is no test that can see it"
    if not mutant.file.startswith(PLACES) or not (root / mutant.file).is_file():
        yield f"{mutant.file} is no file that a bug is planted in"
        return
    try:
        changed = mutant.plant(source := (root / mutant.file).read_text())
        if changed == source:
            yield "it changes nothing"
        elif mutant.file.endswith(".py"):
            compile(changed, mutant.file, "exec", dont_inherit=True)
    except NoMutant as error:
        yield str(error).removeprefix(f"{mutant.name}: ")
    except SyntaxError as error:
        yield f"it does not compile: {error.msg}"


def sample(mutants: Sequence[Mutant], count: int, seed: str) -> list[Mutant]:
    """Some of them, the same ones for the same seed; only those that a test sees."""
    visible = sorted((mutant for mutant in mutants if mutant.survives is None), key=lambda one: one.name)
    return random.Random(seed).sample(visible, min(count, len(visible)))
