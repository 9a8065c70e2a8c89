"""Every single-bit change of the shipped store, through the real reading path.

In short here: some of each file, others with every commit. ``make torture`` takes them all.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cortex_replay import FixtureIntegrityFailed, Store
from cortex_replay.store import trust
from cortex_replay.store.fixture import Fixture
from tests.sample_store import sample_files
from tests.sampling import sample

FILES = sample_files()
FIXTURES = [path for path in FILES if path != "INDEX.toml"]
BITS = 60
"""Of a file, in `make test`."""


def write_store(root: Path, paths: list[str]) -> bytes:
    """A store of some of the shipped fixtures, with just their rows and no empty slots; gives the index."""
    rows = re.findall(r"\[\[fixture\]\]\n(?:.+\n)+", FILES["INDEX.toml"].decode())
    kept = [row for row in rows if any(path in row for path in paths)]
    index = "\n".join(["format = 1\nkey = 1\n", *kept]).encode()
    (root / "INDEX.toml").write_bytes(index)
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(FILES[path])
    return index


def served(root: Path) -> list[Fixture] | None:
    """What the store would replay, or nothing when it is refused."""
    try:
        store = Store.open(root)
    except FixtureIntegrityFailed:
        return None
    return [store.get(item.model, item.prompt_hash) for item in store.list()]


def flipped(data: bytes) -> list[bytes]:
    places = (divmod(place, 8) for place in sample(range(8 * len(data)), BITS))
    return [data[:i] + bytes([data[i] ^ (1 << bit)]) + data[i + 1 :] for i, bit in places]


def test_the_shipped_index_is_the_one_these_tests_use() -> None:
    """The whole set and its parts are cut from the same text."""
    assert (Path(__file__).parents[2] / "INDEX.toml").read_bytes() == FILES["INDEX.toml"]


@pytest.mark.parametrize("path", FIXTURES, ids=range(len(FIXTURES)))
def test_every_bit_of_a_fixture(tmp_path: Path, path: str) -> None:
    """Refused, all of them."""
    write_store(tmp_path, [path])
    assert served(tmp_path)

    for changed in flipped(FILES[path]):
        (tmp_path / path).write_bytes(changed)
        assert served(tmp_path) is None


def test_every_bit_of_the_index(tmp_path: Path) -> None:
    """Refused, or it changes nothing that is served (a bit in the name of a key nobody reads)."""
    index = write_store(tmp_path, FIXTURES)
    assert index.count(b"[[fixture]]") == len(FIXTURES)
    whole = served(tmp_path)
    changes = flipped(index)
    accepted = 0
    for changed in changes:
        (tmp_path / "INDEX.toml").write_bytes(changed)
        answer = served(tmp_path)
        assert answer is None or answer == whole, changed
        accepted += answer is not None

    assert accepted < min(200, len(changes) // 10), "nearly every bit of an index carries meaning"


def test_the_check_would_notice_a_reader_that_does_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the comparison of hashes, a flipped bit in an answer gets through: the test can fail."""
    path = next(path for path in FIXTURES if b"Paris." in FILES[path])
    write_store(tmp_path, [path])
    monkeypatch.setattr(trust, "check_bytes", lambda row, data: None)
    (tmp_path / path).write_bytes(FILES[path].replace(b"Paris.", b"Qaris."))

    assert served(tmp_path)
