"""The changes that a commit is made of, and what recordings say, by which they are compared. No I/O.

:mod:`.planning` makes a commit of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from blake3 import blake3

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.errors import StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.mcp.questions import server_in, subject_of
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey
from cortex_replay.store.index.index import ContentKey, ExchangeRow, FixtureRow, Index, Row
from cortex_replay.store.index.shards import shard_of, shard_of_key
from cortex_replay.store.paths import EXCHANGES_FOLDER
from cortex_replay.store.trust import Layout, scope_problem, trust_exchange, trust_fixture

__all__ = [
    "Add",
    "Changes",
    "Essence",
    "Pin",
    "Remove",
    "Said",
    "StoreChanged",
    "essence_of",
    "essence_of_answer",
    "essence_of_exchange",
    "exact_essence_of_answer",
    "fixture_path",
    "is_apart",
    "new_exchange",
    "new_fixture",
    "said_by",
    "said_by_exchange",
    "says_one_thing",
    "shard_of_change",
]

_SLUG_LENGTH: Final = 64
_CALL_LENGTH: Final = 40
_CALLS_FOLDER: Final = "mcp"
_SCOPES_FOLDER: Final = "scopes"
# Names that mean a device on Windows, with any suffix.
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")


Essence = tuple[bytes, ...]
"""What a recording says: a hash per answer."""


class StoreChanged(StoreIo):
    """Another process committed, so that what was planned may no longer be right; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("the store changed in the meantime; look again and then repeat the command")


class Said(NamedTuple):
    """What a recording says, and whose it is."""

    essence: Essence
    exact: Essence
    """With ids, usage and the bytes of the wire: what the tests of other recorders may look at."""
    owner: str
    """The scope that recorded it; "" for none in particular."""


@dataclass(frozen=True, slots=True)
class Add:
    """A fixture or an exchange to be listed; its bytes wait in a staged file."""

    row: FixtureRow | ExchangeRow
    said: Said
    """What it says; the recording itself is not kept in memory."""
    overwrite: bool = False
    keep_existing: bool = False
    """Whether another answer that is there already stays, and this one is dropped without complaint."""
    scope: str = ""
    """Who recorded it, and is to get it; "" for whoever has no answer of its own."""
    is_exact: bool = False
    """Whether only what is equal to the last byte counts as the same."""
    length: int = 0
    """How many messages its request has."""


@dataclass(frozen=True, slots=True)
class Remove:
    """What a scope has under a key is to be dropped: a fixture with its failures, one of these alone, or an
    opaque exchange."""

    key: ContentKey
    scope: str = ""
    is_kept: bool = False
    """Whether it comes along with the answers that it makes room for, when another process adopts them."""
    files: frozenset[str] = frozenset()
    """The hashes of all that is there, where nothing else may be dropped; empty for whatever there is."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A scope was given what others recorded: that is to be its own, whatever they record later.

    The rows are the whole sequence under a key, as they were when it was given.
    """

    rows: tuple[Row, ...]
    scope: str


@dataclass(frozen=True, slots=True)
class Changes:
    """The index after a commit, and the files that come and go with it."""

    index: Index
    added: list[Add] = field(default_factory=list)
    removed: list[Row] = field(default_factory=list)
    dropped: list[Add] = field(default_factory=list)
    """What was dropped for an answer that is there already."""
    is_empty: bool = False
    """Whether the index stays as it is."""
    keys: frozenset[FixtureKey] = frozenset()
    """Those of fixtures whose rows may have changed."""


def shard_of_change(change: Add | Remove | Pin) -> str:
    """The shard that has all rows which a change may concern, in an index that has shards."""
    if isinstance(change, Remove):
        model, prompt_hash, _, key = change.key
        return shard_of_key(model, prompt_hash, key)
    return shard_of(change.rows[0] if isinstance(change, Pin) else change.row)


def said_by(fixture: Fixture) -> Said:
    """What a fixture says."""
    exact = tuple(exact_essence_of_answer(answer) for answer in fixture.answers)
    return Said(essence_of(fixture), exact, _owner_in(fixture.meta))


def said_by_exchange(exchange: Exchange) -> Said:
    """What an exchange says, which is always exact."""
    essence = essence_of_exchange(exchange)
    return Said(essence, essence, _owner_in(exchange.meta))


def _owner_in(meta: Mapping[str, JsonValue] | None) -> str:
    scope = (meta or {}).get("scope")
    return scope if isinstance(scope, str) and scope_problem(scope) is None else ""


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


def exact_essence_of_answer(answer: Answer) -> bytes:
    """The same with everything that a client can see of an answer, but for headers and times."""
    calls: list[JsonValue] = [call.to_dict() for call in answer.tool_calls]
    usage = None if answer.usage is None else answer.usage.to_dict()
    if usage is not None and answer.wire is not None:
        # The wire says it, and recordings of earlier versions say it nowhere else.
        usage.pop("cache_write_1h_tokens", None)
    deltas: list[JsonValue] = [timed.chunk.delta for timed in answer.stream] if answer.wire is None else []
    wire = None if answer.wire is None else [answer.wire.get("stream"), _body_of(answer.wire)]
    rest: list[JsonValue] = [answer.model, usage, answer.reasoning, calls, deltas, wire]
    return blake3(essence_of_answer(answer) + compact(rest).encode()).digest()


def essence_of_exchange(exchange: Exchange) -> Essence:
    """The status and the body of each answer; headers and times vary between equal ones."""
    return tuple(map(_essence_of_wire, exchange.wires))


def says_one_thing(exchange: Exchange) -> bool:
    """Whether all answers of an exchange are the same. It ends at the first that is not."""
    first = _essence_of_wire(exchange.wire)
    return all(_essence_of_wire(wire) == first for wire in exchange.then)


def _essence_of_wire(wire: Mapping[str, JsonValue]) -> bytes:
    return blake3(compact(_body_of(wire)).encode()).digest()


def _body_of(wire: Mapping[str, JsonValue]) -> JsonValue:
    body: list[JsonValue] = [wire.get("status"), wire.get("body"), wire.get("body_base64")]
    events = wire.get("events")
    if isinstance(events, list):
        said = (
            event.get("text", event.get("message")) if isinstance(event, dict) else event for event in events
        )
        body.append(list(said))
    frames = wire.get("frames")
    if isinstance(frames, list):
        timeless = [{**frame, "at_ms": 0} if isinstance(frame, dict) else frame for frame in frames]
        body += [timeless, wire.get("close"), wire.get("subprotocol")]
    messages = wire.get("messages")
    if isinstance(messages, list):
        body.append([{**entry, "at_ms": 0} if isinstance(entry, dict) else entry for entry in messages])
    return body


def new_fixture(
    layout: Layout,
    key: FixtureKey,
    data: bytes,
    *,
    overwrite: bool = False,
    keep_existing: bool = False,
    scope: str = "",
    is_exact: bool = False,
) -> Add:
    """The addition of a fixture that is written as ``data``.

    Raises:
        Untrusted: Nobody could read it back: whatever is written is trusted by the same rules.
    """
    digest = blake3_hex(data)
    row = FixtureRow(fixture_path(layout, key, digest, is_apart=bool(scope)), digest, *key)
    fixture = trust_fixture(row, data)
    length = 0 if fixture.request is None else len(fixture.request.messages)
    return Add(row, said_by(fixture), overwrite, keep_existing, scope, is_exact, length)


def new_exchange(
    layout: Layout,
    exchange: Exchange,
    data: bytes,
    *,
    overwrite: bool = False,
    keep_existing: bool = False,
    scope: str = "",
    is_exact: bool = False,
) -> Add:
    """The addition of an exchange; see :func:`new_fixture`."""
    digest = blake3_hex(data)
    folder = f"{layout.folder}/{EXCHANGES_FOLDER}".removeprefix("/")
    of_what = exchange.key[:16] if exchange.key else f"{exchange.row_key[1] or ''}"[:16] + f"-{exchange.n}"
    place = _place_of_call(exchange.request or {})
    row = ExchangeRow(f"{folder}/{place}{of_what}-{digest[:8]}.json", digest, *exchange.row_key)
    said = said_by_exchange(trust_exchange(row, data))
    return Add(row, said, overwrite, keep_existing, scope, is_exact)


def _place_of_call(request: Mapping[str, JsonValue]) -> str:
    """What stands before the key in the place of an MCP call: who reviews it sees which tool was called."""
    server = server_in(request)
    if server is None:
        return ""
    called = [str(request.get("path")), *([subject] if (subject := subject_of(request)) else [])]
    parts = (_slug(part, "", _CALL_LENGTH) for part in called)
    return f"{_CALLS_FOLDER}/{_slug(server, 'server')}/{''.join(f'{part}-' for part in parts if part)}"


def fixture_path(layout: Layout, key: FixtureKey, digest: str, *, is_apart: bool = False) -> str:
    """Where a new fixture goes: a plain name that carries its key and its content.

    Args:
        layout: That of the store.
        key: The fixture's key.
        digest: That of its bytes.
        is_apart: Whether it is for a scope alone.
    """
    slug = _slug(key.model, "model")
    name = f"{key.prompt_hash[:16]}-{digest[:8]}.json"
    if layout is Layout.NESTED:
        return f"fixtures/{slug}/{name}"
    # At the top, crtx-llm wants none but shared ones.
    return f"{_SCOPES_FOLDER}/{slug}-{name}" if is_apart else f"{slug}-{name}"


def is_apart(path: str) -> bool:
    """Whether a fixture stands where a flat store has those of scopes."""
    return path.startswith(f"{_SCOPES_FOLDER}/")


def _slug(text: str, kind: str, longest: int = _SLUG_LENGTH) -> str:
    """A text as a name on every file system: of what kind it is, where it has no name."""
    slug = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip(".-")[:longest].rstrip(".-") or kind
    slug = re.sub(r"\.json$", "-json", slug)  # a folder of that name would pass for a fixture
    return f"{slug.partition('.')[0]}-{kind}" if _RESERVED.fullmatch(slug) else slug
