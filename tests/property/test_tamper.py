"""Mutations of whole stores: refused, or nothing that is served changes."""

from __future__ import annotations

import random
from pathlib import Path

from cortex_replay import LlmError, Store
from tests.sample_store import sample_files
from tests.sampling import IS_TORTURE


def served(root: Path) -> object:
    store = Store.open(root)
    return [store.get(item.model, item.prompt_hash) for item in store.list()]


def test_random_damage_to_files_and_names(tmp_path: Path) -> None:
    """Swap, truncate, extend, rename, copy, delete, splice: always our error, never another answer."""
    files = sample_files()
    for path, data in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    whole = served(tmp_path)
    rng = random.Random(0 if not IS_TORTURE else None)
    refused, rounds = 0, 100_000 if IS_TORTURE else 200
    for _ in range(rounds):
        one, other = (tmp_path / name for name in rng.sample(sorted(files), 2))
        data = one.read_bytes()
        cut = rng.randrange(len(data))
        extra: Path | None = None
        match rng.randrange(7):
            case 0:
                one.write_bytes(data[:cut])
            case 1:
                one.write_bytes(data + rng.randbytes(rng.randint(1, 9)))
            case 2:
                one.write_bytes(other.read_bytes())
            case 3:
                one.write_bytes(data[:cut] + other.read_bytes()[cut:])
            case 4:
                extra = one.with_name(f"{cut}.json")
                extra.write_bytes(data)
            case 5:
                one.unlink()
            case _:
                one.write_bytes(data[:cut] + rng.randbytes(3) + data[cut + 3 :])
        try:
            assert whole == served(tmp_path)
        except LlmError:
            refused += 1
        one.write_bytes(data)
        if (extra and extra.parent != tmp_path) or extra:
            extra.unlink()

    assert refused > 0.7 * rounds
    assert whole == served(tmp_path)
