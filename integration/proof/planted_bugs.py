"""Bugs that are planted in the code, one at a time: whether a test of their part fails."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from integration.proof.figures import Row, Scale, Tell

__all__ = ["prove"]

_ROOT: Final = Path(__file__).resolve().parents[2]
_SEED: Final = 24


def prove(scale: Scale, tell: Tell) -> list[Row]:
    sample: list[str] = scale.pick(["--sample", "3"], ["--sample", "20"], [])
    with TemporaryDirectory() as folder:
        found = Path(folder) / "mutants.json"
        command = [sys.executable, "-m", "tests.mutants", *sample, "--seed", str(_SEED), "--json", str(found)]
        with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout or ():
                number, _, total = line.split(" ok ")[0].split(" FAIL ")[0].strip().partition("/")
                if number.isdigit() and total.isdigit():
                    tell(int(number), int(total))
        verdicts = Counter(mutant["verdict"] for mutant in json.loads(found.read_text())["trials"])
    caught = verdicts["caught"]
    what = "a sample of the list" if sample else "all that are in the list"
    return [
        Row(
            "ours",
            "cortex-replay",
            what,
            verdicts.total(),
            {"caught": caught, "not caught": verdicts.total() - caught},
        )
    ]
