"""The rules of trust. Bytes in, trusted values out; no I/O.

A store is trusted only while all of these hold (`docs/store-format.md`, section "Trust"):

* **T1** the index is UTF-8, within its size, in the strict grammar, and of a known version;
* **T2** each row's path stays below the root, is not reserved, and no two rows name one file on
  any file system, unless one of them is of a scope and both say the same of the file; a row for a fixture
  carries both halves of its key or none, and one of a scope a whole key and the scope's name;
* **T3** every hash is spelled as 64 lower-case hex digits;
* **T4** each listed file is there, and each file that must be listed is;
* **T5** a file's bytes have the hash of its row;
* **T6** those same bytes are one JSON document that reads as a fixture, or as an exchange;
* **T7** the file's key is its row's key, and no two rows of one table have one key, or one key and scope;
* **T8** a stored request hashes to the key, unless a secret was cut out of it by value;
* **T9** a stored stream adds up to the stored answer: what a reviewer reads is what a client gets;
* **T10** a stored wire body decodes to the stored answer: its text, tool calls and finish reason, and
  what else the answer has; one of a protocol without a codec is not trusted.

Whoever calls these functions reads each file once and passes that buffer: what was hashed is what
is parsed and served.
"""

from __future__ import annotations

from collections.abc import Iterable, Set as AbstractSet
from enum import StrEnum
from typing import Final

from cortex_replay.canonical import KEY_VERSION
from cortex_replay.errors import Finding
from cortex_replay.hashing import are_digests, blake3_hex, is_digest
from cortex_replay.store import hints
from cortex_replay.store.answers import answer_problem
from cortex_replay.store.exchange import Exchange, parse_exchange
from cortex_replay.store.fixture import Fixture, FixtureKey
from cortex_replay.store.fixture_json import FixtureError, parse_fixture
from cortex_replay.store.index import (
    FORMAT_VERSION,
    ExchangeRow,
    FixtureRow,
    Index,
    IndexSyntaxError,
    Row,
    ScopedRow,
    content_key,
    parse_index,
)
from cortex_replay.store.paths import (
    INDEX_NAME,
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
    "MAX_SCOPE_LENGTH",
    "Layout",
    "Untrusted",
    "check_bytes",
    "compare_listing",
    "duplicate_keys",
    "layout_of",
    "scope_problem",
    "trust_exchange",
    "trust_fixture",
    "trust_index",
    "trust_rows",
]

MAX_INDEX_BYTES: Final = 32 * 2**20
MAX_FIXTURE_BYTES: Final = 64 * 2**20
MAX_SCOPE_LENGTH: Final = 512
"""Of a scope's name, in characters."""


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
    """T1: read an index.

    Raises:
        Untrusted: It is not in the grammar, or of a version this program does not know.
    """
    if len(data) > MAX_INDEX_BYTES:
        raise Untrusted(Finding("too-large", INDEX_NAME, f"larger than {MAX_INDEX_BYTES} bytes"))
    try:
        text = data.decode("utf-8")
        index = parse_index(text)
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 at byte {error.start}"
        raise Untrusted(Finding("index-malformed", INDEX_NAME, reason, hints.for_index(data))) from None
    except IndexSyntaxError as error:
        raise Untrusted(Finding("index-malformed", INDEX_NAME, str(error), hints.for_index(data))) from None
    for name, known in (("format", FORMAT_VERSION), ("key", KEY_VERSION)):
        version = index.header.get(name, known)
        if version != known or isinstance(version, bool):
            reason = f"{name} = {version!r} is not a version this program knows"
            raise Untrusted(Finding("index-version", INDEX_NAME, reason, hints.UPGRADE))
    return index


def layout_of(index: Index, has_nested_folder: bool) -> Layout:
    """Where this index's files stand."""
    prefix = f"{NESTED_FOLDER}/"
    if index.rows:
        nested = all(row.path.startswith(prefix) for row in index.rows)
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
        path, key = row.path, row[2:]
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
        if set(key) != {None}:
            if problem := _key_problem(row):
                findings.append(Finding("key-spelling", escape(path), problem))
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
    if (row.blake3, content_key(row)) != (earlier.blake3, content_key(earlier)):
        return "is listed twice, as two different recordings"
    return None


def _are_plainly_sound(index: Index, reserved: str) -> bool:
    """Whether no row can have a finding, told from whole columns at a tenth of the cost.

    True only for rows that all carry a key, with plain paths; everything else is looked at row by
    row. That a sound table has no finding is a property under test.
    """
    if index.exchanges or index.scoped or not index.fixtures:
        return False
    paths, hashes, models, prompt_hashes = zip(*index.fixtures, strict=True)
    return (
        None not in models
        and None not in prompt_hashes
        and are_plain_paths(paths)
        and reserved not in paths
        and are_digests(hashes)
        and are_digests(prompt_hashes)
        and (
            len(set(prompt_hashes)) == len(prompt_hashes)
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
    if isinstance(row, ScopedRow):
        if problem := scope_problem(row.scope):
            return problem
        row = FixtureRow(*row[:4]) if row.is_fixture else ExchangeRow(*row[:6])
    match row:
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


def trust_fixture(row: FixtureRow | ScopedRow, data: bytes) -> Fixture:
    """T5 to T10 for one file of ``[[fixture]]``, or of a scope.

    Raises:
        Untrusted: A rule is broken; the first one, since the later ones build on it.
    """
    check_bytes(row, data)
    try:
        fixture = parse_fixture(data)
    except FixtureError as error:
        raise Untrusted(Finding(error.code, row.path, str(error))) from None
    if row.prompt_hash is not None and (row.model, row.prompt_hash) != fixture.key:
        raise Untrusted(Finding("key-mismatch", row.path, "its request_match is not the key of its row"))
    request = fixture.request
    if request is not None and not fixture.is_request_redacted:
        actual = request.prompt_hash()
        if actual != fixture.key.prompt_hash:
            reason = f"its stored request hashes to {actual}, not to its key {fixture.key.prompt_hash}"
            raise Untrusted(Finding("request-mismatch", row.path, reason, hints.REKEY))
    for number, answer in enumerate(fixture.answers, start=1):
        if problem := answer_problem(answer, fixture.key.model):
            code, reason = problem
            raise Untrusted(Finding(code, row.path, f"answer {number}: {reason}"))
    return fixture


def trust_exchange(row: ExchangeRow | ScopedRow, data: bytes) -> Exchange:
    """T5 to T7 for one file of ``[[exchange]]``, or of a scope.

    Raises:
        Untrusted: A rule is broken.
    """
    check_bytes(row, data)
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
