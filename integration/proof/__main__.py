"""Run proofs, and write ``docs/proof.json`` and ``docs/proof.md``."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence

import pytest

from benchmarks import machine
from integration.proof.catalogue import PROOFS
from integration.proof.figures import FILE, NothingKept, Proof, Proven, Scale, figures_in, read, rendered
from integration.proof.page import page
from integration.proof.prose import PROSE, restated


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m integration.proof",
        description="Kills, power losses, flipped bits and more, on this program and on others.",
        epilog="Example: python -m integration.proof --only kills --short",
    )
    names = [proof.name for proof in PROOFS]
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="NAME", help=f"some of {', '.join(names)}"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--short", action="store_const", dest="scale", const=Scale.SHORT, help="fewer cases")
    size.add_argument("--long", action="store_const", dest="scale", const=Scale.LONG, help="more cases")
    parser.add_argument("--print", action="store_true", help="print the page, and write nothing")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 says that a proof could not be run, and that its figures are as they were."""
    options = _parser().parse_args(arguments)
    scale = options.scale or Scale.USUAL
    failed = []
    for proof in PROOFS:
        if options.only and proof.name not in options.only:
            continue
        try:
            proven = _prove(proof, scale)
        except NothingKept as error:  # who runs everything need not have run that
            failed += [proof.name] if options.only else []
            sys.stderr.write(f"\n{proof.name}: left out: {error}\n")
            continue
        except (Exception, pytest.skip.Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the others can still be run
            failed.append(proof.name)
            sys.stderr.write(f"\n{proof.name}: not run: {type(error).__name__}: {error}\n")
            continue
        if options.print:
            sys.stdout.write(page({proof.name: proven}, PROOFS))
        else:  # after each of them: who stops a run keeps what it has found
            _publish(read() | {proof.name: proven})
    return 1 if failed else 0


def _publish(proofs: Mapping[str, Proven]) -> None:
    """Write the file, the page that is made of it, and what prose quotes of it."""
    proofs = {one.name: proofs[one.name] for one in PROOFS if one.name in proofs}
    FILE.write_text(rendered(proofs), "utf-8")
    FILE.with_suffix(".md").write_text(page(proofs, PROOFS), "utf-8")
    for path in PROSE:
        text = path.read_text("utf-8")
        if (now := restated(text, figures_in(proofs))) != text:
            path.write_text(now, "utf-8")


def _prove(proof: Proof, scale: Scale) -> Proven:
    start = time.monotonic()
    is_seen = sys.stderr.isatty()
    last = -1

    def tell(done: int, total: int) -> None:
        nonlocal last
        percent = 100 * done // max(total, 1)
        if percent != last and (is_seen or percent % 25 == 0):
            last = percent
            line = f"{proof.name:<12} {percent:>3} %  {done:,} of {total:,} {proof.case}   "
            sys.stderr.write(f"\r{line}" if is_seen else f"{line.rstrip()}\n")
            sys.stderr.flush()

    rows = proof.run(scale, tell)
    seconds = round(time.monotonic() - start)
    sys.stderr.write(f"\r{proof.name:<12} done in {seconds} s{' ' * 40}\n")
    option = scale.pick(" --short", "", " --long")
    return Proven(
        machine.today(),
        machine.commit(),
        f"{machine.kind()}, {platform.system()} {platform.release().partition('-')[0]}",
        proof.seed,
        seconds,
        f"python -m integration.proof --only {proof.name}{option}",
        tuple(rows),
    )


if __name__ == "__main__":
    os.environ.pop("CORTEX_REPLAY_TORTURE", None)
    sys.exit(main())
