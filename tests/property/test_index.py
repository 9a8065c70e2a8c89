"""What the grammar accepts, tomllib reads as the same rows."""

from __future__ import annotations

import random
import re
import tomllib
from typing import Any

import tomli_w
from hypothesis import given, strategies as st

from cortex_replay.store.grid import render_index, render_row
from cortex_replay.store.index import (
    ExchangeRow,
    FixtureRow,
    Index,
    IndexSyntaxError,
    Row,
    ScopedRow,
    parse_index,
)
from cortex_replay.store.paths import fold_path, path_problem
from cortex_replay.store.trust import Layout, Untrusted, trust_index, trust_rows
from tests.property.strategies import IS_TORTURE, digests, effort, texts

fixture_rows = st.builds(FixtureRow, texts, digests, texts, digests)
exchange_rows = st.builds(ExchangeRow, texts, digests, key=digests)
scoped_rows = st.builds(
    ScopedRow, texts, digests, texts, digests, st.none() | texts, scope=texts
) | st.builds(ScopedRow, texts, digests, key=digests, scope=texts)
indexes = st.builds(
    Index,
    st.lists(fixture_rows, max_size=5),
    st.lists(exchange_rows, max_size=3),
    scoped=st.lists(scoped_rows, max_size=3),
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
    kinds: dict[str, Any] = {"fixture": FixtureRow, "exchange": ExchangeRow, "scoped": ScopedRow}
    return tuple(
        [kind(**{name: row[name] for name in kind._fields if name in row}) for row in read.get(table, [])]
        for table, kind in kinds.items()
    )


def check(text: str) -> bool:
    """Whether the grammar accepts ``text``; if so, tomllib must agree."""
    try:
        index = parse_index(text)
    except IndexSyntaxError:
        return False
    assert (index.fixtures, index.exchanges, index.scoped) == rows_by_tomllib(text)
    tables = ("fixture", "exchange", "scoped")
    assert index.header == {k: v for k, v in tomllib.loads(text).items() if k not in tables}
    return True


@given(indexes)
@effort(200)
def test_what_is_written_is_read_back(index: Index) -> None:
    """By us and by tomllib, whatever the values hold."""
    text = render_index(index)
    read = parse_index(text)

    assert sorted(index.fixtures) == sorted(read.fixtures)
    assert sorted(index.exchanges, key=str) == sorted(read.exchanges, key=str)
    assert sorted(index.scoped, key=str) == sorted(read.scoped, key=str)
    assert check(text)


@given(fixture_rows | exchange_rows | scoped_rows)
@effort(300)
def test_a_row_is_written_as_tomli_w_writes_it(row: Row) -> None:
    """Whichever road it takes."""
    table = {FixtureRow: "fixture", ExchangeRow: "exchange", ScopedRow: "scoped"}[type(row)]
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
    text = render_index(Index(rows, scoped=scoped))
    whole = re.sub(r"(?:\n|# ..\n)*(\n\n# ..\n\n)", r"\1", text).encode()
    accepted = 0
    for _ in range(1_000_000 if IS_TORTURE else 10_000):
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
        ),
        max_size=4,
    )
)
@effort(500)
def test_no_unsound_row_passes(rows: list[FixtureRow]) -> None:
    """The look at whole columns passes nothing that the look at each row would refuse."""
    if trust_rows(Index(rows), Layout.FLAT) == []:
        assert all(path_problem(row.path) is None for row in rows)
        assert len({fold_path(row.path) for row in rows}) == len(rows)
        keys = [(row.model, row.prompt_hash) for row in rows if row.model is not None]
        assert len(set(keys)) == len(keys)
        assert all(len(row.blake3) == 64 for row in rows)
