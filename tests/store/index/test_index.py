from __future__ import annotations

import re
import tomllib
from collections.abc import Callable

import pytest

from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import (
    ExchangeRow,
    FixtureRow,
    Index,
    IndexSyntaxError,
    _Parser,
    parse_index,
)

A, B = "a" * 64, "b" * 64
EXCHANGE = f'[[exchange]]\npath = "e"\nblake3 = "{A}"\nkey = "{B}"\n'


def test_rows_are_read_as_written() -> None:
    """Header, fixtures and exchanges come back as they went in."""
    index = Index(
        [FixtureRow("fixtures/a.json", A, "m", B), FixtureRow("fixtures/b.json", B, "m", A)],
        [
            ExchangeRow("fixtures/exchanges/c.json", A, "m", B, "2"),
            ExchangeRow("fixtures/exchanges/d.json", B, key=A),
        ],
    )
    read = parse_index(render_index(index))

    assert (set(read.fixtures), set(read.exchanges)) == (set(index.fixtures), set(index.exchanges))
    assert read.header == {"format": 1, "key": 1}


def test_rows_are_never_inline() -> None:
    """A short row is a table too."""
    lines = render_index(Index([FixtureRow("b", "2"), FixtureRow("a", "1")])).split("\n")

    assert [line for line in lines if line and not line.startswith("#")] == [
        *("format = 1", "key = 1"),
        *("[[fixture]]", 'path = "b"', 'blake3 = "2"'),
        *("[[fixture]]", 'path = "a"', 'blake3 = "1"'),
    ]


@pytest.mark.parametrize("model", ['quo"te', "back\\slash", "new\nline", "tab\t", "\x7f", "é🙂", "\x00", ""])
def test_odd_model_names_survive(model: str) -> None:
    """A model's name is any text."""
    text = render_index(Index([FixtureRow("a", A, model, B)]))

    assert [FixtureRow("a", A, model, B)] == parse_index(text).fixtures
    assert model == tomllib.loads(text)["fixture"][0]["model"]


ACCEPTED = {
    "nothing": ("", []),
    "comments and blank lines": ("# x\n\n \t\n  # y", []),
    "an empty array": ("fixture = []\n", []),
    "unknown scalars": ('version = 3\nsigned = true\nname = "x"\n', []),
    "no final newline": ('[[fixture]]\npath = "a"\nblake3 = "1"', [FixtureRow("a", "1")]),
    "other order and spacing": ('[[fixture]]  \nblake3="1"\n  path\t= "a"\t\n', [FixtureRow("a", "1")]),
    "unknown keys in a row": (
        '[[fixture]]\npath = "a"\nsize = "3"\nblake3 = "1"\nn = "1"\n',
        [FixtureRow("a", "1")],
    ),
    "escapes": (
        '[[fixture]]\npath = "\\u0061\\U00000062\\"\\\\"\nblake3 = "1"\n',
        [FixtureRow('ab"\\', "1")],
    ),
    "a row that goes on after a blank line": (
        f'[[fixture]]\npath = "a"\nblake3 = "{A}"\nmodel = "m"\nprompt_hash = "{B}"\n\nextra = "x"\n',
        [FixtureRow("a", A, "m", B)],
    ),
    "a comment between rows": (
        '[[fixture]]\npath = "a"\nblake3 = "1"\n\n# x\n[[fixture]]\npath = "b"\nblake3 = "2"\n',
        [FixtureRow("a", "1"), FixtureRow("b", "2")],
    ),
}


@pytest.mark.parametrize(("text", "rows"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(text: str, rows: list[FixtureRow]) -> None:
    """And tomllib reads the same rows."""
    expected = [{name: value for name, value in row._asdict().items() if value is not None} for row in rows]
    read = tomllib.loads(text).get("fixture", [])

    assert rows == parse_index(text).fixtures
    assert expected == [{name: row[name] for name in FixtureRow._fields if name in row} for row in read]


ROW = '[[fixture]]\npath = "a"\nblake3 = "1"\n'
REFUSED = {
    "another table": "[other]\nk = 1\n",
    "another array of tables": "[[fixtures]]\n",
    "a misspelt header": "[[fixture]\n",
    "spaces in a header": "[[ fixture ]]\n",
    "a dotted key": 'a.b = "x"\n',
    "a quoted key": '"path" = "x"\n',
    "a row without a path": '[[fixture]]\nblake3 = "1"\n',
    "a row without a hash": '[[fixture]]\npath = "a"\n',
    "a number in a row": ROW + "n = 1\n",
    "a boolean in a row": ROW + "x = true\n",
    "a literal string": "[[fixture]]\npath = 'a'\n",
    "a multi-line string": '[[fixture]]\npath = """a"""\n',
    "an inline table": 'fixture = [{path = "a", blake3 = "1"}]\n',
    "a repeated key in a row": ROW + 'path = "b"\n',
    "a repeated key above": "format = 1\nformat = 1\n",
    "a scalar named fixture": 'fixture = "x"\n',
    "rows after an empty array": "fixture = []\n" + ROW,
    "an empty array after rows": ROW + "fixture = []\n",
    "a comment after a value": '[[fixture]]\npath = "a" # x\n',
    "two values on a line": '[[fixture]]\npath = "a" blake3 = "1"\n',
    "an unknown escape": '[[fixture]]\npath = "\\x61"\nblake3 = "1"\n',
    "half an escape": '[[fixture]]\npath = "\\u00"\nblake3 = "1"\n',
    "an escaped surrogate": '[[fixture]]\npath = "\\ud800"\nblake3 = "1"\n',
    "an escape beyond Unicode": '[[fixture]]\npath = "\\U00110000"\nblake3 = "1"\n',
    "a string that does not end": '[[fixture]]\npath = "a\nblake3 = "1"\n',
    "CRLF": ROW.replace("\n", "\r\n"),
    "a lone CR": "# x\ry\n",
    "a byte order mark": "\ufeff" + ROW,
    "a NUL": ROW + "\0",
    "a control character in a comment": "# \x1b[31m\n",
    "a conflict marker": "<<<<<<< HEAD\n" + ROW,
    "text": "hello\n",
    "a float": "version = 1.5\n",
    "a date": "made = 2026-01-01\n",
    "an integer beyond 64 bits": "x = 9223372036854775808\n",
    "an integer of 5,000 digits": f"x = {'9' * 5000}\n",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_refused(text: str) -> None:
    """Whatever is outside the grammar, with the number of its line."""
    with pytest.raises(IndexSyntaxError, match=r"^line \d+: "):
        parse_index(text)


def test_the_line_of_a_mistake_is_counted_from_one() -> None:
    """A person can go there."""
    with pytest.raises(IndexSyntaxError) as caught:
        parse_index(ROW + "\n[table]\n")

    assert caught.value.line == 5


def test_a_hostile_key_costs_no_more_than_its_length() -> None:
    """The dotted key that makes general TOML readers quadratic is refused at once."""
    with pytest.raises(IndexSyntaxError):
        parse_index(".".join("a" * 200_000) + " = 1\n")


@pytest.mark.parametrize(
    "text",
    [" " * 200_000 + "!", '[[fixture]]\npath = "' + "a" * 4_000_000, "x" * 200_000, "\t" * 100_000 + "= ="],
    ids=["spaces", "long string", "long name", "tabs"],
)
def test_long_lines_cost_no_more_than_their_length(text: str) -> None:
    """Neither in time nor in memory; each of these was quadratic or worse in some draft."""
    with pytest.raises(IndexSyntaxError):
        parse_index(text)


@pytest.mark.parametrize(
    "tail",
    [
        "",
        "\n",
        "\n\n",
        "# end\n",
        'extra = "x"\n',
        "[table]\n",
        ' "',
        f'\n[[exchange]]\npath = "e"\nblake3 = "{A}"\nkey = "{B}"\n',
        f'\n[[exchange]]\npath = "e"\nblake3 = "{A}"\n\n[[fixture]]\npath = "f"\nblake3 = "{B}"\n',
    ],
)
@pytest.mark.parametrize(
    "row",
    [
        "plain",
        "quote",
        "blank",
        "keyless",
        "newline",
        "closed",
        "commented",
        "mid-line",
        "header",
        "exchanges",
        "split by an exchange",
        "split by a comment",
        "one continues",
        "each continues",
        "continues nothing",
        "continues twice",
        "continues at its start",
        "continues before its key",
        "continues within a value",
        "a bracket in a value",
        "an escape in a value",
        "a control character in a value",
    ],
)
def test_the_fast_road_and_the_line_by_line_road_agree(row: str, tail: str) -> None:
    """Rows as written are read by one expression; anything near them must not slip through it."""
    rows = [FixtureRow(f"fixtures/{i}.json", A, "m", B) for i in range(3)]
    text = re.sub("\n\n\n+", "\n\n", render_index(Index(rows)).replace("# end\n", ""))
    key, link = f'prompt_hash = "{B}"\n', f'continues = "{A}"\n'
    text = {
        "plain": text,
        "quote": text.replace('model = "m"', 'model = "m" "'),
        "blank": text.replace("\n\n[[", "\n\n \n[["),
        "newline": text.replace('model = "m"', 'model = "m\nx"', 1),
        "closed": "fixture = []\n" + text,
        "commented": text.replace("[[fixture]]", "# [[fixture]]", 1),
        "mid-line": text.replace("\n\n[[", "\nkey = 1 [[", 1),
        "header": text.replace("format = 1", 'store_id = "x"\nformat = 1'),
        "exchanges": text.replace("[[fixture]]", f"{EXCHANGE}[[fixture]]"),
        "split by an exchange": text.replace('model = "m"', f'model = "m\n{EXCHANGE}"', 1),
        "split by a comment": text.replace('model = "m"', 'model = "m\n# x\n"', 1),
        "keyless": text.replace(f'model = "m"\nprompt_hash = "{B}"\n', "", 1),
        "one continues": text.replace(key, key + link, 1),
        "each continues": text.replace(key, key + link),
        "continues nothing": text.replace(key, f'{key}continues = ""\n', 1),
        "continues twice": text.replace(key, key + link + link, 1),
        "continues at its start": text.replace("[[fixture]]\n", f"[[fixture]]\n{link}", 1),
        "continues before its key": text.replace(key, link + key, 1),
        "continues within a value": text.replace('"m"', '"\ncontinues = "', 1),
        "a bracket in a value": text.replace('"m"', '"[m]"', 1),
        "an escape in a value": text.replace('"m"', '"\\u006d"', 1),
        "a control character in a value": text.replace('"m"', '"m\x01"', 1),
    }[row] + tail

    def line_by_line(text: str) -> Index:
        parser = _Parser(text)
        parser.lines(0, len(text))
        return parser.finish()

    def outcome(read: Callable[[str], Index]) -> object:
        try:
            return read(text)
        except IndexSyntaxError as error:
            return str(error)

    assert outcome(line_by_line) == outcome(parse_index)


@pytest.mark.parametrize("odd", ["x = 1\n", 'n = "1"\n', "[table]\n", "\n \n", "# x\n", EXCHANGE, "x"])
def test_what_stands_between_rows_far_from_the_start_is_read(odd: str) -> None:
    """It is read as line by line, or refused."""
    rows = [FixtureRow(f"fixtures/{i:03}.json", f"{i:064x}", "m", f"{i:064x}") for i in range(100)]
    text = render_index(Index(rows))
    start = text.rindex("[[fixture]]")
    text = text[:start] + odd + text[start:]
    parser = _Parser(text)

    try:
        parser.lines(0, len(text))
    except IndexSyntaxError:
        with pytest.raises(IndexSyntaxError):
            parse_index(text)
    else:
        assert parse_index(text) == parser.finish()
