"""``INDEX.toml``: its rows, and the strict grammar that reads them. :mod:`.grid` writes them.

The grammar is a small part of TOML: whatever it accepts, every TOML reader reads as the same
rows (a property under test, with ``tomllib`` as the judge). It exists because a general TOML
reader needs 13 times as long for 100,000 rows, and quadratic time for a hostile one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple, NoReturn

from cortex_replay.store.paths import SHARDS_FOLDER

__all__ = [
    "FORMAT_VERSION",
    "ContentKey",
    "ExchangeRow",
    "FixtureRow",
    "Index",
    "IndexSyntaxError",
    "PartRow",
    "Row",
    "RowKey",
    "Scalar",
    "ScopedRow",
    "ShardRow",
    "content_key",
    "continued_by",
    "parse_index",
    "row_key",
    "rows_by_key",
]

FORMAT_VERSION: Final = 1

Scalar = str | int | bool


class FixtureRow(NamedTuple):
    """A row of ``[[fixture]]``: one trusted fixture."""

    path: str
    blake3: str
    model: str | None = None
    """With ``prompt_hash`` the fixture's key; both are absent in an index by ``crtx-llm``."""
    prompt_hash: str | None = None
    continues: str | None = None
    """The prompt hash of the fixture, of the same model, that holds the start of its request."""


class ExchangeRow(NamedTuple):
    """A row of ``[[exchange]]``: a failure has model, prompt_hash and n; an opaque call a key."""

    path: str
    blake3: str
    model: str | None = None
    prompt_hash: str | None = None
    n: str | None = None
    key: str | None = None


class ScopedRow(NamedTuple):
    """A row of ``[[scoped]]``: in this scope, this file answers this key.

    What it is about stands as in a row of the other tables, so it may name the file of one: equal answers are
    stored once.
    """

    path: str
    blake3: str
    model: str | None = None
    prompt_hash: str | None = None
    n: str | None = None
    """Of a failure alone."""
    key: str | None = None
    """Of an opaque call alone."""
    scope: str = ""
    continues: str | None = None
    """As in :class:`FixtureRow`."""

    @property
    def is_fixture(self) -> bool:
        """Whether its file is a fixture, and no exchange."""
        return self.n is None and self.key is None


class PartRow(NamedTuple):
    """A row of ``[[part]]``: what the requests of many fixtures have in common. They name it by its hash."""

    path: str
    blake3: str


class ShardRow(NamedTuple):
    """A row of ``[[shard]]``: an index of its own, with some of the rows (:mod:`.shards`)."""

    name: str
    """Two hex digits."""
    blake3: str

    @property
    def path(self) -> str:
        """Where it stands, below the root of the store."""
        return f"{SHARDS_FOLDER}/{self.name}.toml"


Row = FixtureRow | ExchangeRow | ScopedRow | PartRow
"""A row of any table."""
RowKey = tuple[str | None, ...]
"""What a row is found by. Those of different tables have different lengths."""
ContentKey = tuple[str | None, str | None, str | None, str | None]
"""What the content of a file is about, in whatever table it stands: model, prompt_hash, n, key."""


def content_key(row: Row) -> ContentKey:
    """What the file of a row is about; rows with one file agree on it."""
    if isinstance(row, FixtureRow):
        return row.model, row.prompt_hash, None, None
    if isinstance(row, PartRow):
        return None, None, None, None
    return row.model, row.prompt_hash, row.n, row.key


def continued_by(row: Row) -> str | None:
    """The prompt hash of what the request of a row continues, if it does not stand in its file whole."""
    parent: str | None = getattr(row, "continues", None)  # asked of every row, so in the fastest way
    return parent


_KEY_SLICES: Final[dict[type[Row], slice]] = {
    FixtureRow: slice(2, 4),
    ExchangeRow: slice(2, 6),
    ScopedRow: slice(2, 7),
    PartRow: slice(1, 2),
}


def row_key(row: Row) -> RowKey:
    """What a row is found by: no two rows of a table have the same. Of one by ``crtx-llm`` it is empty."""
    key: RowKey = tuple(row)[_KEY_SLICES[type(row)]]
    return key


@dataclass(frozen=True, slots=True)
class Index:
    """A parsed index. That it parsed says nothing yet about what its rows may name."""

    fixtures: list[FixtureRow] = field(default_factory=list)
    exchanges: list[ExchangeRow] = field(default_factory=list)
    header: dict[str, Scalar] = field(default_factory=dict)
    scoped: list[ScopedRow] = field(default_factory=list)
    parts: list[PartRow] = field(default_factory=list)
    shards: list[ShardRow] = field(default_factory=list)
    """Where the rows stand, if not in ``INDEX.toml``. What was parsed has either rows or shards; one that was
    put together (:func:`.shards.join_shards`) has both, and is written as shards again."""

    @classmethod
    def of(cls, rows: Iterable[Row], header: dict[str, Scalar], shards: Iterable[ShardRow] = ()) -> Index:
        """An index of these rows, each table sorted by path."""
        index = cls(header=header, shards=list(shards))
        tables: dict[type[Row], list[Any]] = {
            FixtureRow: index.fixtures,
            ExchangeRow: index.exchanges,
            ScopedRow: index.scoped,
            PartRow: index.parts,
        }
        for row in sorted(rows, key=itemgetter(0)):
            tables[type(row)].append(row)
        return index

    @property
    def rows(self) -> list[Row]:
        """The rows of all tables."""
        return [*self.fixtures, *self.exchanges, *self.scoped, *self.parts]


def rows_by_key(index: Index) -> dict[RowKey, Row]:
    """Every row by its :func:`row_key`."""
    found: dict[RowKey, Row] = {}
    # Of a hundred thousand rows, nearly all are fixtures: no step through Python for each of these.
    found.update(zip(map(itemgetter(_KEY_SLICES[FixtureRow]), index.fixtures), index.fixtures, strict=True))
    others: list[Row] = [*index.exchanges, *index.scoped, *index.parts]
    found.update((row_key(row), row) for row in others)
    return found


class IndexSyntaxError(ValueError):
    """The index is not in the grammar; ``line`` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


_STRING = r'"((?:[^"\\\x00-\x08\x0a-\x1f\x7f]++|\\.)*+)"'
_make_row: Final[Callable[[Iterable[str | None]], FixtureRow]] = partial(tuple.__new__, FixtureRow)
"""``FixtureRow._make`` without a step through Python for each row."""
_NOT_PLAIN: Final = bytes([*range(0x20), 0x5C, 0x7F])
_PAIR = re.compile(
    rf"[ \t]*([A-Za-z0-9_-]+)[ \t]*=[ \t]*(?:{_STRING}|([+-]?(?:0|[1-9][0-9]*))|(true|false))[ \t]*"
)
_ANY_PAIR = re.compile(r"[A-Za-z0-9_.\"' \t-]+=")
_LINE = re.compile(r"[^\n]++")
"""One with something in it: the grid of a small index is thousands of empty ones."""
_EMPTY_TABLE = re.compile(r"[ \t]*fixture[ \t]*=[ \t]*\[[ \t]*\][ \t]*")
_COMMENT = re.compile(r"[ \t]*(?:#[^\x00-\x08\x0a-\x1f\x7f]*)?")
_ESCAPE = re.compile(r"\\(?:([btnfr\"\\])|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))?")
_CHARACTERS: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
_ROW = re.compile(
    r'\[\[fixture\]\]\npath = "([^"]*)"\nblake3 = "([^"]*)"\nmodel = "([^"]*)"\nprompt_hash = "([^"]*)"\n'
    r'(?:continues = "([^"]*)"\n)?'
)
_PIECES: Final = 6
"""What a text is cut into by each row: the values, and what stands behind them."""
_PROBE: Final = 4096
_BLANK_LINES: Final = r"(?:\n++|#[^\x00-\x08\x0a-\x1f\x7f]*+\n)"
_GAP = re.compile(rf"\n{_BLANK_LINES}++")
_BLANK = re.compile(rf"{_BLANK_LINES}*+")
_EXCHANGE = re.compile(r'\n\[\[exchange\]\](?:\n[a-z0-9_]++ = "[^"\\\x00-\x1f\x7f]*+")++(?=\n)')
_PLAIN: Final = r'"([^"\\\x00-\x1f\x7f]*+)"'
_SCOPED = re.compile(
    rf"\n\[\[scoped\]\]\npath = {_PLAIN}\nblake3 = {_PLAIN}"
    rf"(?:\nmodel = {_PLAIN}\nprompt_hash = {_PLAIN})?+(?:\nn = {_PLAIN})?+(?:\nkey = {_PLAIN})?+"
    rf"\nscope = {_PLAIN}(?:\ncontinues = {_PLAIN})?+(?=\n(?:\[|\Z))"
)
_PART = re.compile(rf"\n\[\[part\]\]\npath = {_PLAIN}\nblake3 = {_PLAIN}")
_TABLES: Final = {f"[[{name}]]": name for name in ("fixture", "exchange", "scoped", "part", "shard")}
_REQUIRED: Final = {"scoped": ("path", "blake3", "scope"), "shard": ("name", "blake3")}


def parse_index(text: str) -> Index:
    """Read the text of an index.

    Raises:
        IndexSyntaxError: A line is outside the grammar.
    """
    try:
        return _parse_rows(text) or _parse_tables(text)
    except IndexSyntaxError:
        return _parse_lines(text)  # which fails at the line that a person sees


def _parse_rows(text: str) -> Index | None:
    """The index, if all of its rows are those of fixtures, as this project writes them."""
    head, rows = _cut_at_rows(text)
    if not rows:
        return None
    parser = _Parser(head)
    parser.lines(0, len(head))
    parser.rows(rows, len(head))
    return parser.finish()


def _parse_tables(text: str) -> Index:
    """The index, with other tables as this project writes them."""
    text = _GAP.sub("\n", text)  # what is left reads as the same rows
    head, _, body = text.partition("\n[[")
    body = f"\n[[{body}"
    exchanges = ""
    scoped: list[ScopedRow] = []
    parts: list[PartRow] = []
    if "\n[[exchange]]\n" in body:
        exchanges = "".join(_EXCHANGE.findall(body))
        body = _EXCHANGE.sub("", body)
    if "\n[[scoped]]\n" in body:
        scoped = [ScopedRow._make(found.groups()) for found in _SCOPED.finditer(body)]
        body = _SCOPED.sub("", body)
    if "\n[[part]]\n" in body:
        # There are few among many rows: only what may be one is looked at closely.
        candidates, body = _cut_out(body, "\n[[part]]\n")
        parts = [PartRow._make(found.groups()) for found in map(_PART.fullmatch, candidates) if found]
        if len(parts) != len(candidates):
            return _parse_lines(text)
    index = _parse_rows(head + body)
    if index is None:
        return _parse_lines(text)
    index.exchanges.extend(_parse_lines(exchanges).exchanges)
    index.scoped.extend(scoped)
    index.parts.extend(parts)
    return index


def _parse_lines(text: str) -> Index:
    parser = _Parser(text)
    parser.lines(0, len(text))
    return parser.finish()


def _cut_out(text: str, start: str) -> tuple[list[str], str]:
    """The pieces that begin so and end where a table begins, and the text without them."""
    pieces: list[str] = []
    rest: list[str] = []
    done = 0
    while (found := text.find(start, done)) >= 0:
        end = text.find("\n[[", found + len(start) - 1)
        end = len(text.removesuffix("\n")) if end < 0 else end
        pieces.append(text[found:end])
        rest.append(text[done:found])
        done = end
    return pieces, "".join([*rest, text[done:]])


def _cut_at_rows(text: str) -> tuple[str, list[FixtureRow]]:
    """What stands before the rows of a text, and the rows, if behind each is nothing but a gap, else none.

    Reading line by line gives the same rows in ten times the time. A value without quotes, escapes and line
    feeds is what stands between its quotes; and where all that is cut out stands in whole lines, so do rows.
    """
    if not all(map(_BLANK.fullmatch, _ROW.split(text[:_PROBE])[_PIECES:-1:_PIECES])):
        return "", []  # that it is in vain is nearly always to be seen at the start
    head, *pieces = _ROW.split(text)
    gaps = set(pieces[_PIECES - 1 :: _PIECES])
    columns = [pieces[i::_PIECES] for i in range(_PIECES - 1)]
    values = "".join(chain(*columns[:-1], filter(None, columns[-1]))).encode()
    is_as_written = (
        (not head or head.endswith("\n"))
        and all(map(_BLANK.fullmatch, gaps))
        and len(values.translate(None, _NOT_PLAIN)) == len(values)
    )
    return (head, list(map(_make_row, zip(*columns, strict=True)))) if is_as_written else ("", [])


class _Parser:
    """A class only to carry the position and the open row from line to line."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.index = Index()
        self.row: dict[str, str] | None = None
        self.row_start = 0
        self.table = ""
        self.fixture_is_closed = False

    def lines(self, start: int, end: int) -> None:
        """Read this part of the text line by line."""
        for line in _LINE.finditer(self.text, start, end):
            self._line(line[0], line.start())

    def rows(self, rows: list[FixtureRow], position: int) -> None:
        """Take rows that were read from this position in another way."""
        self._open_row("fixture", position)
        self.row = None
        self.index.fixtures.extend(rows)

    def finish(self) -> Index:
        """The index, once the whole text was read."""
        self._close_row()
        return self.index

    def _line(self, line: str, position: int) -> None:
        if _COMMENT.fullmatch(line):
            return
        table = _TABLES.get(line.rstrip(" \t"))
        if table is not None:
            self._open_row(table, position)
        elif pair := _PAIR.fullmatch(line):
            self._pair(pair, position)
        elif _EMPTY_TABLE.fullmatch(line):
            self._empty_table(position)
        elif line.lstrip(" \t").startswith("["):
            self._fail(
                position, "a table other than [[fixture]], [[exchange]], [[scoped]], [[part]] and [[shard]]"
            )
        elif _ANY_PAIR.match(line):
            self._fail(position, "a value that is not a plain string on one line")
        else:
            self._fail(position, "neither a comment, a table nor a value")

    def _open_row(self, table: str, position: int) -> None:
        if table == "fixture" and self.fixture_is_closed:
            self._fail(position, "[[fixture]] after `fixture = []`")
        self._close_row()
        self.row, self.row_start, self.table = {}, position, table

    def _close_row(self) -> None:
        if self.row is None:
            return
        for name in _REQUIRED.get(self.table, ("path", "blake3")):
            if name not in self.row:
                self._fail(self.row_start, f"a row without `{name}`")
        if "continues" in self.row and self.table in ("exchange", "part"):
            self._fail(self.row_start, "a row that continues another, and is not that of a fixture")
        if self.table == "fixture":
            self.index.fixtures.append(FixtureRow._make(map(self.row.get, FixtureRow._fields)))
        elif self.table == "exchange":
            self.index.exchanges.append(ExchangeRow._make(map(self.row.get, ExchangeRow._fields)))
        elif self.table == "part":
            self.index.parts.append(PartRow._make(self.row[name] for name in PartRow._fields))
        elif self.table == "shard":
            self.index.shards.append(ShardRow._make(self.row[name] for name in ShardRow._fields))
        else:
            self.index.scoped.append(ScopedRow._make(map(self.row.get, ScopedRow._fields)))
        self.row = None

    def _pair(self, pair: re.Match[str], position: int) -> None:
        name, text, integer, boolean = pair.groups()
        value: Scalar
        if text is not None:
            value = self._unescape(text, position) if "\\" in text else text
        elif integer is not None:
            value = int(integer) if len(integer) <= 20 else 2**63
            if not -(2**63) <= value < 2**63:
                self._fail(position, "a number that does not fit 64 bits")
        else:
            value = boolean == "true"
        if self.row is None:
            if name in self.index.header or name in _TABLES.values():
                self._fail(position, f"`{name}` is already taken")
            self.index.header[name] = value
        elif not isinstance(value, str):
            self._fail(position, f"`{name}` in a row is not a string")
        elif name in self.row:
            self._fail(position, f"`{name}` stands twice in one row")
        else:
            self.row[name] = value

    def _empty_table(self, position: int) -> None:
        if self.row is not None or self.fixture_is_closed:
            self._fail(position, "`fixture = []` after other rows")
        self.fixture_is_closed = True

    def _unescape(self, text: str, position: int) -> str:
        def character(match: re.Match[str]) -> str:
            short, four, eight = match.groups()
            if short:
                return _CHARACTERS[short]
            code = int(four or eight or "-1", 16)
            if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                self._fail(position, "an escape that names no character")
            return chr(code)

        return _ESCAPE.sub(character, text)

    def _fail(self, position: int, reason: str) -> NoReturn:
        raise IndexSyntaxError(self.text.count("\n", 0, position) + 1, reason)
