"""The test suite, again and again beside a load: whether it always passes.

``python -m integration.proof.flakiness --times 20 --load 8`` runs it and keeps a line for each run, also over
hours and in several goes; ``python -m integration.proof --only flakiness`` publishes what is there.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import machine
from integration.proof.figures import KEPT, NothingKept, Row, Scale, Tell

__all__ = ["prove"]

_ROOT: Final = Path(__file__).resolve().parents[2]
_LOG: Final = KEPT / "flakiness.jsonl"
_SPIN: Final = "while True: pass"


def prove(_: Scale, tell: Tell) -> list[Row]:
    if not _LOG.exists():
        raise NothingKept("no run is kept yet: python -m integration.proof.flakiness --times 20 --load 8")
    runs: dict[int, list[dict[str, Any]]] = {}
    for line in _LOG.read_text().splitlines():
        run = json.loads(line)
        runs.setdefault(run["load"], []).append(run)
    tell(1, 1)
    return [
        Row(
            f"load-{load}",
            "cortex-replay",
            f"`make test` beside a load of {load}",
            len(found),
            {
                "runs that failed": sum(run["status"] != 0 for run in found),
                "tests in each": max(run["passed"] for run in found),
                "minutes at most": round(max(run["seconds"] for run in found) / 60, 1),
            },
            [f"Beside a load of {load}: {_commits(found)}."],
        )
        for load, found in sorted(runs.items())
    ]


def _commits(runs: Sequence[dict[str, Any]]) -> str:
    counts = Counter(run["commit"] for run in runs)
    return ", ".join(f"{count} at commit {commit}" for commit, count in counts.items())


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 says that a run failed; its output is kept beside the log."""
    parser = argparse.ArgumentParser(prog="python -m integration.proof.flakiness", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how often (default: 20)")
    parser.add_argument("--load", type=int, default=8, help="processes that only spin (default: 8)")
    options = parser.parse_args(arguments)
    _LOG.parent.mkdir(exist_ok=True)
    has_failed = False
    for number in range(options.times):
        load = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(options.load)]
        start = time.monotonic()
        try:
            done = subprocess.run(["make", "test"], cwd=_ROOT, capture_output=True, text=True, check=False)
        finally:
            for process in load:
                process.kill()
                process.wait()
        seconds = round(time.monotonic() - start)
        passed = re.findall(r"(\d+) passed", done.stdout)
        run = {
            "date": machine.today(),
            "commit": machine.commit(),
            "load": options.load,
            "status": done.returncode,
            "passed": sum(map(int, passed)),
            "seconds": seconds,
        }
        with _LOG.open("a") as log:
            log.write(json.dumps(run) + "\n")
        sys.stderr.write(f"{number + 1} of {options.times}: status {done.returncode} in {seconds} s\n")
        if done.returncode:
            has_failed = True
            (_LOG.parent / f"failed-{time.time_ns()}.log").write_text(done.stdout + done.stderr)
    return 1 if has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
