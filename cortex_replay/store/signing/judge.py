"""Whether a signed index is what somebody who may do so signed, and not older than what was seen before.

Every way to fail is a finding of its own:

========================  =====================================================================
``unsigned``              nobody has signed it, or what a signature needs is not there
``signature-stale``       it changed since it was signed
``signature-bad``         the signature is none of these bytes
``signer-unknown``        who signed it is not among those who may
``chain-broken``          the list of signatures is not the one that was signed
``rollback``              it was signed, but a newer one is known
``fork``                  what was signed before is not among its ancestors
``store-replaced``        it is signed, and the index of another store
========================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from cortex_replay.errors import Finding
from cortex_replay.hashing import blake3_hex
from cortex_replay.store.index.index import Index
from cortex_replay.store.paths import INDEX_NAME, MAX_INDEX_BYTES
from cortex_replay.store.signing.chain import (
    CHAIN_NAME,
    MAX_CHAIN_BYTES,
    SIGNATURE_NAME,
    Chain,
    ChainError,
    Entry,
    Head,
)
from cortex_replay.store.signing.ssh import BadSignature, Signer, SshKeygen, Stranger
from cortex_replay.store.source import Source
from cortex_replay.store.trust import Untrusted, trust_index

__all__ = ["MAX_SIGNATURE_BYTES", "Evidence", "Known", "Verdict", "check_signed", "judge", "read_evidence"]

MAX_SIGNATURE_BYTES: Final = 2**16
_SIGN: Final = "cortex-replay sign"
_RESTORE: Final = (
    f"bring {INDEX_NAME}, {SIGNATURE_NAME} and {CHAIN_NAME} from one commit; after a merge of two signed "
    "branches, look at what changed and run: cortex-replay sign --merged"
)
_OLDER: Final = (
    "somebody may have put back an older state: bring the newest one. If you went back yourself, "
    "--trust-anew takes this one for the newest"
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What there is of a signed index, as bytes; nothing of it is trusted yet."""

    index: bytes
    signature: bytes | None = None
    chain: bytes | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known from elsewhere of the store that is judged."""

    store_id: str | None = None
    """Which one it has to be, if the user said so."""
    recall: Callable[[str], Entry | None] = lambda _: None
    """The newest index of a store that was seen, by its id."""
    base_head: Head | None = None
    """What it was in a commit that is trusted, if it was signed there."""
    base_chain: Chain = field(default_factory=Chain)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judgement comes to. Good means: no findings."""

    findings: list[Finding]
    head: Head | None = None
    signer: Signer | None = None
    entry: Entry | None = None
    """The index itself, as a chain lists it, once it is known to be signed."""

    @property
    def is_good(self) -> bool:
        return not self.findings


def read_evidence(source: Source) -> Evidence:
    """Read an index, its signature and its chain.

    Raises:
        Untrusted: One of them cannot be read, or there is no index.
    """
    index = _read(source, INDEX_NAME, MAX_INDEX_BYTES)
    if index is None:
        raise Untrusted(Finding("index-unreadable", INDEX_NAME, "is not there"))
    return Evidence(
        index,
        _read(source, SIGNATURE_NAME, MAX_SIGNATURE_BYTES),
        _read(source, CHAIN_NAME, MAX_CHAIN_BYTES),
    )


def _read(source: Source, name: str, max_bytes: int) -> bytes | None:
    data = source.read(name, max_bytes)
    if isinstance(data, bytes):
        return data
    if data.code == "missing":
        return None
    raise Untrusted(data)


def judge(evidence: Evidence, known: Known, ssh: SshKeygen, signers: bytes) -> Verdict:
    """Judge a signed index. What stands in its rows is checked by others.

    Args:
        evidence: What there is.
        known: What is known from elsewhere.
        ssh: How signatures are checked.
        signers: A list in the form of OpenSSH's ``allowed_signers``.

    Raises:
        StoreIo: ``ssh-keygen`` cannot be run.
    """
    try:
        head = _head_of(trust_index(evidence.index))
        chain = _chain_of(evidence)
    except Untrusted as error:
        return Verdict([error.finding])
    entry = Entry(head.generation, blake3_hex(evidence.index))
    if entry not in chain.entries:
        return Verdict([_stale(head, chain)], head)
    try:
        signer = ssh.find_signer(evidence.index, evidence.signature or b"", signers)
    except BadSignature as error:
        reason = f"is no signature of this {INDEX_NAME}: {error}"
        return Verdict([Finding("signature-bad", SIGNATURE_NAME, reason, _RESTORE)], head)
    except Stranger as error:
        reason = f"is by a key that is not among the signers, or may not sign this: {error}"
        return Verdict([Finding("signer-unknown", SIGNATURE_NAME, reason)], head)
    return Verdict([*_judge_past(head, entry, chain, known)], head, signer, entry)


def _head_of(index: Index) -> Head:
    """The head of a signed index.

    Raises:
        Untrusted: It has none.
    """
    try:
        head = Head.of(index.header)
    except ChainError as error:
        raise Untrusted(Finding("chain-broken", INDEX_NAME, f"has a head that cannot be: {error}")) from None
    if head is None:
        raise Untrusted(Finding("unsigned", INDEX_NAME, "was never signed", _SIGN))
    return head


def _chain_of(evidence: Evidence) -> Chain:
    """The chain of a signed index, if nothing is missing that a signature needs.

    Raises:
        Untrusted: Something is, or it is no chain.
    """
    for name, data in ((SIGNATURE_NAME, evidence.signature), (CHAIN_NAME, evidence.chain)):
        if data is None:
            reason = f"is not there, although {INDEX_NAME} was signed; was it committed?"
            raise Untrusted(Finding("unsigned", name, reason, _SIGN))
    try:
        return Chain.parse(evidence.chain or b"")
    except ChainError as error:
        raise Untrusted(Finding("chain-broken", CHAIN_NAME, str(error), _RESTORE)) from None


def check_signed(evidence: Evidence) -> None:
    """See that an index is as it was when it was signed; by whom, is not asked.

    Raises:
        Untrusted: It was never signed, or changed since.
    """
    head, chain = _head_of(trust_index(evidence.index)), _chain_of(evidence)
    if Entry(head.generation, blake3_hex(evidence.index)) not in chain.entries:
        raise Untrusted(_stale(head, chain))


def _stale(head: Head, chain: Chain) -> Finding:
    if chain.newest > head.generation:
        reason = (
            f"is of generation {head.generation}, and {CHAIN_NAME} has {chain.newest}: an older index was "
            "put back, or the two are of two commits"
        )
        return Finding("rollback", INDEX_NAME, reason, _RESTORE)
    reason = f"changed since it was signed (generation {head.generation})"
    return Finding("signature-stale", INDEX_NAME, reason, f"look at what changed, then run: {_SIGN}")


def _judge_past(head: Head, entry: Entry, chain: Chain, known: Known) -> Iterator[Finding]:
    if known.store_id not in (None, head.store_id):
        reason = f"is that of the store {head.store_id}, and not of {known.store_id}"
        yield Finding("store-replaced", INDEX_NAME, reason)
    if chain.prev_of(head.generation) != head.prev:
        reason = f"does not list the signatures that {INDEX_NAME} was signed with"
        yield Finding("chain-broken", CHAIN_NAME, reason, _RESTORE)
        return
    if chain.newest > head.generation:
        reason = f"is of generation {head.generation}, and {CHAIN_NAME} has {chain.newest}"
        yield Finding("rollback", INDEX_NAME, reason, _RESTORE)
    # Of this generation, the signature vouches for the index itself and for no other line.
    ancestors = {entry, *chain.before(head.generation)}
    seen = known.recall(head.store_id)
    if seen is not None and seen.generation > head.generation:
        reason = (
            f"is of generation {head.generation}; you have seen generation {seen.generation} of this store"
        )
        yield Finding("rollback", INDEX_NAME, reason, _OLDER)
    elif seen is not None and seen not in ancestors:
        reason = f"does not come from the generation {seen.generation} that you have seen of this store"
        yield Finding("fork", INDEX_NAME, reason, _OLDER)
    yield from _judge_base(head, ancestors, known)


def _judge_base(head: Head, ancestors: set[Entry], known: Known) -> Iterator[Finding]:
    base = known.base_head
    if base is None:
        return
    if base.store_id != head.store_id:
        reason = f"is that of the store {head.store_id}; at the base it is that of {base.store_id}"
        yield Finding("store-replaced", INDEX_NAME, reason)
    elif base.generation > head.generation:
        reason = f"is of generation {head.generation}; at the base it is of generation {base.generation}"
        yield Finding("rollback", INDEX_NAME, reason, "bring the branch up to date with its base")
    elif not ancestors.issuperset(known.base_chain.entries):
        reason = "does not come from all that was signed at the base"
        yield Finding("fork", INDEX_NAME, reason, "bring the branch up to date with its base, and sign again")
