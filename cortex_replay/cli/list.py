"""``cortex-replay list``."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.store import Store

__all__ = ["list_command"]

_HASH_SHOWN = 16


@command(
    "list",
    epilog="""Examples:

  cortex-replay list
  cortex-replay list --model 'claude-*'
  cortex-replay list --json | jq -r '.[].path'

Exit status:
  0  the fixtures are listed, possibly none
  1  the store could not be opened
  2  wrong usage
  5  the store is not what its index says
""",
)
@store_option
@click.option("--model", metavar="PATTERN", help="Only models that match this pattern ('*' and '?').")
@json_option
@click.pass_context
def list_command(ctx: click.Context, store: Path | None, model: str | None, as_json: bool) -> None:
    """List the recordings: model, question, prompt hash."""
    with progress_bar("reading") as progress:
        opened = Store.open(store_root(ctx, store), verify="on-read", progress=progress)
    found = [stored for stored in opened.list() if model is None or fnmatchcase(stored.model, model)]
    if as_json:
        output.print_json([stored._asdict() for stored in found])
        return
    width = max((len(output.escape(stored.model)) for stored in found), default=0)
    output.echo_lines(
        f"{output.escape(stored.model).ljust(width)}  {stored.prompt_hash[:_HASH_SHOWN]}  "
        f"{output.escape(stored.path)}"
        for stored in found
    )
