"""``python -m integration.suites``: run the suites, and write what came of it."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from cortex_replay.disk import scratch_folder
from integration.install import BENCH
from integration.suites.catalogue import SUITES
from integration.suites.comparison import Comparison, compare
from integration.suites.environments import ROOT
from integration.suites.runs import run_suite
from integration.suites.sources import MissingSource
from integration.suites.table import update

RESULTS: Final = BENCH / "suites" / "results"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make suites",
        description="Run public suites with vcrpy and moved over, and put the table into docs/migrating.md.",
        epilog="Example: python -m integration.suites llm-anthropic --repeats 3",
    )
    names = [suite.name for suite in SUITES]
    parser.add_argument("names", nargs="*", metavar="SUITE", help=f"Of: {', '.join(names)}.  [default: all]")
    parser.add_argument("--repeats", type=int, default=1, help="Runs to measure CPU time; the least counts.")
    parser.add_argument("--work", type=Path, help="Where the suites run, to look at them after.")
    given = parser.parse_args()
    if unknown := set(given.names) - set(names):
        parser.error(f"there is no suite {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    has_all = True
    for suite in SUITES:
        if given.names and suite.name not in given.names:
            continue
        try:
            with _work_folder(given.work) as place:
                run = run_suite(suite, place, repeats=given.repeats)
        except MissingSource as error:
            sys.stderr.write(f"{error}\n")
            has_all = False
            continue
        comparison = compare(run)
        document = comparison.to_json() | {"import": run.imported}
        _result(suite.name).write_text(json.dumps(document, indent=1), "utf-8")
        sys.stdout.write(_line(comparison))
        sys.stdout.flush()
    known = [_read(name) for name in names if _result(name).exists()]
    update(ROOT / "docs" / "migrating.md", known)
    return 0 if has_all else 1


def _work_folder(given: Path | None) -> AbstractContextManager[Path]:
    return scratch_folder() if given is None else nullcontext(given)


def _result(name: str) -> Path:
    return RESULTS / f"{name}.json"


def _read(name: str) -> Comparison:
    document = json.loads(_result(name).read_text("utf-8"))
    del document["import"]
    return Comparison.from_json(document)


def _line(one: Comparison) -> str:
    counts = f"{one.with_vcrpy} with vcrpy, {one.moved} moved over"
    reasons = f"{one.other_questions} ask another question, {len(one.unexplained)} differ otherwise"
    return f"{one.suite}: {counts}; {reasons}; CPU {one.cpu_vcrpy_s:.1f} s and {one.cpu_moved_s:.1f} s\n"


if __name__ == "__main__":
    sys.exit(main())
