"""Where the program starts. Most of it is loaded for what needs it; ``mcp`` within a run needs nothing."""

import gc
import sys

__all__ = ["main"]

_NEW_VALUES = 50_000
"""After how many new values Python looks for garbage. What is loaded is none, and looking at it
again and again takes a tenth of the time that a gateway needs to start."""


def main() -> int:
    """Run the program; gives the status to exit with, unless click exits by itself."""
    if "mcp" in sys.argv[1:5]:
        status = _serve_from_run()
        if status is not None:
            return status
    gc.set_threshold(_NEW_VALUES)
    from cortex_replay.cli.main import main as run  # noqa: PLC0415 - it is large

    run(prog_name="cortex-replay")
    return 0


def _serve_from_run() -> "int | None":
    """Let the run that this process is a part of serve an MCP client; ``None`` if there is none."""
    from cortex_replay import shim  # noqa: PLC0415 - for this alone

    asked = shim.read_arguments(sys.argv[1:])
    if asked is None:
        return None
    try:
        return shim.serve(asked)
    except OSError as error:
        from cortex_replay.cli import output  # noqa: PLC0415 - it is large, and rarely needed

        output.talk(f"error: {output.escape(str(error))}")
        return 1
