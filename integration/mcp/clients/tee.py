"""Runs a server over stdio, and keeps each byte that it says: ``tee.py FILE COMMAND ...``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def main(file: str, *command: str) -> int:
    with Path(file).open("wb") as log, subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        while said := os.read(server.stdout.fileno(), 65536):
            log.write(said)
            log.flush()
            os.write(1, said)
    return server.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
