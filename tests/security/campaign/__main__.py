"""Prints the table of the campaign: write path by class, planted, cut out, refused, leaked."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.security.campaign.clean_run import false_hits
from tests.security.campaign.groups import CLEAN, GROUPS, judge_group
from tests.security.campaign.tally import complaints, markdown


def main() -> int:
    outcomes = []
    for name in sys.argv[1:] or GROUPS:
        with tempfile.TemporaryDirectory() as folder:
            outcomes.append(judge_group(name, Path(folder)))
        sys.stderr.write(f"{name}: {len(outcomes[-1].planted)} planted, {len(outcomes[-1].leaks)} leaks\n")
    wrong = complaints(outcomes)
    sys.stdout.write(markdown(outcomes) + "\n")
    if not sys.argv[1:]:
        sys.stdout.write(f"\nFalse hits: {len(false_hits(CLEAN))} of {CLEAN:,} clean texts.\n")
    sys.stderr.write("".join(f"{line}\n" for line in wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
