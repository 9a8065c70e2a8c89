"""The text of ``INDEX.toml``, laid out so that git merges what two branches record.

Git merges line by line: two rows that come into the same gap between unchanged lines are a conflict. So the
index is a grid of 16,384 slots, each an empty line, and a row stands in the slot that a hash of its key names
(`docs/adr/0011-an-index-that-merges.md` has the figures). The slot depends on key and scope alone: one
recording is the same text at the same place in every branch, and two answers to a question meet in one slot,
where git reports them. A comment at the head of each section keeps a differ from matching one empty line with
another far away; the one at the end keeps tools from cutting off empty lines.
"""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter, itemgetter
from typing import Final

import tomli_w
from blake3 import blake3

from cortex_replay.canonical import KEY_VERSION
from cortex_replay.store.index import FORMAT_VERSION, ExchangeRow, FixtureRow, Index, Row, ScopedRow

__all__ = ["render_index", "render_row", "slot_of"]

_SECTIONS: Final = 256
_SLOTS_PER_SECTION: Final = 64
_HEAD: Final = """\
# Empty lines keep rows apart, so that git can merge what two branches record. Leave them in place.
# After a merge conflict in this file, run: cortex-replay resolve
"""
_END: Final = "# end\n"
_TABLES: Final[dict[type[Row], str]] = {FixtureRow: "fixture", ExchangeRow: "exchange", ScopedRow: "scoped"}


def render_index(index: Index) -> str:
    """The text of an index: header, then the grid. It is a function of the set of rows."""
    header = {"format": FORMAT_VERSION, "key": KEY_VERSION, **index.header}
    sections: defaultdict[int, defaultdict[int, str]] = defaultdict(lambda: defaultdict(str))
    # Rows of several scopes may name one file, and one slot: their order is that of the scopes.
    rows: list[Row] = [*index.fixtures, *index.exchanges, *sorted(index.scoped, key=attrgetter("scope"))]
    for row in sorted(rows, key=itemgetter(0)):
        section, slot = divmod(slot_of(row), _SLOTS_PER_SECTION)
        sections[section][slot] += render_row(row)
    parts = [_HEAD, tomli_w.dumps(header), "\n"]
    for number in range(_SECTIONS):
        parts.append(f"# {number:02x}\n")
        done = 0
        for slot, text in sorted(sections[number].items()):
            parts += ["\n" * (slot - done), text]
            done = slot
        parts.append("\n" * (_SLOTS_PER_SECTION - done))
    return "".join([*parts, _END])


def slot_of(row: Row) -> int:
    """Where a row stands: a number from its key, or from its path where it has no key (by ``crtx-llm``)."""
    key = row[2:] if any(row[2:]) else (row.path,)
    text = "\0".join(value or "" for value in key)
    number = int.from_bytes(blake3(text.encode(errors="surrogatepass")).digest(2))
    return number * _SECTIONS * _SLOTS_PER_SECTION >> 16


def render_row(row: Row) -> str:
    """One row as a table; a whole list would be written inline where it is short."""
    table = _TABLES[type(row)]
    values = "".join(value for value in row if value)
    if values.isascii() and values.isprintable() and '"' not in values and "\\" not in values:
        # What tomli-w would write, in a tenth of the time; nearly every row is like this.
        lines = [
            f'{name} = "{value}"\n' for name, value in zip(row._fields, row, strict=True) if value is not None
        ]
        return f"[[{table}]]\n{''.join(lines)}"
    present = {name: value for name, value in row._asdict().items() if value is not None}
    return f"[[{table}]]\n{tomli_w.dumps(present)}"
