"""Bugs that are planted in the code, one at a time: whether a test of their part fails.

``python -m tests.mutants --json .proof/mutants.json`` tries them all, also in several goes;
``python -m integration.proof --only mutants`` publishes what is there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from integration.proof.figures import KEPT, NothingKept, Row, Scale, Tell
from tests.mutants.catalogue import load

__all__ = ["prove"]

_ROOT: Final = Path(__file__).resolve().parents[2]
_FILE: Final = KEPT / "mutants.json"
_SAMPLE: Final = ("--sample", "3", "--seed", "24")


def prove(scale: Scale, tell: Tell) -> list[Row]:
    """A sample of them, what a run has kept, or that run.

    Raises:
        NothingKept: No run has kept anything, or it was stopped before its end.
    """
    if scale is Scale.SHORT:
        with TemporaryDirectory() as folder:
            found = Path(folder) / "mutants.json"
            _run([*_SAMPLE, "--json", str(found)], tell)
            return [_row(json.loads(found.read_text()), "a sample of the list")]
    if scale is Scale.LONG:
        KEPT.mkdir(exist_ok=True)
        _run(["--json", str(_FILE)], tell)
    command = f"python -m tests.mutants --json {_FILE.relative_to(_ROOT)}"
    if not _FILE.exists():
        raise NothingKept(f"no run is kept yet: {command}")
    document = json.loads(_FILE.read_text())
    if not all(trial["is_checked"] for trial in document["trials"]):
        raise NothingKept(f"the run was stopped; let it go on: {command}")
    tell(1, 1)
    tried = f"{len(document['trials'])} of {len(load())} in the list"
    return [_row(document, f"{tried}, at commit {document['commit']}")]


def _run(options: list[str], tell: Tell) -> None:
    command = [sys.executable, "-m", "tests.mutants", *options]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            number, _, total = line.split(" ok ")[0].split(" FAIL ")[0].strip().partition("/")
            if number.isdigit() and total.isdigit():
                tell(int(number), int(total))


def _row(document: dict[str, Any], what: str) -> Row:
    verdicts = Counter(trial["verdict"] for trial in document["trials"])
    caught = verdicts["caught"]
    total = verdicts.total()
    results = {"caught": caught, "not caught": total - caught}
    return Row("ours", "cortex-replay", what, total, results, list(_survivors(document["trials"])))


def _survivors(trials: list[dict[str, Any]]) -> Iterator[str]:
    for trial in trials:
        if trial["verdict"] != "caught":
            why = trial["survives"] or f"no reason is known ({trial['verdict']})."
            yield f"Not caught: `{trial['name']}`: {trial['bug']} {why}"
