"""``cortex-replay export``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.cli.progress import progress_bar
from cortex_replay.store import Store
from cortex_replay.store.export import export_crtx

__all__ = ["export_command"]


@command(
    "export",
    epilog="""Examples:

  cortex-replay export --crtx build/crtx-fixtures
  cortex-replay export --crtx build/crtx-fixtures --json | jq '.left_out'

Exit status:
  0  written
  1  the folder is not empty, or it could not be written
  2  wrong usage
  5  the store is not what its index says; nothing was written
""",
)
@store_option
@click.option(
    "--crtx",
    "target",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write a flat store for the Rust crate crtx-llm into this new or empty folder.",
)
@json_option
@click.pass_context
def export_command(ctx: click.Context, store: Path | None, target: Path, as_json: bool) -> None:
    """Write a copy of the store for another program.

    Says what that program will not see of it, and why; with --json by kind.
    """
    with progress_bar("reading") as progress:
        opened = Store.open(store_root(ctx, store), progress=progress)
    exported = export_crtx(opened, target)
    if as_json:
        output.print_json({"folder": str(target), **asdict(exported)})
        return
    output.talk(f"wrote {output.count(exported.fixtures, 'fixture')} to {output.escape(str(target))}")
    if exported.left_out:
        output.talk("crtx-llm will not see:")
    for omission in exported.left_out:
        output.talk(f"  {omission.what}: {omission.count} ({omission.why})")
