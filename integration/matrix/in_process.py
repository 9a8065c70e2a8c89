"""Run a program with its model calls intercepted: ``in_process.py STORE MODE PROGRAM ARGUMENTS``.

The last line that it prints is the ledger.
"""

from __future__ import annotations

import json
import runpy
import sys
import traceback

from cortex_replay.interception import intercept


def main() -> int:
    store, mode, program, *arguments = sys.argv[1:]
    sys.argv = [program, *arguments]
    sys.path.insert(0, program.rpartition("/")[0])
    status = 0
    interception = None
    try:
        with intercept(store, mode) as interception:  # type: ignore[arg-type]
            runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
        sys.stdout.write("" if isinstance(end.code, int) else f"{end.code}\n")
    except Exception:  # noqa: BLE001 - whatever it is, it is the client's
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    if interception is not None:
        run = interception.engine.run
        sys.stdout.write(json.dumps(run.ledger.to_dict(run.store)) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
