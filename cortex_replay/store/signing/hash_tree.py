"""BLAKE3 as the tree that it is: proof that some bytes stand in a text of which only the hash is known.

A text is cut into chunks of 1,024 bytes; each is hashed with its number, and the hashes are joined two by two
up to the root. So the chunks with the wanted bytes, and one hash beside each step of the way up, give the
root again. The library that hashes everything else has no door to these nodes, so they are computed here,
slowly: a few for a check, those of one shard for a proof.

A proof is a tree, too, as plain values: a pair is a list of its two halves, what is not shown is its hash in
hex, and a chunk is an object. Whatever stands in it goes into the hash, so nothing in it can be another.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cortex_replay.canonical import JsonValue
from cortex_replay.hashing import is_digest

__all__ = ["CHUNK_BYTES", "ProofError", "Shown", "prove", "read_proof"]

CHUNK_BYTES: Final = 1024
_BLOCK_BYTES: Final = 64
_CHUNK_START, _CHUNK_END, _PARENT, _ROOT = 1, 2, 4, 8
_MASK: Final = 0xFFFFFFFF
_MOST_LEVELS: Final = 54
_IV: Final = (
    *(0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A),
    *(0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19),
)
_PERMUTATION: Final = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_MIXES: Final = (
    *((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)),
    *((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)),
)
_Words = tuple[int, ...]


class ProofError(ValueError):
    """It is no proof."""


class Shown(NamedTuple):
    """What a proof comes to."""

    root: str
    """The hash of the whole text."""
    data: bytes
    """A part of it."""


def prove(text: bytes, start: int, end: int) -> JsonValue:
    """Proof that the bytes of a text from ``start`` to ``end`` stand in it."""
    count = max(1, -(-len(text) // CHUNK_BYTES))
    wanted = range(start // CHUNK_BYTES, (end - 1) // CHUNK_BYTES + 1)

    def cut(number: int) -> bytes:
        return text[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES]

    def hash_of(first: int, size: int) -> _Words:
        if size == 1:
            return _hash_chunk(cut(first), first)
        half = _half(size)
        return _join(hash_of(first, half), hash_of(first + half, size - half))

    def show(first: int, size: int) -> JsonValue:
        if first >= wanted.stop or first + size <= wanted.start:
            return _hex(hash_of(first, size))
        if size == 1:
            return {"chunk": first, "data": base64.b64encode(cut(first)).decode()}
        half = _half(size)
        return [show(first, half), show(first + half, size - half)]

    return show(0, count)


def read_proof(proof: JsonValue) -> Shown:
    """The hash of the text that a proof is about, and what it shows of it.

    Raises:
        ProofError: It is no proof, or shows pieces that do not follow each other.
    """
    chunks: list[tuple[int, bytes]] = []
    root = _fold(proof, chunks, _MOST_LEVELS, _ROOT)
    numbers = [number for number, _ in chunks]
    if not chunks or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise ProofError("it shows nothing, or pieces that do not follow each other")
    return Shown(_hex(root), b"".join(data for _, data in chunks))


def _fold(node: JsonValue, chunks: list[tuple[int, bytes]], levels: int, flag: int = 0) -> _Words:
    if isinstance(node, str) and is_digest(node) and not flag:
        return struct.unpack("<8I", bytes.fromhex(node))
    if isinstance(node, Mapping):
        chunks.append(_read_chunk(node))
        return _hash_chunk(chunks[-1][1], chunks[-1][0], flag)
    if isinstance(node, Sequence) and not isinstance(node, str) and len(node) == 2 and levels:
        left = _fold(node[0], chunks, levels - 1)
        return _join(left, _fold(node[1], chunks, levels - 1), flag)
    raise ProofError("a piece of it is neither a pair, a chunk nor a hash")


def _read_chunk(node: Mapping[str, JsonValue]) -> tuple[int, bytes]:
    number, text = node.get("chunk"), node.get("data")
    if set(node) != {"chunk", "data"} or not isinstance(text, str):
        raise ProofError("a chunk of it is none")
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**53:
        raise ProofError("a chunk of it has no number")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ProofError("a chunk of it is not base64") from None
    if len(data) > CHUNK_BYTES or base64.b64encode(data).decode() != text:
        raise ProofError("a chunk of it is too long, or written otherwise than it should be")
    return number, data


def _half(size: int) -> int:
    """How many of some chunks are in the left half: a power of two, the largest that leaves some over."""
    return 1 << (size - 1).bit_length() - 1


def _hash_chunk(data: bytes, number: int, flag: int = 0) -> _Words:
    words: _Words = _IV
    blocks = [data[at : at + _BLOCK_BYTES] for at in range(0, len(data), _BLOCK_BYTES)] or [b""]
    for place, block in enumerate(blocks):
        flags = _CHUNK_START if place == 0 else 0
        if place == len(blocks) - 1:
            flags |= _CHUNK_END | flag
        padded = block.ljust(_BLOCK_BYTES, b"\0")
        words = _compress(words, struct.unpack("<16I", padded), number, len(block), flags)
    return words


def _join(left: _Words, right: _Words, flag: int = 0) -> _Words:
    return _compress(_IV, left + right, 0, _BLOCK_BYTES, _PARENT | flag)


def _compress(before: _Words, block: _Words, counter: int, length: int, flags: int) -> _Words:
    """The one function that BLAKE3 is made of; gives the first half of what it gives."""
    state = [*before, *_IV[:4], counter & _MASK, counter >> 32, length, flags]
    for number in range(7):
        if number:
            block = tuple(block[place] for place in _PERMUTATION)
        for mix, (a, b, c, d) in enumerate(_MIXES):
            va, vb, vc, vd = state[a], state[b], state[c], state[d]
            va = va + vb + block[2 * mix] & _MASK
            vd ^= va
            vd = (vd >> 16 | vd << 16) & _MASK
            vc = vc + vd & _MASK
            vb ^= vc
            vb = (vb >> 12 | vb << 20) & _MASK
            va = va + vb + block[2 * mix + 1] & _MASK
            vd ^= va
            vd = (vd >> 8 | vd << 24) & _MASK
            vc = vc + vd & _MASK
            vb ^= vc
            vb = (vb >> 7 | vb << 25) & _MASK
            state[a], state[b], state[c], state[d] = va, vb, vc, vd
    return tuple(state[place] ^ state[place + 8] for place in range(8))


def _hex(words: _Words) -> str:
    return struct.pack("<8I", *words).hex()
