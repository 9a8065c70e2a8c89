"""``python -m integration.suites``: run the suites, and write what came of it."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from integration.install import BENCH
from integration.suites.catalogue import SUITES
from integration.suites.comparison import differences
from integration.suites.runs import run_suite
from integration.suites.sources import MissingSource


def main() -> int:
    parser = argparse.ArgumentParser(prog="make suites", description=__doc__)
    parser.add_argument("names", nargs="*", help="Which suites; all without one.")
    parser.add_argument("--repeats", type=int, default=1, help="Runs to measure CPU time; the least counts.")
    given = parser.parse_args()
    results = BENCH / "suites" / "results"
    results.mkdir(parents=True, exist_ok=True)
    for suite in SUITES:
        if given.names and suite.name not in given.names:
            continue
        try:
            run = run_suite(suite, repeats=given.repeats)
        except MissingSource as error:
            print(error, file=sys.stderr)
            continue
        found = differences(run)
        (results / f"{suite.name}.json").write_text(
            json.dumps(
                {
                    "suite": suite.name,
                    "with_vcrpy": len(run.with_vcrpy.passed()),
                    "moved": len(run.with_vcrpy.passed() & run.moved.passed()),
                    "cpu_s": {"vcrpy": run.with_vcrpy.cpu_s, "moved": run.moved.cpu_s},
                    "differences": [asdict(difference) for difference in found],
                    "import": run.imported,
                },
                indent=1,
            )
        )
        both = len(run.with_vcrpy.passed() & run.moved.passed())
        print(f"{suite.name}: {len(run.with_vcrpy.passed())} with vcrpy, {both} moved; "
              f"CPU {run.with_vcrpy.cpu_s:.1f} s, {run.moved.cpu_s:.1f} s")
    return 0


sys.exit(main())
