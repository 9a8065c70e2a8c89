"""A bit flipped in any object of a bucket, or in any file of the cache: nothing wrong is served or kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from cortex_replay import Fixture, FixtureIntegrityFailed, Store, blake3_hex
from cortex_replay.cli.main import main
from tests.sampling import IS_TORTURE
from tests.sharing.team import Team
from tests.store.conversations import commit, turns

ROUNDS = 40 if IS_TORTURE else 1
SYSTEM = "You know a lot. " * 200
"""Large enough to be a part."""


@pytest.fixture
def talk() -> list[Fixture]:
    return turns(4, system=SYSTEM)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, talk: list[Fixture]) -> Team:
    """The index of a conversation, of which the bucket has all files."""
    team = Team.make(tmp_path, monkeypatch)
    commit(Store.create(team.store), *talk)
    assert run("push") == 0
    team.lose_files()
    assert len(team.objects()) == 4 + 1
    return team


def run(*arguments: str) -> int:
    return CliRunner().invoke(main, arguments).exit_code


def cached(team: Team) -> list[Path]:
    return sorted(path for path in (team.place / "cache").glob("b3/*/*") if path.is_file())


@contextmanager
def flipped(path: Path, random: Random) -> Iterator[None]:
    right = path.read_bytes()
    wrong = bytearray(right)
    wrong[random.randrange(len(wrong))] ^= 1 << random.randrange(8)
    path.write_bytes(wrong)
    yield
    path.write_bytes(right)


def last_turn(team: Team, talk: list[Fixture]) -> Fixture:
    """What needs every file: it continues all turns before it, the first of which names the part."""
    return Store.open(team.store, verify="on-read").get(*talk[-1].key)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_each_object_with_a_bit_flipped(clone: Team, talk: list[Fixture], seed: int) -> None:
    random = Random(seed)
    for path in clone.objects():
        with flipped(path, random):
            assert (run("pull"), run("verify")) == (5, 5)
            with pytest.raises(FixtureIntegrityFailed):
                last_turn(clone, talk)
            with pytest.raises(FixtureIntegrityFailed):
                Store.open(clone.store)
        kept = cached(clone)
        assert [file for file in kept if blake3_hex(file.read_bytes()) != file.name] == []
        assert len(kept) == 4
        shutil.rmtree(clone.place / "cache")
    assert run("pull") == 0
    assert last_turn(clone, talk).request == talk[-1].request


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_each_file_of_the_cache_with_a_bit_flipped(clone: Team, talk: list[Fixture], seed: int) -> None:
    """It is fetched again; where it cannot be, it is missed."""
    random = Random(seed)
    assert run("pull") == 0
    for path in cached(clone):
        with flipped(path, random):
            assert last_turn(clone, talk).request == talk[-1].request
            assert blake3_hex(path.read_bytes()) == path.name
    clone.bucket.rename(clone.place / "away")
    for path in cached(clone):
        with flipped(path, random):
            with pytest.raises(FixtureIntegrityFailed):
                last_turn(clone, talk)
            assert run("verify") == 5
    assert run("verify") == 0
