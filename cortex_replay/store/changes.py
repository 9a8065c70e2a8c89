"""What a commit would do: a value, made from the present index and the wanted changes. No I/O."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from blake3 import blake3

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.errors import FixtureConflict
from cortex_replay.hashing import blake3_hex
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey
from cortex_replay.store.index import ExchangeRow, FixtureRow, Index, Row
from cortex_replay.store.paths import EXCHANGES_FOLDER
from cortex_replay.store.trust import Layout, trust_exchange, trust_fixture

__all__ = [
    "Add",
    "Changes",
    "Essence",
    "Remove",
    "essence_of",
    "essence_of_answer",
    "essence_of_exchange",
    "fixture_path",
    "new_exchange",
    "new_fixture",
    "plan_changes",
]

_SLUG_LENGTH: Final = 64
# Names that mean a device on Windows, with any suffix.
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")


Essence = tuple[bytes, ...]
"""What a recording says: a hash per answer. An exchange says one thing."""
RowKey = tuple[str | None, ...]
"""What stands in a row after its path and hash. No fixture's is an exchange's: theirs is longer."""


@dataclass(frozen=True, slots=True)
class Add:
    """A fixture or an exchange to be listed; its bytes wait in a staged file."""

    row: Row
    essence: Essence
    """What it says; the recording itself is not kept in memory."""
    overwrite: bool = False
    keep_existing: bool = False
    """Whether another answer that is there already stays, and this one is dropped without complaint."""

    @property
    def key(self) -> RowKey:
        return self.row[2:]


@dataclass(frozen=True, slots=True)
class Remove:
    """A key to be dropped: a fixture's with the failures under it, or that of one failure."""

    key: RowKey


@dataclass(frozen=True, slots=True)
class Changes:
    """The index after a commit, and the files that come and go with it."""

    index: Index
    added: list[Add] = field(default_factory=list)
    removed: list[Row] = field(default_factory=list)
    dropped: list[Add] = field(default_factory=list)
    """What was dropped for an answer that is there already."""

    @property
    def is_empty(self) -> bool:
        return not self.added and not self.removed


def plan_changes(
    index: Index, wanted: Iterable[Add | Remove], read_essence: Callable[[Row], Essence]
) -> Changes:
    """What ``wanted`` comes to, one after the other, on top of ``index``.

    Args:
        index: What is committed now, by whomever. Every row has its key.
        wanted: The changes in the order they were asked for.
        read_essence: What the trusted file of a committed row says; asked only where a key is taken.

    Raises:
        FixtureConflict: A key has another answer already, and the change does not overwrite.
    """
    before: dict[RowKey, Row] = {row[2:]: row for row in index.rows}
    after = dict(before)
    added: dict[str, Add] = {}
    dropped: list[Add] = []
    failures: defaultdict[RowKey, list[RowKey]] = defaultdict(list)
    for exchange in index.exchanges:
        failures[exchange[2:4]].append(exchange[2:])
    for change in wanted:
        if isinstance(change, Remove):
            for key in (tuple(change.key), *failures.pop(tuple(change.key), ())):
                after.pop(key, None)
            continue
        failures[change.row[2:4]] += [change.key] * isinstance(change.row, ExchangeRow)
        row = after.get(change.key)
        if row is not None:
            is_committed = row.path not in added
            there = read_essence(row) if is_committed else added[row.path].essence
            # Whatever times, ids and usage say, a committed file stays untouched. Of what is only staged, the
            # last word counts: it may know more.
            if _is_known(change, there) and (is_committed or there != change.essence):
                continue
            if not change.overwrite and change.essence[: len(there)] != there:
                if not change.keep_existing:
                    raise FixtureConflict(
                        change.row.model or "", change.row.prompt_hash or change.row[-1] or ""
                    )
                dropped.append(change)
                continue
        after[change.key], added[change.row.path] = change.row, change
    listed = {row.path for row in after.values()}
    new = listed - {row.path for row in before.values()}
    return Changes(
        Index.of(after.values(), index.header),
        [change for path, change in added.items() if path in new],
        [row for row in before.values() if row.path not in listed],
        dropped,
    )


def _is_known(change: Add, there: Essence) -> bool:
    """Whether what is there says all that the change does; an overwriting one wants nothing beside it."""
    return there == change.essence or (
        not change.overwrite and there[: len(change.essence)] == change.essence
    )


def essence_of(fixture: Fixture) -> Essence:
    """A hash of what each answer says. Two are the same when theirs are equal, whatever times, call
    ids and usage say."""
    return tuple(essence_of_answer(answer) for answer in fixture.answers)


def essence_of_answer(answer: Answer) -> bytes:
    numbers: dict[str | None, int] = {}
    calls: list[JsonValue] = [
        [numbers.setdefault(call.id, len(numbers)), call.name, call.arguments] for call in answer.tool_calls
    ]
    said = compact([answer.text, answer.parsed_json, answer.finish_reason, calls])
    return blake3(said.encode()).digest()


def essence_of_exchange(exchange: Exchange) -> Essence:
    """The status and the body; headers and times vary between equal answers."""
    wire = exchange.wire
    body: list[JsonValue] = [wire.get("status"), wire.get("body"), wire.get("body_base64")]
    events = wire.get("events")
    if isinstance(events, list):
        body.append([event.get("text") if isinstance(event, dict) else event for event in events])
    return (blake3(compact(body).encode()).digest(),)


def new_fixture(
    layout: Layout, key: FixtureKey, data: bytes, *, overwrite: bool = False, keep_existing: bool = False
) -> Add:
    """The addition of a fixture that is written as ``data``.

    Raises:
        Untrusted: Nobody could read it back: whatever is written is trusted by the same rules.
    """
    digest = blake3_hex(data)
    row = FixtureRow(fixture_path(layout, key, digest), digest, *key)
    return Add(row, essence_of(trust_fixture(row, data)), overwrite, keep_existing)


def new_exchange(
    layout: Layout, exchange: Exchange, data: bytes, *, overwrite: bool = False, keep_existing: bool = False
) -> Add:
    """The addition of an exchange; see :func:`new_fixture`."""
    digest = blake3_hex(data)
    folder = f"{layout.folder}/{EXCHANGES_FOLDER}".removeprefix("/")
    of_what = exchange.key[:16] if exchange.key else f"{exchange.row_key[1] or ''}"[:16] + f"-{exchange.n}"
    row = ExchangeRow(f"{folder}/{of_what}-{digest[:8]}.json", digest, *exchange.row_key)
    return Add(row, essence_of_exchange(trust_exchange(row, data)), overwrite, keep_existing)


def fixture_path(layout: Layout, key: FixtureKey, digest: str) -> str:
    """Where a new fixture goes: a plain name that carries its key and its content."""
    slug = re.sub(r"[^a-z0-9._-]+", "-", key.model.lower()).strip(".-")[:_SLUG_LENGTH].rstrip(".-") or "model"
    slug = re.sub(r"\.json$", "-json", slug)  # a folder of that name would pass for a fixture
    if _RESERVED.fullmatch(slug):
        slug = f"{slug.partition('.')[0]}-model"
    name = f"{key.prompt_hash[:16]}-{digest[:8]}.json"
    return f"fixtures/{slug}/{name}" if layout is Layout.NESTED else f"{slug}-{name}"
