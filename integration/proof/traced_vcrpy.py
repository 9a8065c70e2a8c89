"""A program to be traced: it adds to a cassette, and says what may be found there.

``python -m integration.proof.traced_vcrpy FOLDER TIMES``
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from integration.proof.vcr_cassettes import record


def main(folder: Path, times: int) -> None:
    (folder / "store").mkdir()
    path = folder / "store/cassette.yaml"
    os.write(1, b"store committed")
    for number in range(times):
        names = [f"{n}" for n in range(number + 1)]
        os.write(1, " ".join(["store trying", *names]).encode())
        record(path, [(f"question {number}", "an answer of some length " * 40)])
        os.write(1, " ".join(["store committed", *names]).encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
