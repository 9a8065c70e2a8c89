"""The text of ``INDEX.toml``, laid out so that git merges what two branches record.

Git merges line by line: two rows that come into the same gap between unchanged lines are a conflict. So the
index is a grid of 16,384 slots, each an empty line, and a row stands in the slot that a hash of its key names
(`docs/adr/0011-an-index-that-merges.md` has the figures). The slot depends on key and scope alone: one
recording is the same text at the same place in every branch, and two answers to a question meet in one slot,
where git reports them. A comment at the head of each section keeps a differ from matching one empty line with
another far away; the one at the end keeps tools from cutting off empty lines.

A sharded index (:mod:`.shards`) is a root, with a section for each of the 256 shards that may be, and the
shards. Each of these is such a grid with 64 slots, so that there are as many of them in all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from operator import attrgetter, itemgetter
from typing import Final

import tomli_w
from blake3 import blake3

from cortex_replay.canonical import KEY_VERSION
from cortex_replay.store.index.index import (
    FORMAT_VERSION,
    ExchangeRow,
    FixtureRow,
    Index,
    PartRow,
    Row,
    Scalar,
    ScopedRow,
    ShardRow,
    row_key,
)

__all__ = ["render_index", "render_root", "render_row", "render_shard", "slot_of"]

_SECTIONS: Final = 256
_SLOTS_PER_SECTION: Final = 64
_SECTIONS_OF_SHARD: Final = 64
_HEAD: Final = """\
# Empty lines keep rows apart, so that git can merge what two branches record. Leave them in place.
# After a merge conflict in this file, run: cortex-replay resolve
"""
_END: Final = "# end\n"
_TABLES: Final[dict[type[Row], str]] = {
    FixtureRow: "fixture",
    ExchangeRow: "exchange",
    ScopedRow: "scoped",
    PartRow: "part",
}


def render_index(index: Index) -> str:
    """The text of an index in one file: header, then the grid. It is a function of the set of rows."""
    return _render(index, _SECTIONS, _SLOTS_PER_SECTION)


def render_shard(shard: Index) -> str:
    """The text of a shard, likewise. A slot of it is a section: there are many rows in each."""
    return _render(shard, _SECTIONS_OF_SHARD, 1)


def render_root(header: Mapping[str, Scalar], shards: Iterable[ShardRow]) -> str:
    """The text of an index that has shards."""
    by_name = {shard.name: shard for shard in shards}
    parts = [_head(header)]
    for number in range(_SECTIONS):
        name = f"{number:02x}"
        row = f'[[shard]]\nname = "{name}"\nblake3 = "{by_name[name].blake3}"\n' if name in by_name else ""
        parts.append(f"# {name}\n{row}\n")
    return "".join([*parts, _END])


def _head(header: Mapping[str, Scalar]) -> str:
    return f"{_HEAD}{tomli_w.dumps({'format': FORMAT_VERSION, 'key': KEY_VERSION, **header})}\n"


def _render(index: Index, section_count: int, slots_per_section: int) -> str:
    slot_count = section_count * slots_per_section
    # Rows of several scopes may name one file, and one slot: their order is that of the scopes.
    scoped = sorted(index.scoped, key=attrgetter("scope"))
    rows: list[Row] = [*index.fixtures, *index.exchanges, *index.parts, *scoped]
    # Rows are gathered first, so that texts are made in the order in which they are joined: with many rows,
    # memory that is touched out of order takes more time than the work on it.
    sections: defaultdict[int, defaultdict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=itemgetter(0)):
        section, slot = divmod(slot_of(row, slot_count), slots_per_section)
        sections[section][slot].append(row)
    texts = (_render_section(number, sections[number], slots_per_section) for number in range(section_count))
    return "".join([_head(index.header), *texts, _END])


def _render_section(number: int, slots: Mapping[int, Iterable[Row]], slot_count: int) -> str:
    parts = [f"# {number:02x}\n"]
    done = 0
    for slot, rows in sorted(slots.items()):
        parts.append("\n" * (slot - done))
        parts += map(render_row, rows)
        done = slot
    return "".join([*parts, "\n" * (slot_count - done)])


def slot_of(row: Row, slot_count: int = _SECTIONS * _SLOTS_PER_SECTION) -> int:
    """Where a row stands in a grid: a number from its key, or from its path where it has none."""
    if type(row) is FixtureRow and row[2] and row[3]:  # as nearly every row
        text = f"{row[2]}\0{row[3]}"
    else:
        key = row_key(row)
        if not any(key):
            key = (row.path,)
        text = "\0".join(value or "" for value in key)
    number = int.from_bytes(blake3(text.encode(errors="surrogatepass")).digest(2))
    return number * slot_count >> 16


def render_row(row: Row) -> str:
    """One row as a table; a whole list would be written inline where it is short."""
    # What tomli-w would write, in a tenth of the time; nearly every row is like the first of these.
    if type(row) is FixtureRow and row[2] is not None and row[3] is not None:
        path, digest, model, prompt_hash, parent = row
        if _is_plain(f"{path}{digest}{model}{prompt_hash}{parent}"):
            text = (
                f'[[fixture]]\npath = "{path}"\nblake3 = "{digest}"\n'
                f'model = "{model}"\nprompt_hash = "{prompt_hash}"\n'
            )
            return text if parent is None else f'{text}continues = "{parent}"\n'
    table = _TABLES[type(row)]
    if _is_plain("".join(value for value in row if value)):
        lines = [
            f'{name} = "{value}"\n' for name, value in zip(row._fields, row, strict=True) if value is not None
        ]
        return f"[[{table}]]\n{''.join(lines)}"
    present = {name: value for name, value in row._asdict().items() if value is not None}
    return f"[[{table}]]\n{tomli_w.dumps(present)}"


def _is_plain(text: str) -> bool:
    """Whether a text stands between quotes as it is."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
