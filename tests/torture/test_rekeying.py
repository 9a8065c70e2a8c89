"""Other keys for a store while others record into it: nothing is lost, and nothing sound is called broken."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.sampling import IS_TORTURE
from tests.torture.plans import SCRATCH
from tests.torture.rekeying import race

RACES: Final = 200 if IS_TORTURE else 3


def test_rekey_beside_recorders_loses_nothing() -> None:
    """Where an answer came to the old key after its others had moved, both are kept, and that is told."""
    outcomes: Counter[str] = Counter()
    with TemporaryDirectory(dir=SCRATCH) as folder:
        for seed in range(RACES):
            found = race(Path(folder) / f"{seed}", seed)
            assert found.lost == []
            outcomes += found.outcomes
    assert outcomes.keys() <= {"done", "colliding"}
    assert outcomes["done"] > 0
