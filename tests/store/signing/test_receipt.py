"""Receipts as values: proofs from a shard with many rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cortex_replay.hashing import blake3_hex
from cortex_replay.store.index.grid import render_index, render_root, render_row, render_shard
from cortex_replay.store.index.index import FixtureRow, Index, ScopedRow, ShardRow
from cortex_replay.store.index.shards import shard_of
from cortex_replay.store.signing.chain import Head
from cortex_replay.store.signing.receipt import ReceiptError, check_receipt, make_receipt

HEAD = Head("a" * 32, 1, "0" * 64)
Rows = list[FixtureRow | ScopedRow]


def rows_of_one_shard(count: int) -> Rows:
    """Rows that all belong to the shard 00; every third is a scope's, to a file that it has in common."""
    found: Rows = []
    number = 0
    while len(found) < count:
        number += 1
        digest = blake3_hex(b"%d" % number)
        row = FixtureRow(f"fixtures/m/{digest[:16]}.json", digest, "m", digest)
        if shard_of(row) == "00":
            found.append(row)
            if len(found) % 3 == 0:
                found.append(ScopedRow(*row[:4], scope=f"tests/é {number}"))
    return found[:count]


def seal(rows: Rows) -> tuple[bytes, bytes]:
    """A root, and its one shard."""
    shard = render_shard(Index.of(rows, {})).encode()
    return render_root(HEAD.on({}), [ShardRow("00", blake3_hex(shard))]).encode(), shard


def check(receipt: Any, root: bytes) -> FixtureRow | ScopedRow:
    return check_receipt(json.dumps(receipt).encode(), root).row


@pytest.mark.parametrize("count", [1, 2, 60])
def test_every_row_of_a_shard_is_proved(count: int) -> None:
    rows = rows_of_one_shard(count)
    root, shard = seal(rows)

    for row in rows[:: max(1, count // 4)]:
        receipt = make_receipt(root, row, shard, None, 1)
        assert check(receipt, root) == row
        assert len(json.dumps(receipt)) < 6000


def test_a_row_that_is_not_there_is_not_proved() -> None:
    """By the proof of one that is; by a shard that the root does not list; by a part of a row."""
    rows = rows_of_one_shard(30)
    root, shard = seal(rows[1:])
    missing = rows[0]
    with pytest.raises(ReceiptError):
        make_receipt(root, missing, shard, None, 1)

    receipt = make_receipt(root, rows[1], shard, None, 1)
    facts = {"path": missing.path, "blake3": missing.blake3, "prompt_hash": missing.prompt_hash}
    with pytest.raises(ReceiptError, match="its row is not in the index"):
        check(receipt | facts | {"row": render_row(missing)}, root)
    other, whole = seal(rows)
    forged = make_receipt(other, missing, whole, None, 1)
    with pytest.raises(ReceiptError, match="not about the shard"):
        check(forged | {"index": blake3_hex(root)}, root)


def test_a_part_of_a_row_is_no_row() -> None:
    """A fixture that continues another has one line more than the same without."""
    rows = rows_of_one_shard(2)
    linked = FixtureRow(*rows[0][:4], continues=rows[1].prompt_hash)
    root, shard = seal([linked, rows[1]])

    assert check(make_receipt(root, linked, shard, None, 1), root) == linked
    with pytest.raises(ReceiptError):
        make_receipt(root, FixtureRow(*rows[0][:4]), shard, None, 1)
    receipt = make_receipt(root, linked, shard, None, 1)
    with pytest.raises(ReceiptError, match="its row is not in the index"):
        check(receipt | {"row": render_row(FixtureRow(*rows[0][:4]))}, root)


def test_a_row_in_a_comment_is_no_row() -> None:
    rows = rows_of_one_shard(1)
    root, shard = seal(rows)
    text = render_row(rows[0])
    hidden = shard.replace(text.encode(), "".join(f"# {line}\n" for line in text.splitlines()).encode())
    listed = render_root(HEAD.on({}), [ShardRow("00", blake3_hex(hidden))]).encode()

    with pytest.raises(ReceiptError):
        make_receipt(listed, rows[0], hidden, None, 1)
    assert check(make_receipt(root, rows[0], shard, None, 1), root) == rows[0]


def test_an_index_in_one_file_takes_no_proof() -> None:
    rows = rows_of_one_shard(2)
    root, shard = seal(rows)
    receipt = make_receipt(root, rows[0], shard, None, 1)
    single = render_index(Index.of(rows, HEAD.on({}))).encode()
    with pytest.raises(ReceiptError):
        check(receipt | {"index": blake3_hex(single)}, single)
    del receipt["shard"]
    assert check(receipt | {"index": blake3_hex(single)}, single) == rows[0]
    with pytest.raises(ReceiptError):
        check(receipt, root)


def test_a_row_without_a_key_has_no_receipt() -> None:
    with pytest.raises(ReceiptError, match="has no key"):
        make_receipt(b"", FixtureRow("a.json", "0" * 64), None, None, 1)
