"""Speed, as CPU time and as ratios against peers measured in the same run. Run by ``make bench``.

A table of goals and whether they are met goes to stdout, talk to stderr. It always ends well:
a machine can have a bad day, so a time informs and never fails a build.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Collection
from importlib.metadata import version
from pathlib import Path

from benchmarks import (
    adapter_call,
    bound_values,
    cache_report,
    cache_simulation,
    conversation,
    gateway,
    mcp_calls,
    miss,
    plugin,
    prompt_hash,
    record_batch,
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
)
from benchmarks.data import work_folder
from benchmarks.table import Row, as_json, as_text

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
    ("tape",): record_stream.run,
    ("secrets",): redaction.run,
    ("gateway",): gateway.run,
    ("bound",): bound_values.run,
    ("plugin",): plugin.run,
    ("start",): start.run,
    ("miss",): miss.run,
    ("mcp",): mcp_calls.run,
    ("cache-report",): cache_report.run,
    ("cache",): cache_simulation.run,
    ("remote",): remote_objects.run,
}
NAMES = [name for names in GROUPS for name in names]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure speed against peers, in CPU time.")
    parser.add_argument("bench", nargs="*", help=f"which to run: {', '.join(NAMES)}; all if none is named")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as well")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.bench if name not in NAMES]:
        parser.error(f"there is no bench {', '.join(unknown)}; there are {', '.join(NAMES)}")
    wanted = set(options.bench or NAMES)

    rows: list[Row] = []
    for names, run in GROUPS.items():
        if not wanted.isdisjoint(names):
            with work_folder() as folder:
                rows += run(folder, wanted)

    about = _surroundings()
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    print("CPU time unless it says otherwise, the smallest of several runs")
    print("a ratio is ours / peer, faster is peer / ours\n")
    print(as_text(rows))
    if options.json:
        document = {"surroundings": about, "rows": [as_json(row) for row in rows]}
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


def _surroundings() -> dict[str, str]:
    """What a figure depends on, so that two tables can be compared."""
    return {
        "Python": platform.python_version(),
        **{name: version(name) for name in ("blake3", "orjson", "httpx", "vcrpy")},
        "machine": platform.machine(),
        "cores": str(os.cpu_count()),
    }


if __name__ == "__main__":
    sys.exit(main())
