"""The rules of trust. Bytes in, trusted values out; no I/O.

A store is trusted only while all of these hold (`docs/store-format.md`, section "Trust"):

* **T1** the index is UTF-8, within its size, in the strict grammar, and of a known version; it has rows, or
  shards that have no shards themselves;
* **T2** each row's path stays below the root, is not reserved, and no two rows name one file on
  any file system, unless one of them is of a scope and both say the same of the file; a row for a fixture
  carries both halves of its key or none, and one of a scope a whole key and the scope's name; a row stands in
  the shard of what it is about;
* **T3** every hash is spelled as 64 lower-case hex digits;
* **T4** each listed file is there, and each file that must be listed is; so are shards;
* **T5** a file's bytes have the hash of its row; a shard's have that of the root;
* **T6** those same bytes are one JSON document that reads as a fixture, as an exchange or as a part;
* **T7** the file's key is its row's key, and what it continues is what its row says; no two rows of
  one table have one key, or one key and scope;
* **T8** a stored request can be put together (:mod:`.requests.links`) and hashes to the key, unless a secret
  was cut out of it by value;
* **T9** a stored stream adds up to the stored answer: what a reviewer reads is what a client gets;
* **T10** a stored wire body decodes to the stored answer: its text, tool calls and finish reason, and
  what else the answer has; one of a protocol without a codec is not trusted.

Whoever calls these functions reads each file once and passes that buffer: what was hashed is what
is parsed and served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set as AbstractSet
from enum import StrEnum
from typing import Final

from cortex_replay.canonical import KEY_VERSION, JsonValue
from cortex_replay.errors import Finding
from cortex_replay.hashing import are_digests, blake3_hex, is_digest
from cortex_replay.store import hints
from cortex_replay.store.answers import answer_problem
from cortex_replay.store.exchange import Exchange, parse_exchange
from cortex_replay.store.fixture import Fixture, FixtureKey
from cortex_replay.store.fixture_json import FixtureError, parse_fixture, part_in, read_document
from cortex_replay.store.index.index import (
    FORMAT_VERSION,
    ExchangeRow,
    FixtureRow,
    Index,
    IndexSyntaxError,
    PartRow,
    Row,
    ScopedRow,
    ShardRow,
    content_key,
    continued_by,
    parse_index,
    row_key,
)
from cortex_replay.store.index.shards import SHARD_NAMES, shard_of
from cortex_replay.store.paths import (
    INDEX_NAME,
    MAX_INDEX_BYTES,
    NESTED_FOLDER,
    UNPRINTABLE,
    are_plain_paths,
    escape,
    fold_path,
    is_fixture_name,
    path_problem,
)

__all__ = [
    "MAX_FIXTURE_BYTES",
    "MAX_INDEX_BYTES",
    "MAX_PART_BYTES",
    "MAX_SCOPE_LENGTH",
    "Complete",
    "Layout",
    "Untrusted",
    "check_bytes",
    "check_shard_bytes",
    "compare_listing",
    "duplicate_keys",
    "judge_exchange",
    "judge_fixture",
    "judge_part",
    "layout_of",
    "scope_problem",
    "trust_answers",
    "trust_content",
    "trust_exchange",
    "trust_fixture",
    "trust_index",
    "trust_part",
    "trust_prompt_hash",
    "trust_request",
    "trust_rows",
    "trust_shard",
]

MAX_FIXTURE_BYTES: Final = 64 * 2**20
MAX_PART_BYTES: Final = 2 * 2**20
"""Thousands of small files may name one part, and each of their requests is hashed with all of it."""
MAX_SCOPE_LENGTH: Final = 512
"""Of a scope's name, in characters."""


Complete = Callable[["FixtureRow | ScopedRow", Fixture], Fixture]
"""Puts the request of a fixture together, and holds it to T8. What it gives may still lack the request, where
that was to be checked and no more."""


class Untrusted(Exception):
    """A rule is broken; carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.finding = finding


class Layout(StrEnum):
    """Where the files of a store stand."""

    NESTED = "nested"
    """Below ``fixtures/``, beside the index."""
    FLAT = "flat"
    """Beside and below the index itself, as ``crtx-llm`` has them."""

    @property
    def folder(self) -> str:
        """What must be listed stands below this folder; "" is the root."""
        return NESTED_FOLDER if self is Layout.NESTED else ""

    @property
    def schema_path(self) -> str:
        """The one name at the top of that folder that is never a fixture."""
        return f"{self.folder}/schema.json".removeprefix("/")


def trust_index(data: bytes) -> Index:
    """T1: read ``INDEX.toml``, which may be the root of shards.

    Raises:
        Untrusted: It is not in the grammar, or of a version this program does not know.
    """
    index = _read_index(INDEX_NAME, data)
    if index.shards and index.rows:
        raise Untrusted(Finding("index-malformed", INDEX_NAME, "has rows beside shards", hints.RESTORE))
    names = [shard.name for shard in index.shards]
    if len(set(names)) < len(names) or not SHARD_NAMES.issuperset(names):
        reason = "the name of a shard stands twice, or is not two lower-case hex digits"
        raise Untrusted(Finding("index-malformed", INDEX_NAME, reason, hints.RESTORE))
    for shard in index.shards:
        if not is_digest(shard.blake3):
            reason = "its blake3 in the index is not 64 lower-case hex digits"
            raise Untrusted(Finding("hash-spelling", shard.path, reason))
    return index


def check_shard_bytes(shard: ShardRow, data: bytes) -> None:
    """T5 for a shard.

    Raises:
        Untrusted: The bytes are not those that the root vouches for.
    """
    actual = blake3_hex(data)
    if actual != shard.blake3:
        reason = f"its bytes differ from {INDEX_NAME} (expected {shard.blake3}, got {actual})"
        raise Untrusted(Finding("mismatch", shard.path, reason, hints.for_shard(shard.blake3, data)))


def trust_shard(shard: ShardRow, data: bytes) -> Index:
    """T1, T2 and T5 for one shard, but for the rules of single rows (:func:`trust_rows`).

    Raises:
        Untrusted: The bytes are not those that the root vouches for, or are no shard.
    """
    check_shard_bytes(shard, data)
    index = _read_index(shard.path, data)
    if index.shards:
        raise Untrusted(Finding("index-malformed", shard.path, "a shard has shards itself"))
    for row in index.rows:
        if (name := shard_of(row)) != shard.name:
            reason = f"the row of {escape(row.path)} belongs to the shard {name}"
            raise Untrusted(Finding("row-misplaced", shard.path, reason, hints.RESTORE))
    return index


def _read_index(path: str, data: bytes) -> Index:
    if len(data) > MAX_INDEX_BYTES:
        raise Untrusted(Finding("too-large", path, f"larger than {MAX_INDEX_BYTES} bytes"))
    try:
        text = data.decode("utf-8")
        index = parse_index(text)
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 at byte {error.start}"
        raise Untrusted(Finding("index-malformed", path, reason, hints.for_index(data))) from None
    except IndexSyntaxError as error:
        raise Untrusted(Finding("index-malformed", path, str(error), hints.for_index(data))) from None
    for name, known in (("format", FORMAT_VERSION), ("key", KEY_VERSION)):
        version = index.header.get(name, known)
        if version != known or isinstance(version, bool):
            reason = f"{name} = {version!r} is not a version this program knows"
            raise Untrusted(Finding("index-version", path, reason, hints.UPGRADE))
    return index


def layout_of(index: Index, has_nested_folder: bool) -> Layout:
    """Where this index's files stand."""
    prefix = f"{NESTED_FOLDER}/"
    if index.shards:
        return Layout.NESTED  # crtx-llm, which has the other one, knows no shards
    if paths := [row[0] for row in index.rows]:
        nested = min(paths).startswith(prefix) and max(paths).startswith(prefix)  # and so do all between
    else:
        nested = "format" in index.header or has_nested_folder
    return Layout.NESTED if nested else Layout.FLAT


def trust_rows(index: Index, layout: Layout) -> list[Finding]:
    """T2, T3 and T7, as far as the index alone can tell."""
    reserved = layout.schema_path
    if _are_plainly_sound(index, reserved):
        return []
    findings: list[Finding] = []
    named: dict[str, Row] = {}
    keys: dict[tuple[str | None, ...], str] = {}
    for row in index.rows:
        path, key = row.path, row_key(row)
        if problem := path_problem(path):
            findings.append(Finding("path-unsafe", escape(path), f"this path {problem}"))
        elif path == reserved:
            reason = "this name is kept for the schema and can never be a fixture"
            findings.append(Finding("path-reserved", path, reason))
        fold = fold_path(path)
        if fold in named and (clash := _clash(row, named[fold])):
            findings.append(Finding("path-duplicate", escape(path), clash))
        named[fold] = row
        if not is_digest(row.blake3):
            reason = "its blake3 in the index is not 64 lower-case hex digits"
            findings.append(Finding("hash-spelling", escape(path), reason))
        has_key = set(key) != {None}
        if (has_key or continued_by(row) is not None) and (problem := _key_problem(row)):
            findings.append(Finding("key-spelling", escape(path), problem))
        if has_key:
            # The tables cannot collide: their keys have different lengths.
            if key in keys:
                findings.append(_duplicate_key(path, keys[key]))
            keys[key] = path
    return findings


def _clash(row: Row, earlier: Row) -> str | None:
    """Why two rows must not name what may be one file, or ``None`` if they may."""
    if row.path != earlier.path:
        return f"is {escape(earlier.path)} on some file systems"
    if not isinstance(row, ScopedRow):  # those of scopes come last
        return "is listed twice"
    said = [(one.blake3, content_key(one), continued_by(one)) for one in (row, earlier)]
    if said[0] != said[1]:
        return "is listed twice, as two different recordings"
    return None


def _are_plainly_sound(index: Index, reserved: str) -> bool:
    """Whether no row can have a finding, told from whole columns at a tenth of the cost.

    True only for rows that all carry a key, with plain paths; everything else is looked at row by
    row. That a sound table has no finding is a property under test.
    """
    if index.exchanges or index.scoped or not index.fixtures:
        return False
    paths, hashes, models, prompt_hashes, parents = zip(*index.fixtures, strict=True)
    digests = {row.blake3 for row in index.parts}
    if digests:
        paths += tuple(row.path for row in index.parts)
        hashes += tuple(digests)
    keys = set(prompt_hashes)
    return (
        None not in models
        and None not in keys
        and are_plain_paths(paths)
        and reserved not in paths
        and are_digests(hashes)
        and are_digests(prompt_hashes)
        and are_digests([parent for parent in {*parents} - keys if parent is not None])
        and len(digests) == len(index.parts)
        and (
            len(keys) == len(prompt_hashes)
            or len(set(zip(models, prompt_hashes, strict=True))) == len(models)
        )
    )


def scope_problem(scope: str) -> str | None:
    """Why a scope cannot have this name, or ``None`` if it can."""
    if not scope:
        return "the name of its scope is empty"
    if len(scope) > MAX_SCOPE_LENGTH:
        return f"the name of its scope has more than {MAX_SCOPE_LENGTH} characters"
    if UNPRINTABLE.search(scope):
        return "the name of its scope holds a character that cannot be printed"
    return None


def _key_problem(row: Row) -> str | None:
    if (parent := continued_by(row)) is not None:
        if not is_digest(parent):
            return "what it continues is not spelled as 64 lower-case hex digits"
        if isinstance(row, ScopedRow) and not row.is_fixture:
            return "it says that it continues another, which only a fixture can"
    if isinstance(row, ScopedRow):
        if problem := scope_problem(row.scope):
            return problem
        row = FixtureRow(*row[:4]) if row.is_fixture else ExchangeRow(*row[:6])
    match row:
        case PartRow():
            return None
        case FixtureRow(model=str(), prompt_hash=str() as digest):
            pass
        case ExchangeRow(model=str(), prompt_hash=str() as digest, n=str(), key=None):
            pass
        case ExchangeRow(model=None, prompt_hash=None, n=None, key=str() as digest):
            pass
        case _:
            return "its key in the index is incomplete"
    return None if is_digest(digest) else "its key in the index is not 64 lower-case hex digits"


def compare_listing(
    index: Index, layout: Layout, files: AbstractSet[str], moving: AbstractSet[str] = frozenset()
) -> list[Finding]:
    """T4: the index and the folder name the same files, but for those that a commit is moving.

    Those that the project leaves out (:mod:`.left_out`) are the caller's to drop: nearly no store has any.
    """
    listed = {row.path for row in index.rows}
    missing = sorted(path for path in listed - files if path_problem(path) is None)
    unlisted = sorted(
        path for path in files - listed - moving if is_fixture_name(path) and path != layout.schema_path
    )
    return [Finding("missing", path, "is listed but not there", hints.MISSING) for path in missing] + [
        Finding("unlisted", escape(path), "is not listed in INDEX.toml", hints.for_unlisted(escape(path)))
        for path in unlisted
    ]


def check_bytes(row: Row, data: bytes) -> None:
    """T5, the one rule that everything else stands on.

    Raises:
        Untrusted: The bytes are not those that the index vouches for.
    """
    if len(data) > MAX_FIXTURE_BYTES:
        raise Untrusted(Finding("too-large", row.path, f"larger than {MAX_FIXTURE_BYTES} bytes"))
    actual = blake3_hex(data)
    if actual != row.blake3:
        reason = f"its bytes differ from the index (expected {row.blake3}, got {actual})"
        raise Untrusted(Finding("mismatch", row.path, reason, hints.for_mismatch(row, data)))


def trust_fixture(row: FixtureRow | ScopedRow, data: bytes, complete: Complete | None = None) -> Fixture:
    """T5 to T10 for one file of ``[[fixture]]``, or of a scope.

    Args:
        row: Its row.
        data: Its bytes.
        complete: How a request is put together that does not stand there whole.

    Raises:
        Untrusted: A rule is broken; the first one, since the later ones build on it.
    """
    check_bytes(row, data)
    return judge_fixture(row, data, complete)


def judge_fixture(row: FixtureRow | ScopedRow, data: bytes, complete: Complete | None = None) -> Fixture:
    """T6 to T10, for bytes that have passed :func:`check_bytes`; else as :func:`trust_fixture`.

    Raises:
        Untrusted: A rule is broken.
    """
    fixture = _judge_content(row, data)
    if fixture.link is None:
        trust_request(row, fixture)
    elif complete is not None:
        fixture = complete(row, fixture)
    else:
        reason = "its request is not whole, and what it continues is not at hand"
        raise Untrusted(Finding("link-broken", row.path, reason))
    trust_answers(row, fixture)
    return fixture


def trust_content(row: FixtureRow | ScopedRow, data: bytes) -> Fixture:
    """T5 to T7: a fixture as its file has it, perhaps without the whole request.

    Raises:
        Untrusted: A rule is broken.
    """
    check_bytes(row, data)
    return _judge_content(row, data)


def _judge_content(row: FixtureRow | ScopedRow, data: bytes) -> Fixture:
    try:
        fixture = parse_fixture(data)
    except FixtureError as error:
        raise Untrusted(Finding(error.code, row.path, str(error))) from None
    if row.prompt_hash is not None and (row.model, row.prompt_hash) != fixture.key:
        raise Untrusted(Finding("key-mismatch", row.path, "its request_match is not the key of its row"))
    if row.continues != (None if fixture.link is None else fixture.link.continues):
        reason = "its row in the index does not say what its request continues, or says something else"
        raise Untrusted(Finding("link-broken", row.path, reason))
    return fixture


def trust_request(row: FixtureRow | ScopedRow, fixture: Fixture) -> None:
    """T8, for a fixture whose request is whole.

    Raises:
        Untrusted: The request is not what the key says.
    """
    request = fixture.request
    if request is not None and not fixture.is_request_redacted:
        trust_prompt_hash(row, fixture.key, request.prompt_hash())


def trust_prompt_hash(row: FixtureRow | ScopedRow, key: FixtureKey, actual: str) -> None:
    """T8, once the request was hashed.

    Raises:
        Untrusted: The request is not what the key says.
    """
    if actual != key.prompt_hash:
        reason = f"its stored request hashes to {actual}, not to its key {key.prompt_hash}"
        raise Untrusted(Finding("request-mismatch", row.path, reason, hints.REKEY))


def trust_answers(row: FixtureRow | ScopedRow, fixture: Fixture) -> None:
    """T9 and T10.

    Raises:
        Untrusted: An answer is not what its stream or its wire says.
    """
    for number, answer in enumerate(fixture.answers, start=1):
        if problem := answer_problem(answer, fixture.key.model):
            code, reason = problem
            raise Untrusted(Finding(code, row.path, f"answer {number}: {reason}"))


def trust_part(row: PartRow, data: bytes) -> Mapping[str, JsonValue]:
    """T5 and T6 for one file of ``[[part]]``.

    Raises:
        Untrusted: A rule is broken.
    """
    check_bytes(row, data)
    return judge_part(row, data)


def judge_part(row: PartRow, data: bytes) -> Mapping[str, JsonValue]:
    """T6, for bytes that have passed :func:`check_bytes`.

    Raises:
        Untrusted: The rule is broken.
    """
    if len(data) > MAX_PART_BYTES:
        raise Untrusted(Finding("too-large", row.path, f"larger than {MAX_PART_BYTES} bytes"))
    try:
        return part_in(read_document(data))
    except FixtureError as error:
        raise Untrusted(Finding(error.code, row.path, str(error))) from None


def trust_exchange(row: ExchangeRow | ScopedRow, data: bytes) -> Exchange:
    """T5 to T7 for one file of ``[[exchange]]``, or of a scope.

    Raises:
        Untrusted: A rule is broken.
    """
    check_bytes(row, data)
    return judge_exchange(row, data)


def judge_exchange(row: ExchangeRow | ScopedRow, data: bytes) -> Exchange:
    """T6 and T7, for bytes that have passed :func:`check_bytes`.

    Raises:
        Untrusted: A rule is broken.
    """
    try:
        exchange = parse_exchange(data)
    except FixtureError as error:
        raise Untrusted(Finding(error.code, row.path, str(error))) from None
    if content_key(row) != exchange.row_key:
        raise Untrusted(Finding("key-mismatch", row.path, "its content is not what the key of its row says"))
    return exchange


def duplicate_keys(found: Iterable[tuple[str, FixtureKey]]) -> list[Finding]:
    """T7 where some rows carry no key, so that the index alone cannot tell: one key in two files."""
    findings: list[Finding] = []
    paths: dict[FixtureKey, str] = {}
    for path, key in found:
        if key in paths:
            findings.append(_duplicate_key(path, paths[key]))
        paths[key] = path
    return findings


def _duplicate_key(path: str, earlier: str) -> Finding:
    return Finding("key-duplicate", escape(path), f"has the key of {escape(earlier)}")
