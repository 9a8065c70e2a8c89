"""What the grammar accepts, tomllib reads as the same rows."""

from __future__ import annotations

import random
import re
import tomllib
from typing import Any

import tomli_w
from hypothesis import given, strategies as st

from cortex_replay.hashing import is_digest
from cortex_replay.store.index.grid import render_index, render_row
from cortex_replay.store.index.index import (
    ExchangeRow,
    FixtureRow,
    Index,
    IndexSyntaxError,
    PartRow,
    Row,
    ScopedRow,
    parse_index,
)
from cortex_replay.store.paths import fold_path, path_problem
from cortex_replay.store.trust import Layout, Untrusted, trust_index, trust_rows
from tests.property.strategies import digests, effort, texts
from tests.sampling import IS_TORTURE

fixture_rows = st.builds(FixtureRow, texts, digests, texts, digests, st.none() | texts)
part_rows = st.builds(PartRow, texts, digests)
exchange_rows = st.builds(ExchangeRow, texts, digests, key=digests)
scoped_rows = st.builds(
    ScopedRow, texts, digests, texts, digests, st.none() | texts, scope=texts, continues=st.none() | texts
) | st.builds(ScopedRow, texts, digests, key=digests, scope=texts)
indexes = st.builds(
    Index,
    st.lists(fixture_rows, max_size=5),
    st.lists(exchange_rows, max_size=3),
    scoped=st.lists(scoped_rows, max_size=3),
    parts=st.lists(part_rows, max_size=2),
)

WHOLE_ROW = f'[[fixture]]\npath = "a.json"\nblake3 = "{"0" * 64}"\nmodel = "m"\nprompt_hash = "{"1" * 64}"\n'
PIECES = [
    WHOLE_ROW,
    f"{WHOLE_ROW}\n",
    f'\n[[exchange]]\npath = "e"\nblake3 = "{"0" * 64}"\nkey = "k"\n',
    f'\n[[scoped]]\npath = "s"\nblake3 = "{"0" * 64}"\nmodel = "m"\nprompt_hash = "h"\nscope = "t"\n',
    f'\n[[scoped]]\npath = "s"\nblake3 = "{"0" * 64}"\nkey = "k"\nscope = "t"\n',
    "[[scoped]]\n",
    'scope = "t"\n',
    "scoped = 1\n",
    "\n\n\n# 3f\n\n",
    WHOLE_ROW.replace("a.json", "d.json"),
    f'{WHOLE_ROW.replace("a.json", "c.json")}continues = "{"2" * 64}"\n',
    f'\n[[part]]\npath = "p"\nblake3 = "{"0" * 64}"\n',
    'continues = "c"\n',
    "[[part]]\n",
    "part = 1\n",
    "# ",
    "x ",
    "[[fixture]]\n",
    "[[exchange]]\n",
    "[fixture]\n",
    "[[fixture]]",
    'path = "a.json"\n',
    'path = "fixtures/b.json"\n',
    'path="c"\n',
    f'blake3 = "{"0" * 64}"\n',
    'blake3 = "x"\n',
    'model = "m"\n',
    f'prompt_hash = "{"1" * 64}"\n',
    'n = "1"\n',
    'key = "k"\n',
    'extra = "e"\n',
    "extra = 1\n",
    "format = 1\n",
    "key = 1\n",
    "fixture = []\n",
    "exchange = []\n",
    "# comment\n",
    "#\n",
    "\n",
    " \t\n",
    '"',
    "\\",
    "\\u0041",
    "\r\n",
    "\x00",
    "\x7f",
    "'",
    '"""',
    "=",
    "{}",
    "a.b = 1\n",
    "x = +0\n",
    "y = -7\n",
    "z = true\n",
    "é",
    "\ufeff",
    "\u2028",
    "[",
    "]",
    ",",
]


def rows_by_tomllib(text: str) -> tuple[list[Any], ...]:
    read = tomllib.loads(text)
    kinds: dict[str, Any] = {
        "fixture": FixtureRow,
        "exchange": ExchangeRow,
        "scoped": ScopedRow,
        "part": PartRow,
    }
    return tuple(
        [kind(**{name: row[name] for name in kind._fields if name in row}) for row in read.get(table, [])]
        for table, kind in kinds.items()
    )


def in_order(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=str)


def check(text: str) -> bool:
    """Whether the grammar accepts ``text``; if so, tomllib must agree."""
    try:
        index = parse_index(text)
    except IndexSyntaxError:
        return False
    found: list[list[Any]] = [index.fixtures, index.exchanges, index.scoped, index.parts]
    # Rows that continue others are read apart from the rest.
    assert [*map(in_order, found)] == [*map(in_order, rows_by_tomllib(text))]
    tables = ("fixture", "exchange", "scoped", "part")
    assert index.header == {k: v for k, v in tomllib.loads(text).items() if k not in tables}
    return True


@given(indexes)
@effort(200)
def test_what_is_written_is_read_back(index: Index) -> None:
    """By us and by tomllib, whatever the values hold."""
    text = render_index(index)
    read = parse_index(text)

    assert in_order(index.rows) == in_order(read.rows)
    assert check(text)


@given(fixture_rows | exchange_rows | scoped_rows | part_rows)
@effort(300)
def test_a_row_is_written_as_tomli_w_writes_it(row: Row) -> None:
    """Whichever road it takes."""
    table = {FixtureRow: "fixture", ExchangeRow: "exchange", ScopedRow: "scoped", PartRow: "part"}[type(row)]
    values = {name: value for name, value in row._asdict().items() if value is not None}

    assert render_row(row) == f"[[{table}]]\n{tomli_w.dumps(values)}"


@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
@effort(1000)
def test_texts_made_of_near_misses(text: str) -> None:
    """Pieces of rows, headers and other TOML in any order."""
    check(text)


@given(st.text(max_size=40))
@effort(300)
def test_any_text(text: str) -> None:
    """Never a crash, never a row that tomllib does not see."""
    check(text)


def test_mutations_of_a_real_index() -> None:
    """A byte changed, dropped, doubled or moved: refused, or read as tomllib reads it."""
    rng = random.Random(0 if not IS_TORTURE else None)
    rows = [
        FixtureRow(f"fixtures/m/{i:016x}-{i:08x}.json", f"{i:064x}", "m", f"{i * 7:064x}") for i in range(4)
    ]
    # Most of a grid is empty lines, which one mutation would hardly ever miss.
    scoped = [ScopedRow(*rows[0], scope="t"), ScopedRow("fixtures/e.json", "0" * 64, key="1" * 64, scope="t")]
    rows[2] = rows[2]._replace(continues=f"{7:064x}")
    text = render_index(Index(rows, scoped=scoped, parts=[PartRow("fixtures/parts/p.json", "2" * 64)]))
    whole = re.sub(r"(?:\n|# ..\n)*(\n\n# ..\n\n)", r"\1", text).encode()
    accepted = 0
    for _ in range(1_000_000 if IS_TORTURE else 2000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            i = rng.randrange(len(data))
            match rng.randrange(5):
                case 0:
                    data[i] = rng.randrange(256)
                case 1:
                    del data[i : i + rng.randint(1, 80)]
                case 2:
                    data[i:i] = data[(j := rng.randrange(len(data))) : j + rng.randint(1, 80)]
                case 3:
                    data[i:i] = rng.choice(PIECES).encode()
                case _:
                    data[i] ^= 1 << rng.randrange(8)
        try:
            trust_index(bytes(data))
        except Untrusted:
            continue
        accepted += check(data.decode())

    assert accepted, "some mutations are harmless, or nothing was compared"


@given(
    st.lists(
        st.builds(
            FixtureRow,
            st.sampled_from(["a.json", "A.json", "fixtures/b.json", "../c", "é", "a"]),
            digests | texts,
            st.sampled_from(["m", "n"]) | st.none(),
            digests | st.none(),
            st.none() | digests | texts,
        ),
        max_size=4,
    ),
    st.lists(st.builds(PartRow, st.sampled_from(["p.json", "a.json", "../p"]), digests | texts), max_size=2),
)
@effort(500)
def test_no_unsound_row_passes(rows: list[FixtureRow], parts: list[PartRow]) -> None:
    """The look at whole columns passes nothing that the look at each row would refuse."""
    if trust_rows(Index(rows, parts=parts), Layout.FLAT) == []:
        assert all(row.continues is None or is_digest(row.continues) for row in rows)
        assert len({part.blake3 for part in parts}) == len(parts)
        listed: list[FixtureRow | PartRow] = [*rows, *parts]
        assert len({fold_path(row.path) for row in listed}) == len(listed)
        assert all(path_problem(row.path) is None for row in rows)
        assert len({fold_path(row.path) for row in rows}) == len(rows)
        keys = [(row.model, row.prompt_hash) for row in rows if row.model is not None]
        assert len(set(keys)) == len(keys)
        assert all(len(row.blake3) == 64 for row in rows)
