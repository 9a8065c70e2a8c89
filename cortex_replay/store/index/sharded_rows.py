"""The rows of an index that has shards: each is read when it is asked for, and the last ones are kept.

A class of its own beside :class:`.rows.Rows`, with the same questions. A question about one key reads one
shard. One about all rows goes over the shards, one after the other, and keeps none; the shards that cannot
have what is asked for are known after the first time, and left out.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence, Set as AbstractSet
from typing import Final, NamedTuple, TypeVar

from cortex_replay.errors import FixtureIntegrityFailed, StoreIo
from cortex_replay.gc_pause import pause_gc
from cortex_replay.store.fixture import FixtureKey
from cortex_replay.store.index.index import (
    ExchangeRow,
    FixtureRow,
    Index,
    PartRow,
    Row,
    ScopedRow,
    ShardRow,
    content_key,
    continued_by,
    parse_index,
)
from cortex_replay.store.index.rows import Own, Place, Rows
from cortex_replay.store.index.shard_reading import read_root, read_shard_bytes
from cortex_replay.store.index.shards import shard_of, shard_of_key, shard_of_part
from cortex_replay.store.source import Source
from cortex_replay.store.trust import Layout, Untrusted, trust_rows, trust_shard

__all__ = ["ShardedRows"]

_T = TypeVar("_T")
_MOST_BYTES: Final = 64 * 2**20
"""How much text of shards stays in memory. To read a shard of a million rows again takes a millisecond."""
_MOST_FOUND: Final = 4096
"""How many keys are remembered with their rows."""
_MOST_ATTEMPTS: Final = 200
_FIXTURES: Final = b"[[fixture]]"
_EXCHANGES: Final = b"[[exchange]]"
_SCOPED: Final = b"[[scoped]]"
_CONTINUES: Final = b"continues"
_WORDS: Final = (_FIXTURES, _EXCHANGES, _SCOPED, _CONTINUES)
_PROMPT_HASH: Final = b'\nprompt_hash = "'
_KEY: Final = b'\nkey = "'
_ROW: Final = b"\n[["
_BLAKE3: Final = b'\nblake3 = "'


class _Kept(NamedTuple):
    """A shard in memory. Its rows are objects where its text cannot be searched."""

    blake3: str
    data: bytes
    rows: Rows | None


class ShardedRows:
    """All that a reader asks of an index, answered from as few shards as possible."""

    def __init__(self, root: Index, source: Source, before: ShardedRows | None = None) -> None:
        """Take a root.

        Args:
            root: The root, whose shards were not read yet.
            source: Where the shards are.
            before: The rows of an earlier root: what stayed the same needs not be read again.
        """
        self._source = source
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._words: dict[str, frozenset[bytes]] = {}
        """By the hash of a shard, which of some words stand in it: what it cannot have is not looked for."""
        self._searchable: set[str] = set()
        """The hashes of shards that were trusted, and whose text can be searched."""
        self._found: dict[tuple[str, bytes, str], Rows] = {}
        if before is not None:
            self._kept.update(before._kept)  # noqa: SLF001 - its own
            self._words.update(before._words)  # noqa: SLF001 - its own
            self._searchable |= before._searchable  # noqa: SLF001 - its own
        self._size = sum(len(kept.data) for kept in self._kept.values())
        self._scopes: frozenset[str] | None = None
        self._lock = threading.RLock()
        self._whole: Rows | None = None
        """All rows, if the shards were made one file again."""
        self._take(root)

    def _take(self, root: Index) -> None:
        self._shards = {shard.name: shard for shard in root.shards}
        self._whole = None if root.shards else Rows(root)
        self._scopes = None
        listed = {shard.blake3 for shard in root.shards}
        self._searchable &= listed
        self._words = {digest: words for digest, words in self._words.items() if digest in listed}

    # Questions about one key.

    def fixture(self, key: FixtureKey) -> FixtureRow | None:
        """The shared fixture of a key."""
        return self._of_key(key).fixture(key)

    def failures(self, key: FixtureKey) -> list[ExchangeRow]:
        """The shared failures of a key."""
        return self._of_key(key).failures(key)

    def opaque(self, key: str) -> ExchangeRow | None:
        """The shared exchange of a key."""
        return self._of_call(key).opaque(key)

    def own(self, key: FixtureKey, scope: str) -> Own | None:
        """What a scope has of its own under a key."""
        return self._of_key(key).own(key, scope)

    def own_opaque(self, key: str, scope: str) -> ScopedRow | None:
        """The exchange that a scope has of its own under a key."""
        return self._of_call(key).own_opaque(key, scope)

    def parent(self, key: FixtureKey) -> FixtureRow | ScopedRow | None:
        """A row of a key whose request others may continue: the shared one, else that of any scope."""
        return self._of_key(key).parent(key)

    def part(self, digest: str) -> PartRow | None:
        """The part with a hash."""
        return self._find(_BLAKE3, digest, shard_of_part(digest)).part(digest)

    def beside(self, row: Row) -> Sequence[Row]:
        """All rows of the shard that a row stands in."""
        with self._lock:
            if self._whole is not None:
                return ()
            return self._load(shard_of(row), lambda shard, data: _parse(shard, data).rows) or ()

    def _of_key(self, key: FixtureKey) -> Rows:
        return self._find(_PROMPT_HASH, key[1], shard_of_key(*key))

    def _of_call(self, key: str) -> Rows:
        return self._find(_KEY, key, shard_of_key(None, None, key))

    # Questions about all rows.

    def __len__(self) -> int:
        return sum(map(len, self._all(_FIXTURES)))

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes that have answers of their own."""
        if self._scopes is None:
            self._scopes = frozenset().union(*(rows.scopes for rows in self._all(_SCOPED)))
        return self._scopes

    def fixtures(self, model: str | None = None) -> Iterator[tuple[FixtureKey, FixtureRow]]:
        """Every shared fixture and its key; those of a model first, if one is named."""
        if model is None:
            for rows in self._all(_FIXTURES):
                yield from rows.fixtures()
            return
        others: list[str] = []
        for name in sorted(self._shards):
            rows = self._load(name, lambda shard, data: self._pick_model(shard, data, model)) or _NONE
            for key, row in rows.fixtures(model):
                if key[0] != model:
                    others.append(name)
                    break
                yield key, row
            if not len(rows):
                others.append(name)
        for name in others:
            yield from (one for one in self._read(name, _FIXTURES).fixtures() if one[0][0] != model)

    def opaques(self) -> Iterator[tuple[str, ExchangeRow]]:
        """Every shared exchange and its key."""
        for rows in self._all(_EXCHANGES):
            yield from rows.opaques()

    def owns(self) -> Iterator[tuple[Place, Own]]:
        """What scopes have of their own; see :meth:`.rows.Rows.owns`."""
        for rows in self._all(_SCOPED):
            yield from rows.owns()

    def all_failures(self) -> Iterator[ExchangeRow]:
        """Every shared failure."""
        for rows in self._all(_EXCHANGES):
            yield from rows.all_failures()

    def count_failures(self) -> int:
        """How many shared failures there are."""
        return sum(rows.count_failures() for rows in self._all(_EXCHANGES))

    def count_own(self) -> int:
        """How many sequences are those of single scopes."""
        return sum(rows.count_own() for rows in self._all(_SCOPED))

    def shards_that_continue(self, keys: AbstractSet[tuple[str | None, str | None]]) -> set[str]:
        """The names of the shards with rows whose request continues that of one of these keys."""
        found: set[str] = set()
        hashes = [key[1].encode() for key in keys if key[1] is not None]

        def look(shard: ShardRow, data: bytes) -> None:
            self._note_words(shard, data)
            if b"\\" in data or any(prompt_hash in data for prompt_hash in hashes):
                rows = _parse(shard, data).rows
                if any((content_key(row)[0], continued_by(row)) in keys for row in rows):
                    found.add(shard.name)

        with self._lock:
            for name, shard in list(self._shards.items()) if hashes else ():
                if _CONTINUES in self._words.get(shard.blake3, _WORDS):
                    self._load(name, look)
        return found

    def _all(self, table: bytes) -> Iterator[Rows]:
        """The rows of each shard that may have a table."""
        if self._whole is not None:
            yield self._whole
            return
        for name in sorted(self._shards):
            rows = self._read(name, table)
            if self._whole is not None:
                raise StoreIo("the store changed while it was read; repeat the command")
            yield rows

    # Reading.

    def _find(self, name: bytes, value: str, shard_name: str) -> Rows:
        """The rows of a shard, or of those in it that have a value under a name."""
        with self._lock:
            if self._whole is not None:
                return self._whole
            shard = self._shards.get(shard_name)
            if shard is None:
                return _NONE
            wanted = (shard.blake3, name, value)
            if (found := self._found.get(wanted)) is not None:
                return found
            kept = self._kept.get(shard_name)
            if kept is None or kept.blake3 != shard.blake3:
                kept = self._load(shard_name, self._keep)
            if kept is None:
                return self._find_again()
            if kept.rows is not None:
                return kept.rows
            self._kept.move_to_end(shard_name)
            rows = _search(kept.data, b'%b%b"' % (name, value.encode(errors="surrogatepass")))
            if len(self._found) >= _MOST_FOUND:
                del self._found[next(iter(self._found))]
            self._found[kept.blake3, name, value] = rows
            return rows

    def _find_again(self) -> Rows:
        """What there is where a shard was, after a commit by another process: nothing, or one file."""
        return _NONE if self._whole is None else self._whole

    def _read(self, name: str, table: bytes) -> Rows:
        """The rows of a shard, only to be looked at now; none if it has no such table."""
        with self._lock:
            shard = self._shards.get(name)
            if shard is None or table not in self._words.get(shard.blake3, _WORDS):
                return _NONE
            rows = self._load(name, lambda shard, data: self._pick(shard, data, table))
            return _NONE if rows is None else rows

    def _load(self, name: str, take: Callable[[ShardRow, bytes], _T]) -> _T | None:
        """Read a shard; if others have committed, the one that has taken its place, or ``None`` for none."""
        for _ in range(_MOST_ATTEMPTS):
            shard = self._shards.get(name)
            if shard is None:
                return None
            try:
                return take(shard, read_shard_bytes(self._source, shard))
            except Untrusted as error:
                finding = error.finding
            self._take(_read_present_root(self._source))
            if self._shards.get(name) == shard:
                break
        raise FixtureIntegrityFailed([finding])

    def _pick(self, shard: ShardRow, data: bytes, table: bytes) -> Rows:
        return Rows(_parse(shard, data)) if table in self._note_words(shard, data) else _NONE

    def _pick_model(self, shard: ShardRow, data: bytes, model: str) -> Rows:
        """As :meth:`_pick`; none if no row can have a model."""
        is_there = b"\\" in data or model.encode(errors="surrogatepass") in data
        return self._pick(shard, data, _FIXTURES) if is_there else _NONE

    def _note_words(self, shard: ShardRow, data: bytes) -> frozenset[bytes]:
        # However a shard is written, a table begins with its name, and a value stands behind its own.
        words = self._words[shard.blake3] = frozenset(word for word in _WORDS if word in data)
        return words

    def _keep(self, shard: ShardRow, data: bytes) -> _Kept:
        rows = None
        if shard.blake3 not in self._searchable:
            index = _parse(shard, data)
            if _is_searchable(index, data):
                self._searchable.add(shard.blake3)
            else:
                rows = Rows(index)
        kept = _Kept(shard.blake3, data, rows)
        self._drop(shard.name)
        self._kept[shard.name] = kept
        self._size += len(data)
        while self._size > _MOST_BYTES and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))
        return kept

    def _drop(self, name: str) -> None:
        if (kept := self._kept.pop(name, None)) is not None:
            self._size -= len(kept.data)


_NONE: Final = Rows(Index())


@pause_gc()
def _parse(shard: ShardRow, data: bytes) -> Index:
    index = trust_shard(shard, data)
    if findings := trust_rows(index, Layout.NESTED):
        raise FixtureIntegrityFailed(findings)
    return index


def _is_searchable(index: Index, data: bytes) -> bool:
    """Whether each row of a shard has its values as this project writes them, and where it does."""
    keyed = [content_key(row) for row in index.rows]
    return (
        b"\\" not in data
        and data.count(_BLAKE3) == len(keyed)
        and data.count(_PROMPT_HASH) == sum(key[1] is not None for key in keyed)
        and data.count(_KEY) == sum(key[3] is not None for key in keyed)
    )


def _search(data: bytes, line: bytes) -> Rows:
    """The rows in the text of a shard that have a line. The whole of it was read and trusted before.

    To keep the text takes a third of the memory that objects would, and most shards are asked for few rows.
    """
    found: list[Row] = []
    at = data.find(line)
    while at >= 0:
        start, end = data.rfind(_ROW, 0, at) + 1, data.find(_ROW, at)
        found += parse_index(data[start : end + 1 or None].decode()).rows
        at = data.find(line, at + len(line))
    return Rows(Index.of(found, {})) if found else _NONE


def _read_present_root(source: Source) -> Index:
    try:
        return read_root(source)[0]
    except Untrusted as error:
        raise FixtureIntegrityFailed([error.finding]) from None
