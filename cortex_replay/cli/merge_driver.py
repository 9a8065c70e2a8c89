"""``cortex-replay merge-driver``."""

from __future__ import annotations

from pathlib import Path

import click

from cortex_replay import disk
from cortex_replay.cli import output
from cortex_replay.cli.options import command
from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.store.grid import render_index
from cortex_replay.store.index import Index, ScopedRow
from cortex_replay.store.merge import Conflict, merge_indexes, render_conflicts
from cortex_replay.store.trust import MAX_INDEX_BYTES, Untrusted, trust_index

__all__ = ["merge_driver_command"]


@command(
    "merge-driver",
    epilog="""Examples:

  cortex-replay init --driver-only     tell git, in this clone, to call it; isolated from the work tree

Exit status:
  0  merged
  1  a key has different answers on the two sides: both are shown, and git reports a conflict
  2  wrong usage
  5  one of the three is not an index
""",
)
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("ours", type=click.Path(path_type=Path))
@click.argument("theirs", type=click.Path(path_type=Path))
@click.argument("name", default="INDEX.toml")
@click.pass_context
def merge_driver_command(ctx: click.Context, base: Path, ours: Path, theirs: Path, name: str) -> None:
    """Merge three versions of INDEX.toml, as git calls it: by key, not by line.

    The result takes the place of OURS.
    """
    indexes = [_read(path) for path in (base, ours, theirs)]
    merged, conflicts = merge_indexes(*indexes)
    text = render_conflicts(merged, conflicts) if conflicts else render_index(merged)
    disk.write_file(ours, text.encode())
    for conflict in conflicts:
        _show(conflict, name)
    ctx.exit(1 if conflicts else 0)


def _read(path: Path) -> Index:
    with path.open("rb") as file:
        data = file.read(MAX_INDEX_BYTES + 1)
    if not data:
        return Index()  # the index did not exist on that side
    try:
        return trust_index(data)
    except Untrusted as error:
        raise FixtureIntegrityFailed([error.finding]) from None


def _show(conflict: Conflict, name: str) -> None:
    row = conflict.ours or conflict.theirs
    model = output.escape(str(row.model)) if row else ""
    digest = (row.prompt_hash or "")[:16] if row else ""
    of = f" of {output.escape(row.scope)}" if isinstance(row, ScopedRow) else ""
    output.talk(f"conflict in {output.escape(name)}: {model} {digest}{of} has different answers")
    for side, one in (("ours", conflict.ours), ("theirs", conflict.theirs)):
        output.talk(f"    {side}: {output.escape(one.path) if one else '(removed)'}")
    output.talk("    to keep one of them, run: cortex-replay resolve")
