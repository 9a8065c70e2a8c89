"""What a commit would do: a value, made from the present index and the wanted changes. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from blake3 import blake3

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.errors import FixtureConflict
from cortex_replay.hashing import blake3_hex
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey
from cortex_replay.store.index import FixtureRow, Index
from cortex_replay.store.trusted import Layout

__all__ = ["Add", "Changes", "Remove", "essence_of", "fixture_path", "new_row", "plan_changes"]

_SLUG_LENGTH: Final = 64
# Names that mean a device on Windows, with any suffix.
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")


@dataclass(frozen=True, slots=True)
class Add:
    """A fixture to be listed; its bytes wait in a staged file."""

    row: FixtureRow
    essence: bytes
    """What its answers say, as :func:`essence_of` gives it; the fixture itself is not kept in memory."""
    overwrite: bool = False

    @property
    def key(self) -> FixtureKey:
        return FixtureKey(self.row.model or "", self.row.prompt_hash or "")


@dataclass(frozen=True, slots=True)
class Remove:
    """A key to be dropped."""

    key: FixtureKey


@dataclass(frozen=True, slots=True)
class Changes:
    """The index after a commit, and the files that come and go with it."""

    index: Index
    added: list[Add] = field(default_factory=list)
    removed: list[FixtureRow] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.added and not self.removed


def plan_changes(
    index: Index, wanted: Iterable[Add | Remove], recorded: Callable[[FixtureRow], Fixture]
) -> Changes:
    """What ``wanted`` comes to, one after the other, on top of ``index``.

    Args:
        index: What is committed now, by whomever. Every row has its key.
        wanted: The changes in the order they were asked for.
        recorded: Reads the trusted fixture of a committed row; asked only where a key is taken.

    Raises:
        FixtureConflict: A key has other answers already, and the change does not overwrite.
    """
    before = {FixtureKey(row.model or "", row.prompt_hash or ""): row for row in index.fixtures}
    after = dict(before)
    added: dict[str, Add] = {}
    for change in wanted:
        row = after.get(change.key)
        if isinstance(change, Remove):
            after.pop(change.key, None)
        elif row is None:
            after[change.key], added[change.row.path] = change.row, change
        else:
            there = added[row.path].essence if row.path in added else essence_of(recorded(row))
            if there == change.essence:
                continue  # whatever times, ids and usage say: the file stays untouched
            if not change.overwrite:
                raise FixtureConflict(*change.key)
            after[change.key], added[change.row.path] = change.row, change
    listed = {row.path for row in after.values()}
    new = listed - {row.path for row in before.values()}
    return Changes(
        Index(sorted(after.values()), index.exchanges, index.header),
        [change for path, change in added.items() if path in new],
        [row for row in before.values() if row.path not in listed],
    )


def essence_of(fixture: Fixture) -> bytes:
    """A hash of what a recording says. Two recordings of a key are the same when theirs are equal,
    whatever times, call ids and usage say."""
    return blake3(b"\n".join(map(_essence, fixture.answers))).digest()


def _essence(answer: Answer) -> bytes:
    numbers: dict[str | None, int] = {}
    calls: list[JsonValue] = [
        [numbers.setdefault(call.id, len(numbers)), call.name, call.arguments] for call in answer.tool_calls
    ]
    return compact([answer.text, answer.parsed_json, answer.finish_reason, calls]).encode()


def new_row(layout: Layout, key: FixtureKey, data: bytes) -> FixtureRow:
    """The row of a fixture that is about to be written."""
    digest = blake3_hex(data)
    return FixtureRow(fixture_path(layout, key, digest), digest, *key)


def fixture_path(layout: Layout, key: FixtureKey, digest: str) -> str:
    """Where a new fixture goes: a plain name that carries its key and its content."""
    slug = re.sub(r"[^a-z0-9._-]+", "-", key.model.lower()).strip(".-")[:_SLUG_LENGTH].rstrip(".-") or "model"
    slug = re.sub(r"\.json$", "-json", slug)  # a folder of that name would pass for a fixture
    if _RESERVED.fullmatch(slug):
        slug = f"{slug.partition('.')[0]}-model"
    name = f"{key.prompt_hash[:16]}-{digest[:8]}.json"
    return f"fixtures/{slug}/{name}" if layout is Layout.NESTED else f"{slug}-{name}"
