"""One bit that is another one: on a disk, in a merge, or because somebody edited a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from integration.proof.figures import Row, Scale, Tell
from integration.proof.vcr_cassettes import VCRPY, load, record
from tests.store.test_bitflips import FILES, FIXTURES, served, write_store
from tests.torture.plans import SCRATCH

__all__ = ["prove"]

_REFUSED: Final = "refused"
_SAME: Final = "served as recorded"
_MISSED: Final = "missed"
_WRONG: Final = "served wrong"


def prove(scale: Scale, tell: Tell) -> list[Row]:
    stride = scale.pick(397, 7, 1)
    fixtures = FIXTURES[: scale.pick(2, 4, len(FIXTURES))]
    kinds = [*fixtures, "INDEX.toml", "cassette.yaml", "cassette.json"]
    total, done = len(kinds), 0
    found: dict[str, Counter[str]] = {"fixtures": Counter()}
    for path in fixtures:
        found["fixtures"] += _flip_ours([path], path, stride)
        tell(done := done + 1, total)
    found["index"] = _flip_ours(FIXTURES, "INDEX.toml", stride)
    tell(done := done + 1, total)
    for name in ("cassette.yaml", "cassette.json"):
        found[name] = _flip_theirs(name, stride)
        tell(done := done + 1, total)
    return [
        _row("fixtures", "cortex-replay", f"{len(fixtures)} fixtures", found["fixtures"]),
        _row("index", "cortex-replay", "the index of all fixtures", found["index"]),
        _row("vcrpy-yaml", VCRPY, "a cassette, as YAML", found["cassette.yaml"]),
        _row("vcrpy-json", VCRPY, "a cassette, as JSON", found["cassette.json"]),
    ]


def _row(name: str, who: str, what: str, found: Counter[str]) -> Row:
    return Row(
        name, who, what, found.total(), {one: found[one] for one in (_REFUSED, _SAME, _MISSED, _WRONG)}
    )


def _flipped(data: bytes, stride: int) -> Iterator[bytes]:
    for place in range(0, 8 * len(data), stride):
        byte, bit = divmod(place, 8)
        yield data[:byte] + bytes([data[byte] ^ (1 << bit)]) + data[byte + 1 :]


def _flip_ours(paths: list[str], changed: str, stride: int) -> Counter[str]:
    found: Counter[str] = Counter()
    with TemporaryDirectory(dir=SCRATCH) as folder:
        root = Path(folder)
        index = write_store(root, paths)
        whole = served(root)
        for data in _flipped(index if changed == "INDEX.toml" else FILES[changed], stride):
            (root / changed).write_bytes(data)
            answers = served(root)
            found[_REFUSED if answers is None else _SAME if answers == whole else _WRONG] += 1
    return found


def _flip_theirs(name: str, stride: int) -> Counter[str]:
    """A call gets what stands beside its own request; one that is not found is asked again."""
    found: Counter[str] = Counter()
    with TemporaryDirectory(dir=SCRATCH) as folder:
        path = Path(folder) / name
        record(path, [(f"What is the capital of country {n}?", f"It is city {n}.") for n in range(4)])
        data, whole = path.read_bytes(), load(path) or {}
        for changed in _flipped(data, stride):
            path.write_bytes(changed)
            there = load(path)
            if there is None:
                found[_REFUSED] += 1
            elif any(there.get(body, answer) != answer for body, answer in whole.items()):
                found[_WRONG] += 1
            else:
                found[_SAME if there.keys() >= whole.keys() else _MISSED] += 1
    return found
