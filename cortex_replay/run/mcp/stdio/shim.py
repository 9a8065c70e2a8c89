"""What stands in a configuration in the place of a server's own command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["shim_command"]

_PROGRAM = Path(__file__).parents[3] / "__main__.py"


def shim_command(server: str, command: Sequence[str], scope: str = "") -> list[str]:
    """The words that start the shim: within a run, the run serves its client.

    They need nothing of a client's environment, neither ``PATH`` nor ``PYTHONPATH``.

    Args:
        server: The name of the server.
        command: What starts the server itself.
        scope: The name of the scope whose calls these are.
    """
    named = ["--scope", scope] if scope else []
    return [sys.executable, "-I", str(_PROGRAM), "mcp", *named, server, "--", *command]
