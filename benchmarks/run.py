"""Speed, as CPU time and as ratios against peers measured in the same run. Run by ``make bench``.

A table of goals and whether they are met goes to stdout, and after it what became slower than the last
published figures of the same kind of machine; talk goes to stderr. It always ends well: a machine can have a
bad day, so a time informs and never fails a build.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection
from pathlib import Path

from benchmarks import (
    adapter_call,
    bound_values,
    cache_report,
    cache_simulation,
    conversation,
    gateway,
    import_cassettes,
    machine,
    mcp_calls,
    miss,
    plugin,
    prompt_hash,
    record_batch,
    record_sequence,
    record_stream,
    redaction,
    remote_objects,
    replay_call,
    start,
    store_check,
    store_commit,
    store_index,
    store_open,
    store_write,
    viewer,
)
from benchmarks.data import work_folder
from benchmarks.measure import say
from benchmarks.page import page
from benchmarks.published import MUCH_SLOWER, Benches, Measured, merged, read, rendered, slower_rows
from benchmarks.table import Row, as_text

Run = Callable[[Path, Collection[str]], list[Row]]

GROUPS: dict[tuple[str, ...], Run] = {
    ("bytes", "full"): store_check.run,  # together, to be measured against one and the same peer
    ("open",): store_open.run,
    ("complete",): replay_call.run,
    ("hash",): prompt_hash.run,
    ("write",): store_write.run,
    ("commit",): store_commit.run,
    ("index",): store_index.run,
    ("conversation",): conversation.run,
    ("live", "chunk"): adapter_call.run,
    ("record",): record_batch.run,
    ("sequence",): record_sequence.run,
    ("import",): import_cassettes.run,
    ("tape",): record_stream.run,
    ("secrets",): redaction.run,
    ("gateway",): gateway.run,
    ("bound",): bound_values.run,
    ("plugin",): plugin.run,
    ("start",): start.run,
    ("miss",): miss.run,
    ("mcp",): mcp_calls.run,
    ("viewer",): viewer.run,
    ("cache-report",): cache_report.run,
    ("cache",): cache_simulation.run,
    ("remote",): remote_objects.run,
}
NAMES = [name for names in GROUPS for name in names]


_DOCS = Path(__file__).resolve().parent.parent / "docs"
FIGURES, PAGE = _DOCS / "benchmarks.json", _DOCS / "benchmarks.md"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure speed against peers, in CPU time.")
    parser.add_argument("bench", nargs="*", help=f"which to run: {', '.join(NAMES)}; all if none is named")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as well")
    parser.add_argument(
        "--publish", action="store_true", help="put the figures of this run into docs/benchmarks.*"
    )
    parser.add_argument("--page", action="store_true", help="measure nothing: write docs/benchmarks.md anew")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.bench if name not in NAMES]:
        parser.error(f"there is no bench {', '.join(unknown)}; there are {', '.join(NAMES)}")
    published = read(FIGURES)
    if not options.page:
        kind = machine.kind()
        measured = _measure(set(options.bench or NAMES))
        _show(kind, measured)
        _compare(published.get(kind), measured)
        if options.json:
            options.json.write_text(rendered({kind: measured}), encoding="utf-8")
        published = merged(published, kind, measured, NAMES)
    if options.publish:
        FIGURES.write_text(rendered(published), encoding="utf-8")
    if options.publish or options.page:
        PAGE.write_text(page(read(FIGURES)), encoding="utf-8")
    return 0


def _measure(wanted: set[str]) -> Benches:
    measured: Benches = {}
    versions, commit = machine.versions(), machine.commit()
    for names, run in GROUPS.items():
        if wanted.isdisjoint(names):
            continue
        load, speed = machine.load(), machine.calibration()
        with work_folder() as folder:
            rows = run(folder, wanted)
        speed = min(speed, machine.calibration())
        for name in names:
            if found := tuple(row for row in rows if row.bench == name):
                measured[name] = Measured(machine.today(), commit, load, speed, versions, found)
    return measured


def _show(kind: str, measured: Benches) -> None:
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions().items())
    print(f"{kind} ({versions}), load {machine.load():g}, commit {machine.commit()}")
    print("CPU time unless it says otherwise, the smallest of several runs")
    print("a ratio is ours / peer, faster is peer / ours\n")
    print(as_text([row for bench in measured.values() for row in bench.rows]))


def _compare(published: Benches | None, measured: Benches) -> None:
    """Say, after the table, what became slower."""
    if published is None:
        say("nothing is published for this kind of machine, so there is nothing to compare with")
        return
    slower = list(slower_rows(published, measured))
    more = f"more than {MUCH_SLOWER - 1:.0%}"
    if not slower:
        print(f"\nNothing became slower by {more} than docs/benchmarks.json says.")
        return
    print(f"\nSLOWER than docs/benchmarks.json says, by {more}:")
    for row in slower:
        print(f"  {row}")


if __name__ == "__main__":
    sys.exit(main())
