"""``python -m tests.mutants``: plants every bug of the list, and runs the tests of its part."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final, NoReturn

from benchmarks import machine
from tests.mutants import catalogue, report
from tests.mutants.catalogue import Mutant
from tests.mutants.kept import Kept
from tests.mutants.trials import LIMIT, Trial, try_all
from tests.sampling import seed

_FILE: Final = "write what happens to FILE, and leave out what it has of this commit already"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Plants bugs in copies of this tree, one at a time, and sees that a test fails.",
        epilog="Example: python -m tests.mutants --part store --json mutants.json",
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these bugs")
    parser.add_argument("--part", action="append", default=[], help="only bugs of this file of the list")
    parser.add_argument("--sample", type=int, metavar="N", help="N of them, chosen by the seed")
    parser.add_argument("--seed", help="what the sample depends on (default: that of the tests, the commit)")
    parser.add_argument("--list", action="store_true", help="list them, and plant nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help=_FILE)
    parser.add_argument("--workers", type=int, default=2, help="how many are tried at a time (default: 2)")
    seconds = f"seconds for each list of tests (default: {LIMIT:.0f})"
    parser.add_argument("--limit", type=float, default=LIMIT, help=seconds)
    return parser


def _chosen(options: argparse.Namespace, parser: argparse.ArgumentParser) -> list[Mutant]:
    try:
        mutants = catalogue.load()
    except catalogue.NoMutant as error:
        parser.error(str(error))
    for kind, asked, known in (
        ("bug", options.only, {mutant.name for mutant in mutants}),
        ("part", options.part, {mutant.part for mutant in mutants}),
    ):
        if unknown := sorted(set(asked) - known):
            parser.error(f"there is no {kind} called {', '.join(unknown)}; --list shows them")
    names, parts = options.only, options.part
    mutants = [one for one in mutants if not names or one.name in names]
    mutants = [one for one in mutants if not parts or one.part in parts]
    if options.sample is None:
        return mutants
    return catalogue.sample(mutants, options.sample, options.seed or seed())


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 says that a bug was not seen, or that the list is wrong; 2 that it cannot be read."""
    parser = _parser()
    options = parser.parse_args(arguments)
    mutants = _chosen(options, parser)
    if options.list:
        for mutant in mutants:
            print(f"{mutant.part:<10} {mutant.name:<50} {mutant.bug}")
        return 0
    if wrong := catalogue.problems(mutants):
        print("\n".join(wrong), file=sys.stderr)
        return 1
    kept = None if options.json is None else Kept(options.json, machine.commit(), mutants)
    earlier = [] if kept is None else list(kept.trials)
    numbers = count(len(earlier) + 1)
    if earlier:
        print(f"{len(earlier)} of {len(mutants)} are in {options.json}", flush=True)

    def tell(trial: Trial) -> None:
        print(f"{next(numbers):>4}/{len(mutants)} {report.line(trial)}", flush=True)
        if kept is not None:
            kept.add(trial)

    done = {trial.mutant.name for trial in earlier}
    trials = try_all(
        [mutant for mutant in mutants if mutant.name not in done],
        options.workers,
        limit=options.limit,
        is_sure=True,
        tell=tell,
        earlier=earlier,
    )
    if kept is not None:
        kept.write(trials)
    print(report.summary(trials))
    reasons = report.faults(trials)
    for reason in reasons:
        print(f"FAIL {reason}", file=sys.stderr)
    return 1 if reasons else 0


def _stop(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped; nothing was changed in this tree", file=sys.stderr)
        sys.exit(130)
