"""BLAKE3's tree, held against the library; and proofs, of which no byte can be another."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from typing import Any

import pytest
from blake3 import blake3

from cortex_replay.store.signing.hash_tree import CHUNK_BYTES, ProofError, prove, read_proof

RANDOM = random.Random(24)
SIZES = [0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, 2049, 3072, 3073, 4096, 4097, 5121, 7169, 8193, 16385]


@pytest.mark.parametrize("size", SIZES)
def test_the_root_is_what_the_library_says(size: int) -> None:
    text = RANDOM.randbytes(size)
    end = max(size, 1)

    for start in {0, size // 2, max(size - 1, 0)}:
        shown = read_proof(prove(text, start, min(start + 70, end)))
        assert shown.root == blake3(text).hexdigest()
        assert text[start : start + 70] in shown.data
        assert shown.data in text


def test_texts_of_any_size() -> None:
    for _ in range(20):
        text = RANDOM.randbytes(RANDOM.randrange(1, 12 * CHUNK_BYTES))
        start = RANDOM.randrange(len(text))
        end = RANDOM.randrange(start, len(text)) + 1
        shown = read_proof(prove(text, start, end))

        assert (shown.root, text[start:end] in shown.data) == (blake3(text).hexdigest(), True)


def test_a_proof_grows_with_the_logarithm() -> None:
    text = RANDOM.randbytes(64 * CHUNK_BYTES)
    proof = json.dumps(prove(text, 5000, 5001))

    assert proof.count('"chunk"') == 1
    assert len(proof) < 6 * 70 + 1500


def changes_of(node: Any) -> list[Any]:
    """The tree with one value changed, in every way that leaves it a tree of the same form."""
    if isinstance(node, str):
        return [node[:-1] + ("0" if node[-1] != "0" else "1")]
    if isinstance(node, dict):
        number, data = node["chunk"], node["data"]
        other = ("A" if data[0] != "A" else "B") + data[1:]
        return [{"chunk": number + 1, "data": data}, {"chunk": number, "data": other}]
    left, right = node
    return [
        [right, left],
        *([changed, right] for changed in changes_of(left)),
        *([left, changed] for changed in changes_of(right)),
    ]


def test_no_value_of_a_proof_can_be_another() -> None:
    text = RANDOM.randbytes(5 * CHUNK_BYTES + 100)
    root = blake3(text).hexdigest()
    proof = prove(text, 2000, 2100)

    changed = changes_of(proof)
    assert len(changed) > 8
    for other in changed:
        with suppress(ProofError):
            assert read_proof(other).root != root


def test_a_root_is_no_half_and_a_half_no_root() -> None:
    """Else a part of a text could pass for a whole one."""
    text = RANDOM.randbytes(4 * CHUNK_BYTES)
    proof: Any = prove(text, 0, 4 * CHUNK_BYTES)

    assert read_proof(proof).root == blake3(text).hexdigest()
    assert read_proof(proof[0]).root == blake3(text[: 2 * CHUNK_BYTES]).hexdigest()
    halves = [blake3(text[: 2 * CHUNK_BYTES]).hexdigest(), blake3(text[2 * CHUNK_BYTES :]).hexdigest()]
    shown: Any = [halves[0], proof[1]]
    assert read_proof(shown).root != blake3(text).hexdigest()


CHUNK = {"chunk": 0, "data": "QUJD"}


@pytest.mark.parametrize(
    "proof",
    [
        None,
        "a" * 64,
        7,
        [],
        [CHUNK],
        [CHUNK, "a" * 63],
        [CHUNK, "A" * 64],
        ["a" * 64, "b" * 64],
        [CHUNK, CHUNK],
        [CHUNK, {"chunk": 2, "data": "QUJD"}],
        {"chunk": 0},
        {"chunk": True, "data": "QUJD"},
        {"chunk": -1, "data": "QUJD"},
        {"chunk": 0, "data": "QUJ"},
        {"chunk": 0, "data": "QUJD\n"},
        {"chunk": 0, "data": "QUJ="},
        {"chunk": 0, "data": 1},
        {"chunk": 0, "data": "QUJD", "more": 1},
        {"chunk": 0, "data": "QUJD" * 400},
    ],
)
def test_what_is_no_proof_is_refused(proof: Any) -> None:
    with pytest.raises(ProofError):
        read_proof(proof)


def test_a_tree_that_is_too_deep_is_refused() -> None:
    proof: Any = CHUNK
    for _ in range(60):
        proof = [proof, "a" * 64]

    with pytest.raises(ProofError):
        read_proof(proof)
