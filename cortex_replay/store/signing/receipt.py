"""A receipt: proof that an answer is one of a signed store, for who has the signed index alone. No I/O.

It has the row of a recording and what that says, the file itself, and which of its answers is meant. Where
the index has shards, the signature covers their hashes, and the receipt has a proof that the row stands in
its shard (:mod:`.hash_tree`). All that it says is held against the row, the index and the file, so that no
value in it can be another. Without the file it says less: then there is no word of an answer in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.hashing import blake3_hex
from cortex_replay.store.index.grid import render_row
from cortex_replay.store.index.index import FixtureRow, Index, IndexSyntaxError, ScopedRow, parse_index
from cortex_replay.store.index.shards import shard_of
from cortex_replay.store.signing.chain import ChainError, Head
from cortex_replay.store.signing.hash_tree import ProofError, prove, read_proof
from cortex_replay.store.trust import trust_content, trust_index
from cortex_replay.strict_json import JsonError, loads

__all__ = ["MAX_RECEIPT_BYTES", "Receipt", "ReceiptError", "check_receipt", "make_receipt"]

VERSION: Final = 1
MAX_RECEIPT_BYTES: Final = 256 * 2**20
"""A file of 64 MiB in a JSON text, at its worst."""
_BEHIND: Final = (b"", b"\n", b"[", b"#")
"""What may stand behind a row: nothing, an empty line, another row, a comment."""
FileRow = FixtureRow | ScopedRow


class ReceiptError(ValueError):
    """It proves nothing."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a receipt proves, once it is checked."""

    row: FileRow
    head: Head
    n: int | None
    """Which answer of the file it is about; ``None`` if it is about none."""
    answer: str | None
    """The digest of that."""


def make_receipt(
    index: bytes, row: FileRow, shard: bytes | None, file: bytes | None, n: int
) -> dict[str, JsonValue]:
    """A receipt of a row that is in an index.

    Args:
        index: ``INDEX.toml`` as it was signed.
        row: Of the recording.
        shard: The bytes of its shard, if the index has shards.
        file: The file of the recording; ``None`` to leave it out, with its answer.
        n: Which of its answers is meant, from 1.

    Raises:
        ReceiptError: There is nothing to prove: no such row, no such answer, no head.
    """
    if row.prompt_hash is None:
        raise ReceiptError("its row has no key; run `cortex-replay index`, and sign again")
    digest, head = blake3_hex(index), _head_of(trust_index(index))
    made: dict[str, JsonValue] = {
        "receipt": VERSION,
        "store_id": head.store_id,
        "generation": head.generation,
        "index": digest,
        **_facts_of(row),
        "row": render_row(row),
    }
    if shard is not None:
        made["shard"] = _prove_row(shard, render_row(row).encode())
    if file is not None:
        made |= {"n": n, "answer": _answer_in(row, file, n), "fixture": file.decode()}
    return made


def check_receipt(data: bytes, index: bytes, file: bytes | None = None) -> Receipt:
    """Hold a receipt against an index whose signature was checked.

    Args:
        data: The receipt, as JSON.
        index: ``INDEX.toml``.
        file: The file of the recording, if it is there, too.

    Raises:
        ReceiptError: It proves nothing, or something else.
        Untrusted: The index is none, or the file is not what its row says.
    """
    given = _read(data)
    root = trust_index(index)
    head = _head_of(root)
    if given["index"] != blake3_hex(index):
        raise ReceiptError(
            f"it is about another index than this one, which is generation {head.generation} of the store "
            f"{head.store_id}"
        )
    row = _read_row(given["row"])
    expected: dict[str, JsonValue] = {
        "receipt": VERSION,
        "store_id": head.store_id,
        "generation": head.generation,
        "index": given["index"],
        "row": given["row"],
        **_facts_of(row),
    }
    _check_inclusion(root, row, given)
    n, answer = given.get("n"), None
    text = given.get("fixture")
    if text is not None:
        if not isinstance(text, str) or isinstance(n, bool) or not isinstance(n, int):
            raise ReceiptError("it does not say which answer of its file it is about")
        answer = _answer_in(row, text.encode(), n)
        expected |= {"n": n, "answer": answer, "fixture": text}
    if "shard" in given:
        expected["shard"] = given["shard"]
    for name in sorted({*given, *expected}):
        if name not in given or name not in expected or compact(given[name]) != compact(expected[name]):
            raise ReceiptError(f"what it says as {name!r} is not so")
    if file is not None:
        trust_content(row, file)
    return Receipt(row, head, n if isinstance(n, int) else None, answer)


def _read(data: bytes) -> Mapping[str, JsonValue]:
    try:
        given = loads(data)
    except JsonError as error:
        raise ReceiptError(f"it is no JSON: {error}") from None
    if not isinstance(given, dict) or given.get("receipt") != VERSION:
        raise ReceiptError(f"it is no receipt of version {VERSION}")
    if lacking := {"store_id", "generation", "index", "row"} - given.keys():
        raise ReceiptError(f"it does not say {min(lacking)!r}")
    return given


def _read_row(text: JsonValue) -> FileRow:
    """The one row that a text is, written as every writer writes it."""
    try:
        index = parse_index(text) if isinstance(text, str) else Index()
    except IndexSyntaxError as error:
        raise ReceiptError(f"its row is none: {error}") from None
    rows = index.rows
    row = rows[0] if len(rows) == 1 and not index.header and not index.shards else None
    if not isinstance(row, FixtureRow | ScopedRow) or render_row(row) != text:
        raise ReceiptError("its row is not that of one recording")
    if row.prompt_hash is None or (isinstance(row, ScopedRow) and not row.is_fixture):
        raise ReceiptError("its row is not that of one recording")
    return row


def _facts_of(row: FileRow) -> dict[str, JsonValue]:
    """What a row says, for who does not read rows."""
    return {
        "model": row.model,
        "prompt_hash": row.prompt_hash,
        "scope": row.scope if isinstance(row, ScopedRow) else None,
        "path": row.path,
        "blake3": row.blake3,
    }


def _head_of(index: Index) -> Head:
    try:
        head = Head.of(index.header)
    except ChainError as error:
        raise ReceiptError(f"the index has a head that cannot be: {error}") from None
    if head is None:
        raise ReceiptError("the index was never signed")
    return head


def _prove_row(shard: bytes, text: bytes) -> JsonValue:
    at = _find_row(shard, text)
    if at is None:
        raise ReceiptError("its shard is not written as it should be; run `cortex-replay sign --again`")
    # With the line feed before it, and what follows.
    return prove(shard, at, min(at + len(text) + 2, len(shard)))


def _find_row(data: bytes, text: bytes) -> int | None:
    """Where a row stands in a text, from the line feed before it; it is whole, and no part of another."""
    at = data.find(b"\n" + text)
    while at >= 0:
        end = at + 1 + len(text)
        if data[end : end + 1] in _BEHIND:
            return at
        at = data.find(b"\n" + text, at + 1)
    return None


def _check_inclusion(root: Index, row: FileRow, given: Mapping[str, JsonValue]) -> None:
    """See that a row is in an index, or in a shard that it lists."""
    if not root.shards:
        if row not in root.rows or "shard" in given:
            raise ReceiptError("its row is not in the index")
        return
    listed = {shard.name: shard.blake3 for shard in root.shards}
    try:
        shown = read_proof(given.get("shard"))
    except ProofError as error:
        raise ReceiptError(f"the proof that its row is in a shard is none: {error}") from None
    if shown.root != listed.get(shard_of(row)):
        raise ReceiptError("what it proves is not about the shard that its row belongs to")
    if _find_row(shown.data, render_row(row).encode()) is None:
        raise ReceiptError("its row is not in the index")


def _answer_in(row: FileRow, file: bytes, n: int) -> str:
    """The digest of an answer: the BLAKE3 of its ``response``, as compact JSON with sorted names.

    Raises:
        ReceiptError: There is no such answer.
        Untrusted: The file is not what its row says.
    """
    count = len(trust_content(row, file).answers)
    if not 1 <= n <= count:
        raise ReceiptError(f"it has {count} answers, and none is number {n}")
    document: Any = loads(file)  # which is a fixture, as was just seen
    answer = document if n == 1 else document["then"][n - 2]
    return blake3_hex(compact(answer["response"]).encode())
