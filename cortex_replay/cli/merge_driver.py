"""``cortex-replay merge-driver``."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import NamedTuple

import click

from cortex_replay import disk
from cortex_replay.cli import output
from cortex_replay.cli.options import command
from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.hashing import blake3_hex
from cortex_replay.store.git.history import History, open_history
from cortex_replay.store.index.grid import render_index, render_shard
from cortex_replay.store.index.index import Index, ScopedRow, ShardRow, content_key
from cortex_replay.store.index.shards import SHARD_NAMES
from cortex_replay.store.merge.lost_rows import named_parts
from cortex_replay.store.merge.merge import Conflict, merge_indexes, paths_lost, render_conflicts
from cortex_replay.store.merge.shard_roots import merge_roots, render_sides
from cortex_replay.store.paths import SHARDS_FOLDER
from cortex_replay.store.trust import MAX_INDEX_BYTES, Untrusted, trust_index, trust_shard

__all__ = ["merge_driver_command"]


@command(
    "merge-driver",
    epilog="""Examples:

  cortex-replay init --driver-only     tell git, in this clone, to call it; isolated from the work tree

Exit status:
  0  merged
  1  a conflict: two answers to one key, or a file that one side removed and the other needs
  2  wrong usage
  5  one of the three is not an index, or not this shard of one
""",
)
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("ours", type=click.Path(path_type=Path))
@click.argument("theirs", type=click.Path(path_type=Path))
@click.argument("name", default="INDEX.toml")
@click.pass_context
def merge_driver_command(ctx: click.Context, base: Path, ours: Path, theirs: Path, name: str) -> None:
    """Merge three versions of INDEX.toml, as git calls it: by key, not by line.

    The result takes the place of OURS. Where the index has shards, each of them is merged so, and INDEX.toml
    lists what becomes of them.
    """
    shard = _shard_of(PurePosixPath(name))
    texts = [_read(path) for path in (base, ours, theirs)]
    with open_history(Path(name).parents[1 if shard else 0]) as history:
        merge = _merge(texts, shard, history)
    disk.write_file(ours, merge.text.encode(errors="surrogateescape"))
    for conflict in merge.conflicts:
        _show(conflict, name)
    for reason in merge.reasons:
        output.talk(output.escape(f"conflict in {name}: {reason}"))
    if merge.reasons:
        output.talk("    to take what both sides recorded, run: cortex-replay resolve")
    ctx.exit(1 if merge.conflicts or merge.reasons else 0)


class _Merge(NamedTuple):
    """What takes the place of our version, and why git must not commit it."""

    text: str
    conflicts: list[Conflict]
    reasons: list[str]


def _merge(texts: list[str], shard: str | None, history: History) -> _Merge:
    base, ours, theirs = (_parse(text, shard) for text in texts)
    tell = named_parts(history)
    if base.shards or ours.shards or theirs.shards:
        made = merge_roots(base, ours, theirs, history.find_shards, tell)
        text = made.text or render_sides(texts[1], texts[2])
        return _Merge(text, [], [*made.problems, *_explain_loss(made.lost)])
    merged, conflicts = merge_indexes(base, ours, theirs, tell)
    text = render_conflicts(merged, conflicts, render_shard if shard else render_index)
    return _Merge(text, conflicts, _explain_loss(paths_lost(merged, base, ours, theirs)))


def _explain_loss(paths: list[str]) -> list[str]:
    """Git merges files by itself, and removes these: only a conflict keeps it from committing that."""
    return [f"one side removed {path}, the other needs it" for path in paths]


def _shard_of(path: PurePosixPath) -> str | None:
    """The name of the shard that a file is, or ``None`` if it is the whole index, or its root."""
    is_shard = path.parent.name == SHARDS_FOLDER and path.suffix == ".toml" and path.stem in SHARD_NAMES
    return path.stem if is_shard else None


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(MAX_INDEX_BYTES + 1).decode(errors="surrogateescape")


def _parse(text: str, shard: str | None) -> Index:
    data = text.encode(errors="surrogateescape")
    if not data:
        return Index()  # it did not exist on that side
    try:
        return trust_shard(ShardRow(shard, blake3_hex(data)), data) if shard else trust_index(data)
    except Untrusted as error:
        raise FixtureIntegrityFailed([error.finding]) from None


def _show(conflict: Conflict, name: str) -> None:
    row = conflict.ours or conflict.theirs
    asked, prompt_hash = content_key(row)[:2] if row else (None, None)
    model, digest = output.escape(str(asked)) if row else "", (prompt_hash or "")[:16]
    of = f" of {output.escape(row.scope)}" if isinstance(row, ScopedRow) else ""
    output.talk(f"conflict in {output.escape(name)}: {model} {digest}{of} has different answers")
    for side, one in (("ours", conflict.ours), ("theirs", conflict.theirs)):
        output.talk(f"    {side}: {output.escape(one.path) if one else '(removed)'}")
    output.talk("    to keep one of them, run: cortex-replay resolve")
