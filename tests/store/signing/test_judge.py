"""Verdicts on signed indexes: what a chain, a memory and a base say, whoever signed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.hashing import blake3_hex
from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import FixtureRow, Index
from cortex_replay.store.signing.chain import Chain, Entry, Head
from cortex_replay.store.signing.judge import Evidence, Known, check_signed, judge
from cortex_replay.store.signing.ssh import Signer, SshKeygen
from cortex_replay.store.trust import Untrusted

ID, OTHER_ID = "a" * 32, "b" * 32


class Believer(SshKeygen):
    """Takes every signature for a good one: the real program has tests of its own."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))

    def find_signer(self, data: bytes, signature: bytes, signers: bytes) -> Signer:
        return Signer(f"{len(data)}", f"{signature!r}{signers!r}")


def seal(chain: Chain, text: str, store_id: str = ID) -> tuple[Evidence, Chain]:
    """An index that says something, signed after a chain; and the chain with it."""
    digest = blake3_hex(text.encode())
    rows = [FixtureRow(f"fixtures/m/{text}.json", digest, "m", digest)]
    head = chain.next_head(store_id)
    index = render_index(Index.of(rows, head.on({}))).encode()
    longer = Chain.of([*chain.entries, Entry(head.generation, blake3_hex(index))])
    return Evidence(index, b"signature", longer.render()), longer


def chain_of(evidence: Evidence) -> Chain:
    return Chain.parse(evidence.chain or b"")


def grow(*texts: str, chain: Chain | None = None) -> Evidence:
    """The last of several indexes that were signed one after the other."""
    known = chain or Chain()
    evidence = Evidence(b"")
    for text in texts:
        evidence, known = seal(known, text)
    return evidence


def codes(evidence: Evidence, known: Known | None = None) -> list[str]:
    verdict = judge(evidence, known or Known(), Believer(), b"")
    return [finding.code for finding in verdict.findings]


def seen(entry: Entry) -> Known:
    return Known(recall=lambda store_id: entry if store_id == ID else None)


def newest(evidence: Evidence) -> Entry:
    return chain_of(evidence).entries[-1]


def test_what_was_seen_is_an_ancestor_or_the_index_itself() -> None:
    first, third = grow("one"), grow("one", "two", "three")

    assert codes(third) == []
    assert codes(third, seen(newest(first))) == []
    assert codes(third, seen(newest(third))) == []
    assert codes(first, seen(newest(third))) == ["rollback"]


def test_another_road_is_a_fork() -> None:
    mine, theirs = grow("one", "two", "mine", "more"), grow("one", "two", "theirs")

    assert codes(mine, seen(newest(theirs))) == ["fork"]
    assert codes(theirs, seen(newest(grow("one", "two", "mine")))) == ["fork"]


@pytest.mark.parametrize("length", [3, 4])
def test_a_line_that_claims_what_was_seen_helps_nobody(length: int) -> None:
    """Of its own generation a signature vouches for one line; those before are in ``prev``."""
    mine = grow(*("one", "two", "mine", "more")[:length])
    forged = Chain.of([*chain_of(mine).entries, newest(grow("one", "two", "theirs"))])
    evidence = Evidence(mine.index, mine.signature, forged.render())

    assert codes(evidence, seen(newest(grow("one", "two", "theirs")))) == [
        "fork" if length == 3 else "chain-broken"
    ]


def test_a_chain_is_the_one_that_was_signed() -> None:
    evidence = grow("one", "two", "three")
    entries = chain_of(evidence).entries

    for other in (entries[1:], (entries[0], entries[2]), (*entries, Entry(1, "f" * 64))):
        assert codes(Evidence(evidence.index, b"", Chain.of(other).render())) == ["chain-broken"]
    assert codes(Evidence(evidence.index, b"", Chain.of(entries[:2]).render())) == ["signature-stale"]
    longer = Chain.of([*entries, Entry(4, "f" * 64)])
    assert codes(Evidence(evidence.index, b"", longer.render())) == ["rollback"]
    assert codes(Evidence(grow("one", "two", "x").index, b"", longer.render())) == ["rollback"]


def test_a_base_has_to_be_among_the_ancestors() -> None:
    third = grow("one", "two", "three")

    def at(base: Evidence, head: Head) -> Known:
        return Known(base_head=head, base_chain=chain_of(base))

    second = grow("one", "two")
    assert codes(third, at(second, Head(ID, 2, "0" * 64))) == []
    assert codes(third, at(third, Head(ID, 3, "0" * 64))) == []
    assert codes(second, at(third, Head(ID, 3, "0" * 64))) == ["rollback"]
    assert codes(third, at(grow("one", "other"), Head(ID, 2, "0" * 64))) == ["fork"]
    assert codes(third, at(second, Head(OTHER_ID, 2, "0" * 64))) == ["store-replaced"]


def test_the_store_is_the_one_that_is_wanted() -> None:
    assert codes(grow("one"), Known(store_id=ID)) == []
    assert codes(grow("one"), Known(store_id=OTHER_ID)) == ["store-replaced"]


def test_what_is_missing_or_was_changed_is_told() -> None:
    evidence = grow("one")
    plain = render_index(Index()).encode()
    changed = Evidence(evidence.index.replace(b"# end", b"# END"), b"", evidence.chain)
    cases = {
        "unsigned": [
            Evidence(plain),
            Evidence(evidence.index, None, evidence.chain),
            Evidence(evidence.index, b"", None),
        ],
        "signature-stale": [changed],
        "chain-broken": [
            Evidence(evidence.index, b"", b"junk"),
            Evidence(evidence.index.replace(b"generation = 1", b"generation = 0"), b"", evidence.chain),
        ],
        "index-malformed": [Evidence(b"junk", b"", evidence.chain)],
    }
    for code, wrong in cases.items():
        for one in wrong:
            assert codes(one) == [code]
            with pytest.raises(Untrusted) as caught:
                check_signed(one)
            assert caught.value.finding.code == code
    check_signed(evidence)
